"""A drafting model with another tokenizer: its draft goes over as text (string-level exact match).

Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
Vocabularies" (arXiv 2502.05202). Which token of its own the drafter drew does not matter: what
reaches the target are ids of the target's, without a law, and every rule takes them as certain guesses.
"""

from __future__ import annotations

from itertools import takewhile
from math import isfinite

import torch

from engine.drafters.base import Draft
from engine.drafters.translating import TranslatingDrafter
from engine.draws import Draws
from engine.readout import not_finite
from engine.sampling import Law


class SlemDrafter(TranslatingDrafter):
    """Drafts text in its own tokens; the target's tokenizer turns it into guesses."""

    def _draft(self, tokens: list[int], own: list[int], k: int, law: Law, draws: Draws) -> Draft:
        written = self._write(own, k, law, draws, len(tokens))
        ids = self._transcript.continued(b"".join(map(self._model.text.piece, written)))
        ids = list(takewhile(lambda id_: id_ < self.context.target.vocab_size, ids[:k]))
        return Draft(
            torch.tensor(ids, dtype=torch.long), reason=None if ids else "no whole token was drafted"
        )

    def _write(self, own: list[int], k: int, law: Law, draws: Draws, position: int) -> list[int]:
        """Up to k ids of its own that follow ``own``, up to its first control token.

        Raises NumericalError: the rules never see these logits, so it is here that they are looked at.
        """
        control = self._model.text.special_ids | self._model.eos_ids
        feed, written = own[len(self._held) :], list[int]()
        for index in range(k):
            logits = self._model.forward(feed, self._cache, keep=1)  # (1, D)
            drafted = torch.tensor(written, dtype=torch.long) if written else None
            scores = law.process(logits, own, drafted)  # (1, D)
            if law.greedy or self.context.greedy:
                token = scores.argmax(-1)  # (1,)
            else:
                token = draws.draft(law.probabilities(scores)[0], position, index)[None]  # (1,)
            id_, mass = torch.cat([token.to(scores.dtype), scores.logsumexp(-1)]).tolist()
            if not isfinite(mass):
                raise not_finite("drafter", self._model.info.dtype)
            if int(id_) in control:
                break
            feed = [int(id_)]
            written += feed
        self._held = [*own, *written][: len(self._cache)]
        return written
