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
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.events import Settings
from engine.largest import Chunks, chunk_size
from engine.laws import TOP, Candidates, Laws, may_count


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
        # Plain lists: transformers' own reads the signature of every processor at every call.
        self._top_k, self._top_p, min_p = settings.top_k, float(settings.top_p), float(settings.min_p)
        self._after_top_p: list[LogitsProcessor] = [MinPLogitsWarper(min_p)] if min_p else []
        self._after_temperature: list[LogitsProcessor] = [
            *([TopKLogitsWarper(self._top_k)] if self._top_k else []),
            *([TopPLogitsWarper(self._top_p)] if self._top_p < 1 else []),
            *self._after_top_p,
        ]
        self._reach = max(self._top_k, TOP) if self._top_k else _REACH
        """How many of the likeliest ids of a row are looked at, where a processor excludes some."""

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
            every_id: keep the columns of all ids; the probabilities are the same.
        """
        scores, size = self.penalised(logits, tokens, drafts), logits.shape[1]
        wanted = _NOTHING if drafts is None else drafts
        if self.greedy:
            chunks = Chunks(scores, self.dtype)
            laws = Laws.point_masses(chunks, wanted if may_count(scores.device) and not every_id else None)
        elif self._after_temperature and self._reach < size and may_count(scores.device):
            laws = self._narrow(scores, wanted)
        else:
            laws = Laws(self.probabilities(self._warped(scores)), None, size)
        return laws.widened() if every_id else laws

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
        """Logits after the repetition penalty, which alone reads the history; else as given.  # (R, V)"""
        if self._penalty is None:
            return logits
        scores = logits.to(self.dtype)
        penalised: Tensor = self._penalty(_histories(scores, tokens, drafts), scores)
        return penalised

    def probabilities(self, scores: Tensor) -> Tensor:
        """The law of each row of processed logits; a point mass if greedy.  # (R, V)"""
        return Laws.point_masses(Chunks(scores, self.dtype), None).p if self.greedy else scores.softmax(-1)

    def _warped(self, scores: Tensor) -> Tensor:
        """Scores after the processors that look at a row alone.  # (R, V)"""
        scores = scores.to(self.dtype)
        if self.greedy:
            return scores
        if self._temperature != 1:
            scores = scores / self._temperature
        return _applied(self._after_temperature, scores)

    def _narrow(self, scores: Tensor, drafts: Tensor) -> Laws:
        """The laws over what some row may keep, and the drafts.

        A row's candidates are processed alone, so it gets the same bits whatever rows are beside it.
        """
        size = scores.shape[1]
        chunks = Chunks(scores, self.dtype, chunk_size(size, self._reach), self._temperature)
        found = Candidates(chunks, self._reach)
        if self._top_k:  # no other id has a part in what comes after top-k
            return found.laws(_applied(self._after_temperature, found.own).softmax(-1), drafts)
        own = found.own
        if self._top_p < 1:
            own = found.nucleus(chunks.logsumexp(), self._top_p)
        own = _applied(self._after_top_p, own)
        laws = found.laws(own.softmax(-1), drafts)
        open_rows = found.rows_without_end(own)  # (r,)
        if not len(open_rows):
            return laws
        p = laws.widened().p
        p[open_rows] = self.probabilities(self._warped(scores[open_rows]))
        return Laws(p, None, size)


_NOTHING = torch.empty(0, dtype=torch.long)
_NO_HISTORY = torch.empty((1, 0), dtype=torch.long)
_REACH = 256
"""Candidates of a row where no top-k says how many: most nuclei have fewer tokens."""


def _applied(processors: Sequence[LogitsProcessor], scores: Tensor) -> Tensor:
    """Each row stands alone: none of these reads the history.  # (R, M)"""
    for processor in processors:
        scores = processor(_NO_HISTORY, scores)
    return scores


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
