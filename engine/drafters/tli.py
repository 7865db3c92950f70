"""A drafting model with another tokenizer that drafts in the tokens both have (token-level intersection).

Timor et al. 2025, "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
Vocabularies" (arXiv 2502.05202). q is the drafter's law over the tokens whose text the target
has as well, normalised; under the target's ids the ordinary rules judge it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.drafters.base import Draft, DrafterContext, Scored, next_id
from engine.drafters.translating import NOTHING, TranslatingDrafter
from engine.draws import Draws
from engine.errors import VocabularyMismatch
from engine.models.shared_tokens import shared_tokens
from engine.sampling import Law


class TliDrafter(TranslatingDrafter):
    """Draws from the tokens that both vocabularies have.

    Raises VocabularyMismatch if there are none.
    """

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        rows, own_rows = context.target.vocab_size, self._model.vocab_size
        shared = shared_tokens(context.target.text, self._model.text)
        self._own_id = {id_: own for id_, own in shared.items() if id_ < rows and own < own_rows}
        if not self._own_id:
            raise VocabularyMismatch(
                "drafter and target have no token in common", 'set draft.method = "slem"'
            )
        device = self._model.device
        self._ids = torch.tensor(list(self._own_id), device=device)  # (S,)
        self._own_ids = torch.tensor(list(self._own_id.values()), device=device)  # (S,)
        self._own_of = torch.zeros(rows, dtype=torch.long, device=device)  # (V,)
        self._own_of[self._ids] = self._own_ids

    def observe(self, scored: Scored) -> None:
        own = [self._own_id[id_] for id_ in scored.drafts]
        self._held += own[: len(self._cache) - len(self._held)]

    def _draft(self, tokens: list[int], own: list[int], k: int, law: Law, draws: Draws) -> Draft:
        if self._transcript.within_character:
            return Draft(NOTHING, reason="the text ends within a character")
        feed: list[int] | Tensor = own[len(self._held) :]
        certain = law.greedy or self.context.greedy
        drafted = torch.empty(0, dtype=torch.long, device=self._model.device)
        drawn_from, tops = [], []
        for index in range(k):
            logits = self._translated(self._model.forward(feed, self._cache, keep=1))  # (1, V)
            laws = law.laws(logits, tokens, drafted, every_id=not draws.by_order)  # R = 1
            id_ = next_id(laws, draws, len(tokens), index, certain=certain)  # (1,)
            if not certain:
                drawn_from.append(laws.widened().p)  # (1, V)
            tops.append(laws.top())
            drafted = torch.cat([drafted, id_])
            feed = self._own_of[id_]
        self._held = own[: len(self._cache)]
        return Draft(drafted, torch.cat(drawn_from) if drawn_from else None, torch.cat(tops))

    def _translated(self, logits: Tensor) -> Tensor:
        """Logits under the target's ids, -inf for what the drafter has no token for.  # (1, D) -> (1, V)"""
        translated = logits.new_full((1, self.context.target.vocab_size), -torch.inf)
        translated[:, self._ids] = logits[:, self._own_ids]
        return translated
