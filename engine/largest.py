"""The largest entries of long rows, and their log-sum-exp, in as few readings as they need.

A vocabulary has 50,000 to 250,000 ids. torch's ``argmax`` and ``topk`` over so many entries cost several
times what reading them once does. The maxima of chunks cost one reading, and a chunk that holds one of the
largest entries has one of the largest maxima, so what is left to search is short. Everything else is arranged
to touch little memory: right after a pass nothing of this is in the processor's caches.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 128
"""Entries of a chunk where a few of the largest are wanted."""
_CHUNKS_PER_ENTRY = 4
"""Chunks at least for each entry that is wanted, so that most of them need not be searched."""


def chunk_size(width: int, k: int) -> int:
    """Entries of a chunk for the ``k`` largest of ``width``: a power of two up to ``CHUNK``."""
    size = CHUNK
    while size > 1 and width < size * k * _CHUNKS_PER_ENTRY:
        size //= 2
    return size


class Chunks:
    """Rows of scores, cut into chunks whose maxima are known. A NaN counts as the largest of all.

    Args:
        rows: the scores, in any number format.  # (R, V)
        dtype: in which they are computed with.
        size: entries of a chunk, C; the last one is filled up with -inf. There are n = ceil(V / C) of them.
        divisor: of the scores in ``candidates`` and ``logsumexp``.
    """

    def __init__(self, rows: Tensor, dtype: torch.dtype, size: int = CHUNK, divisor: float = 1.0) -> None:
        self._size, self._dtype, self._divisor = size, dtype, divisor
        self.width = rows.shape[1]
        missing = -self.width % size
        self._is_filled_up = missing > 0
        wide = _row_major(rows, dtype)
        if missing:
            wide = torch.nn.functional.pad(wide, (0, missing), value=-torch.inf)
        self._is_own = wide is not rows  # a copy that may be spent
        self._wide: Tensor | None = wide  # (R, n * C)
        self.maxima = wide.view(len(wide), -1, size).amax(-1)  # (R, n)
        count = self.maxima.shape[1]
        self._first = torch.arange(0, len(wide) * count, count, device=wide.device)  # (R,)

    def logsumexp(self) -> Tensor:
        """log(sum(exp(row))) of each row; NaN for one that is not ``finite``.  # (R, 1)

        To be asked last: it spends the entries.
        """
        wide, self._wide = self._entries(), None
        largest = self.maxima.amax(-1, keepdim=True)  # (R, 1)
        below = wide.sub_(largest) if self._is_own else wide - largest
        if self._divisor != 1:
            below.div_(self._divisor)
        # Chunk by chunk: torch sums a single long row in another order than several.
        sums = below.exp_().view(len(below), -1, self._size).sum(-1)  # (R, n)
        return sums.sum(-1, keepdim=True).log_() + largest / self._divisor

    def finite(self) -> Tensor:
        """Whether a row has no NaN, no +inf, and not -inf only.  # (R,)"""
        return self.maxima.amax(-1).isfinite()

    def argmax(self) -> Tensor:
        """The first of the largest entries of each row, as ``Tensor.argmax`` gives it.  # (R,)"""
        best = self.maxima.argmax(-1)  # (R,)
        return best * self._size + self._taken(self._first + best).argmax(-1)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest entries of each row and their places, the largest first.  # (R, k) each"""
        count = min(k, self.maxima.shape[1])
        best = self.maxima.topk(count, sorted=False).indices  # (R, k)
        searched = self._taken((self._first[:, None] + best).flatten()).view(len(best), -1)  # (R, k * C)
        if self._is_filled_up:  # an entry that is -inf comes before what fills the last chunk up
            places = (best[:, :, None] * self._size + torch.arange(self._size, device=best.device)).flatten(1)
            lowest = torch.finfo(self._dtype).min
            searched = searched.clamp(min=lowest).masked_fill(places >= self.width, -torch.inf)
        values, at = searched.topk(min(k, self.width))  # (R, k) each
        return values, best.gather(1, at // self._size) * self._size + at % self._size

    def candidates(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Row, place and value of every entry that can be among the k largest of its row, ties included.

        In the order of row and place. How many there are is read, see ``engine.laws.may_count``.

        Args:
            k: no more than there are chunks.
        """
        assert k <= self.maxima.shape[1], "too few chunks to tell the k-th largest entry"
        # Compared as divided, since rounding may make two of them equal.
        maxima = self.maxima / self._divisor  # (R, n)
        # k chunks reach it, so k entries do. "Not below" lets a NaN pass, which is to be noticed.
        floor = maxima.topk(k, sorted=False).values.amin(-1, keepdim=True)  # (R, 1)
        row, chunk = (~(maxima < floor)).nonzero(as_tuple=True)  # (H,) each
        searched = self._taken(self._first[row] + chunk) / self._divisor  # (H, C)
        hit, inside = (~(searched < floor[row])).nonzero(as_tuple=True)  # (N,) each
        place = chunk[hit] * self._size + inside  # (N,)
        if self._is_filled_up:
            real = place < self.width
            hit, inside, place = hit[real], inside[real], place[real]
        return row[hit], place, searched[hit, inside]

    def _taken(self, numbers: Tensor) -> Tensor:
        """Chunks by their numbers, counted over all rows.  # (n,) -> (n, C)"""
        return self._entries().view(-1, self._size).index_select(0, numbers)

    def _entries(self) -> Tensor:
        assert self._wide is not None, "the entries were spent on their sum"
        return self._wide


def _row_major(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows in a dtype, one behind the other in memory; the same tensor if they are.  # (R, V)

    A pass may leave its logits column by column. torch's ``contiguous`` takes twice as long for a few rows of
    so many as widening does that orders them on the way, and as copying row by row.
    """
    if rows.dtype != dtype:
        return rows.to(dtype, memory_format=torch.contiguous_format)
    return rows if rows.is_contiguous() else torch.stack(rows.unbind(0))
