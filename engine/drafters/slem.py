"""A drafting model with another tokenizer: its draft goes over as text (string-level exact match).

Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
Vocabularies" (arXiv 2502.05202). Which token of its own the drafter drew does not matter: what
reaches the target are ids of the target's, without a law, and every rule takes them as certain guesses.
"""

from __future__ import annotations

from itertools import takewhile

import torch
from torch import Tensor

from engine.drafters.base import Draft, next_id
from engine.drafters.translating import TranslatingDrafter
from engine.draws import Draws
from engine.laws import may_count
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
        feed: list[int] | Tensor = own[len(self._held) :]
        drafted = torch.empty(0, dtype=torch.long, device=self._model.device)
        sound = []
        for index in range(k):
            if index and may_count(self._model.device) and int(feed[0]) in control:
                break
            logits = self._model.forward(feed, self._cache, keep=1)  # (1, D)
            laws = law.laws(logits, own, drafted, every_id=not draws.by_order)  # R = 1
            feed = next_id(laws, draws, position, index, certain=law.greedy or self.context.greedy)  # (1,)
            drafted = torch.cat([drafted, feed])
            sound.append(laws.sound())  # (1,)
        # One read for all of them: what a GPU drafted behind a control token is dropped.
        numbers = torch.cat([drafted, *sound]).tolist()
        ids = numbers[: len(sound)]
        if not all(numbers[len(sound) :]):
            raise not_finite("drafter", self._model.info.dtype)
        self._held = [*own, *ids][: len(self._cache)]
        return list(takewhile(lambda id_: id_ not in control, ids))
