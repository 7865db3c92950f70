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

TOP = 4
"""How many of the likeliest tokens an event shows."""


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
        # A plain list: transformers' own reads the signature of every processor at every call.
        self._warpers: list[LogitsProcessor] = []
        if self.greedy:
            return
        if settings.temperature != 1:
            self._warpers.append(TemperatureLogitsWarper(float(settings.temperature)))
        if settings.top_k:
            self._warpers.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            self._warpers.append(TopPLogitsWarper(float(settings.top_p)))
        if settings.min_p:
            self._warpers.append(MinPLogitsWarper(float(settings.min_p)))

    def process(self, logits: Tensor, tokens: Sequence[int], drafts: Tensor | None = None) -> Tensor:
        """Logits after all processors; -inf where a token is excluded.  # (R, V)

        Args:
            logits: of R consecutive positions.  # (R, V)
            tokens: the committed ids.
            drafts: the ids after them. The last row follows all of them, the row before it all but one, and
                so on back to the first.  # (>= R - 1,)
        """
        scores = logits.to(self.dtype)
        if self._penalty is not None:
            scores = self._penalty(_histories(scores, tokens, drafts), scores)
        for warper in self._warpers:  # each row stands alone, and none of them reads the history
            scores = warper(_NO_HISTORY, scores)
        return scores

    def probabilities(self, scores: Tensor) -> Tensor:
        """The law of each row of processed logits; a point mass if greedy.  # (R, V)"""
        if self.greedy:
            likeliest = scores.argmax(-1, keepdim=True)  # (R, 1)
            return torch.zeros_like(scores).scatter_(-1, likeliest, 1.0)
        return scores.softmax(-1)

    @staticmethod
    def top(scores: Tensor) -> Tensor:
        """The likeliest ids of each row and their probabilities, ids first.  # (R, 2 * TOP)

        A row that holds a NaN or +inf gives NaN probabilities, which is how a broken model is noticed.
        """
        values, ids = scores.topk(min(TOP, scores.shape[-1]), dim=-1)  # (R, TOP) each
        probabilities = (values - scores.logsumexp(-1, keepdim=True)).exp()
        return torch.cat([ids.to(scores.dtype), probabilities], dim=-1)


_NO_HISTORY = torch.empty((1, 0), dtype=torch.long)


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
