"""The laws of consecutive positions, over as few ids as they need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.largest import Chunks

TOP = 4
"""How many of the likeliest tokens an event shows."""
_WIDTH = 64
"""Candidates of a row are filled up to a multiple of this many, so that sums over them are made alike."""


def may_count(device: torch.device) -> bool:
    """Whether a tensor may be as long as a count on the device says: a GPU's work would be waited for."""
    return device.type == "cpu"


@dataclass(frozen=True, slots=True)
class Laws:
    """The laws of R positions as one matrix, U of the V ids wide.

    An id that no row allows and that nobody drafted can neither be accepted nor drawn, so its column may be
    left out. The ids stay in order: whatever draws by inversion draws the same token from fewer columns.
    """

    p: Tensor
    """Probabilities, each row sums to 1.  # (R, U)"""
    ids: Tensor | None
    """The id of each column, ascending; None: all of them, a column's number is its id.  # (U,)"""
    vocab_size: int
    """V."""
    scores: Chunks | None = None
    """Scores behind p, where p itself is a point mass and does not say what else was likely."""

    @classmethod
    def point_masses(cls, scores: Chunks, drafts: Tensor | None) -> Laws:
        """All mass of each row on its likeliest id.

        Args:
            drafts: ids that shall have a column besides; None: every id has one.
        """
        likeliest, dtype = scores.argmax(), scores.maxima.dtype  # (R,)
        if drafts is not None:
            ids = torch.unique(torch.cat([likeliest, drafts]))  # (U,)
            return cls((ids == likeliest[:, None]).to(dtype), ids, scores.width, scores)
        p = scores.maxima.new_zeros(len(likeliest), scores.width).scatter_(1, likeliest[:, None], 1.0)
        return cls(p, None, scores.width, scores)

    def ids_of(self, columns: Tensor) -> Tensor:
        """The ids of columns; any shape."""
        return columns if self.ids is None else self.ids[columns]

    def columns_of(self, ids: Tensor) -> Tensor:
        """The columns of ids, all of which must have one; any shape."""
        return ids if self.ids is None else torch.searchsorted(self.ids, ids)

    def narrowed(self, q: Tensor) -> Tensor:
        """Laws over the first C ids in these columns; 0 where an id is none of them.  # (K, C) -> (K, U)"""
        if self.ids is None:
            return q
        known = self.ids < q.shape[1]  # (U,)
        return q.index_select(1, self.ids.clamp(max=q.shape[1] - 1)) * known

    def widened(self) -> Laws:
        """The same laws with a column for every id, U = V."""
        if self.ids is None:
            return self
        p = self.p.new_zeros(len(self.p), self.vocab_size).index_copy_(1, self.ids, self.p)  # (R, V)
        return Laws(p, None, self.vocab_size, self.scores)

    def likeliest(self) -> Tensor:
        """The column of the likeliest id of each row.  # (R,)"""
        return Chunks(self.p, self.p.dtype).argmax() if self.ids is None else self.p.argmax(-1)

    def sound(self) -> Tensor:
        """Whether the logits of each row were finite.  # (R,)"""
        return self.p.amax(-1).isfinite() if self.scores is None else self.scores.finite()

    def top(self) -> Tensor:
        """The likeliest ids of each row and their probabilities, ids first.  # (R, 2 * TOP)

        Of a point mass: those of the softmax that it was taken from. A row of logits that held a NaN or +inf
        gives NaN probabilities, which is how a broken model is noticed.
        """
        if self.scores is not None:
            values, ids = self.scores.topk(TOP)  # (R, TOP) each
            probabilities = (values - self.scores.logsumexp()).exp()
        elif self.ids is None:
            probabilities, ids = Chunks(self.p, self.p.dtype).topk(TOP)
        else:  # few columns: they are sooner sorted than cut into chunks
            probabilities, columns = self.p.topk(min(TOP, self.p.shape[1]))
            ids = self.ids_of(columns)
        return torch.cat([ids.to(probabilities.dtype), probabilities], dim=-1)


class Candidates:
    """What can be among the ``reach`` largest of each row, side by side.

    Args:
        rows: of scores, divided by the temperature.  # (R, V)
    """

    def __init__(self, rows: Chunks, reach: int) -> None:
        self._vocab_size = rows.width
        self._row, self._ids, values = rows.candidates(reach)  # (N,) each
        self._counts = torch.bincount(self._row, minlength=len(rows.maxima))  # (R,)
        starts = self._counts.cumsum(0) - self._counts  # (R,)
        self._place = torch.arange(len(self._row)) - starts[self._row]  # (N,) in its row
        width = -(-int(self._counts.amax()) // _WIDTH) * _WIDTH
        self.own = values.new_full((len(self._counts), width), -torch.inf)
        """The scores of each row's candidates, in the order of their ids, then -inf.  # (R, M)"""
        self.own[self._row, self._place] = values

    def nucleus(self, logsumexp: Tensor, top_p: float) -> Tensor:
        """``own`` after top-p: -inf for the least likely ids, together no more than 1 - top_p.  # (R, M)

        What is no candidate is less likely than any, so it counts first.

        Args:
            logsumexp: of all scores of each row.  # (R, 1)
        """
        probabilities = (self.own - logsumexp).exp()  # (R, M)
        ordered, order = probabilities.sort(dim=-1, stable=True)
        outside = (1 - ordered.sum(-1, keepdim=True)).clamp(min=0)  # (R, 1)
        removed = outside + ordered.cumsum(-1) <= 1 - top_p  # (R, M)
        removed[:, -1] = False
        return self.own.masked_fill(removed.scatter(1, order, removed), -torch.inf)

    def rows_without_end(self, kept: Tensor) -> Tensor:
        """Rows whose least candidate was kept, so that ids that are no candidates might have been.  # (r,)

        Args:
            kept: ``own``, -inf where an id was excluded.  # (R, M)
        """
        filled = torch.arange(kept.shape[1]) >= self._counts[:, None]  # (R, M)
        least = self.own.masked_fill(filled, torch.inf).argmin(-1, keepdim=True)  # (R, 1)
        ended = (kept.gather(1, least)[:, 0] == -torch.inf) | (self._counts == self._vocab_size)  # (R,)
        return ended.logical_not().nonzero()[:, 0]

    def laws(self, probabilities: Tensor, drafts: Tensor) -> Laws:
        """As laws over the candidates of all rows and the drafts.

        Args:
            probabilities: of ``own``.  # (R, M)
            drafts: ids that shall have a column besides.
        """
        ids, column = torch.unique(torch.cat([self._ids, drafts]), return_inverse=True)  # (U,), (N + K,)
        p = probabilities.new_zeros(len(probabilities), len(ids))
        p[self._row, column[: len(self._row)]] = probabilities[self._row, self._place]
        return Laws(p, ids, self._vocab_size)
