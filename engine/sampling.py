"""From logits to the law a token is drawn from: one function for the target's p and the drafter's q.

The processors are those of transformers, applied in the order of its ``generate``: repetition penalty,
temperature, top-k, top-p, min-p. Everything happens in float32 (or float64 for proofs), whatever the models'
dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.events import Settings
from engine.largest import Chunks, chunk_size
from engine.laws import TOP, Laws


class Law:
    """The processors of one segment.

    Args:
        settings: temperature 0 is greedy: the law is a point mass on the likeliest token.
        dtype: of the probabilities.
    """

    def __init__(self, settings: Settings, dtype: torch.dtype = torch.float32) -> None:
        self.greedy = settings.temperature == 0
        self.dtype = dtype
        self._penalty = None
        if settings.repetition_penalty != 1:
            self._penalty = RepetitionPenaltyLogitsProcessor(float(settings.repetition_penalty))
        self._temperature = float(settings.temperature)
        self._top_k = 0 if self.greedy else settings.top_k
        # Plain lists: transformers' own reads the signature of every processor at every call.
        self._warpers: list[LogitsProcessor] = []
        """Those after the temperature."""
        if self.greedy:
            return
        if settings.top_k:
            self._warpers.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            self._warpers.append(TopPLogitsWarper(float(settings.top_p)))
        if settings.min_p:
            self._warpers.append(MinPLogitsWarper(float(settings.min_p)))

    def laws(
        self,
        logits: Tensor,
        tokens: Sequence[int],
        drafts: Tensor | None = None,
        *,
        every_id: bool = False,
    ) -> Laws:
        """The laws of R consecutive positions; arguments as of ``process``.

        Args:
            every_id: keep the columns of all ids. On a GPU they are kept anyway: how many columns are left
                would be a number to wait for.
        """
        scores, size = self.penalised(logits, tokens, drafts), logits.shape[1]
        narrow = scores.device.type == "cpu" and not every_id
        if drafts is None:
            drafts = _NOTHING
        if self.greedy:
            chunks = Chunks(scores)
            likeliest = chunks.argmax()  # (R,)
            ids = torch.cat([likeliest, drafts]).unique() if narrow else None
            return Laws(_point_masses(scores, likeliest, ids), ids, size, chunks)
        if narrow and 0 < self._top_k < size:
            return self._narrow(scores, drafts)
        return Laws(self.probabilities(self._warped(scores)), None, size)

    def process(self, logits: Tensor, tokens: Sequence[int], drafts: Tensor | None = None) -> Tensor:
        """Logits after all processors; -inf where a token is excluded.  # (R, V)

        Args:
            logits: of R consecutive positions.  # (R, V)
            tokens: the committed ids.
            drafts: the ids after them. The last row follows all of them, the row before it all but one, and
                so on back to the first.  # (>= R - 1,)
        """
        return self._warped(self.penalised(logits, tokens, drafts))

    def penalised(self, logits: Tensor, tokens: Sequence[int], drafts: Tensor | None = None) -> Tensor:
        """Logits in this law's dtype after the repetition penalty, which alone reads the history.  # (R, V)"""
        scores = logits.to(self.dtype)
        if self._penalty is not None:
            scores = self._penalty(_histories(scores, tokens, drafts), scores)
        return scores

    def probabilities(self, scores: Tensor) -> Tensor:
        """The law of each row of processed logits; a point mass if greedy.  # (R, V)"""
        return _point_masses(scores, Chunks(scores).argmax(), None) if self.greedy else scores.softmax(-1)

    def _warped(self, scores: Tensor) -> Tensor:
        if not self.greedy and self._temperature != 1:
            scores = scores / self._temperature
        return self._excluded(scores)

    def _excluded(self, scores: Tensor) -> Tensor:
        """After top-k, top-p and min-p, each of which looks at a row alone.  # (R, M)"""
        for warper in self._warpers:
            scores = warper(_NO_HISTORY, scores)
        return scores

    def _narrow(self, scores: Tensor, drafts: Tensor) -> Laws:
        """The laws over what top-k may keep in any row, and the drafts: the same probabilities.

        The processors see each row's own candidates only, as the other ids have no part in what comes after
        top-k. So a row gives the same bits whatever rows are beside it.
        """
        rows, size = scores.shape
        kept = max(self._top_k, TOP)
        row, ids, values = Chunks(scores, chunk_size(size, kept)).candidates(kept, self._temperature)  # (N,)
        counts = torch.bincount(row, minlength=rows)  # (R,)
        place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]  # (N,) in its row
        width = -(-int(counts.amax()) // _WIDTH) * _WIDTH
        own = scores.new_full((rows, width), -torch.inf).index_put_((row, place), values)  # (R, M)
        probabilities = self._excluded(own).softmax(-1)  # (R, M)
        columns, column = torch.cat([ids, drafts]).unique(return_inverse=True)  # (U,), (N + K,)
        p = scores.new_zeros(rows, len(columns))
        p.index_put_((row, column[: len(row)]), probabilities[row, place])  # (R, U)
        return Laws(p, columns, size)


_NOTHING = torch.empty(0, dtype=torch.long)
_NO_HISTORY = torch.empty((1, 0), dtype=torch.long)
_WIDTH = 64
"""Candidates of a row are filled up to a multiple of this many, so that sums over them are made alike."""


def _point_masses(scores: Tensor, likeliest: Tensor, ids: Tensor | None) -> Tensor:
    """All mass of each row on its likeliest id.  # (R, V), or (R, U) over these ids"""
    if ids is None:
        return torch.zeros_like(scores).scatter_(-1, likeliest[:, None], 1.0)
    return (ids == likeliest[:, None]).to(scores.dtype)


def _histories(scores: Tensor, tokens: Sequence[int], drafts: Tensor | None) -> Tensor:
    """The ids before each row, padded with one that occurs anyway.  # (R, L + len(drafts))"""
    rows = scores.shape[0]
    seen = torch.tensor(list(dict.fromkeys(tokens)), device=scores.device).expand(rows, -1)  # (R, L)
    if rows == 1 and drafts is None:
        return seen
    assert drafts is not None, "several rows need the drafts between them"
    drafts, n = drafts.to(scores.device), len(drafts)
    known = torch.arange(n - rows + 1, n + 1, device=scores.device)[:, None]  # (R, 1) drafts before each row
    after = torch.arange(n, device=scores.device) >= known  # (R, n)
    return torch.cat([seen, torch.where(after, seen[:, :1], drafts)], dim=1)
