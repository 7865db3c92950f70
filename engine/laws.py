"""The laws of consecutive positions, over as few ids as they need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.largest import Chunks

TOP = 4
"""How many of the likeliest tokens an event shows."""


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

    def widened(self) -> Tensor:
        """The laws over all ids.  # (R, V)"""
        if self.ids is None:
            return self.p
        return self.p.new_zeros(len(self.p), self.vocab_size).index_copy_(1, self.ids, self.p)

    def likeliest(self) -> Tensor:
        """The column of the likeliest id of each row.  # (R,)"""
        return Chunks(self.p).argmax() if self.ids is None else self.p.argmax(-1)

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
        else:
            probabilities, columns = Chunks(self.p).topk(TOP)  # (R, TOP) each
            ids = self.ids_of(columns)
        return torch.cat([ids.to(probabilities.dtype), probabilities], dim=-1)
