"""A second, smaller causal LM that guesses token by token (Leviathan et al. 2023, Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.drafters.base import Draft, Drafter, DrafterContext, Scored, next_id
from engine.draws import Draws
from engine.prefill import catch_up, prefill, rewind_to_prefix
from engine.sampling import Law

NOTHING = torch.empty(0, dtype=torch.long)


class ModelDrafter(Drafter):
    """Runs the model that ``[draft] model_name`` names."""

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        assert context.model is not None, "the method `model` needs a model"
        self._model = context.model
        self._cache = self._model.new_cache()
        self._held: list[int] = []  # ids in the cache; after a round the drafts among them, judged or not

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(min(tokens, self._model.context_length))

    def forget(self) -> None:
        self._cache.clear()
        self._held.clear()

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        self._sync(tokens)
        if self._reason(tokens):
            return
        for done in prefill(self._model, self._cache, tokens):
            self._held = tokens[: len(self._cache)]
            yield done

    def prefill_cost(self, tokens: list[int]) -> int:
        length = self._sync(tokens)
        return 0 if self._reason(tokens) else max(0, len(tokens) - 1 - length)

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        room = self._model.context_length - len(tokens)
        trimmed = "drafter context near its end" if room < k else None
        k = min(k, room)
        length = self._sync(tokens)
        reason = self._reason(tokens)
        if k < 1 or reason:
            return Draft(NOTHING, reason=reason or "drafter context full")
        if catch_up(self._model, self._cache, tokens):
            self._held, length = tokens[: len(self._cache)], len(self._cache)
        # One token after a rejection, two after a full accept: the last draft was never fed. More where
        # rounds went by without this drafter: it reads along only when it is asked.
        feed: list[int] | Tensor = tokens[length:]
        certain = law.greedy or self.context.greedy
        drafted = torch.empty(0, dtype=torch.long, device=self._model.device)
        drawn_from, tops = [], []
        for index in range(k):
            logits = self._model.forward(feed, self._cache, keep=1)[:, : self.context.common_ids]  # (1, C)
            laws = law.laws(logits, tokens, drafted, every_id=not draws.by_order)  # R = 1
            feed = next_id(laws, draws, len(tokens), index, certain=certain)  # (1,)
            if not certain:
                drawn_from.append(laws.widened().p)  # (1, C)
            tops.append(laws.top())
            drafted = torch.cat([drafted, feed])
        self._held = tokens[: len(self._cache)]
        return Draft(drafted, torch.cat(drawn_from) if drawn_from else None, torch.cat(tops), trimmed)

    def observe(self, scored: Scored) -> None:
        self._held += scored.drafts[: len(self._cache) - len(self._held)]

    def take_ms(self) -> float:
        return self._model.clock.take_ms()

    def _sync(self, tokens: list[int]) -> int:
        """Rewind the cache to what it shares with the committed tokens; returns its length."""
        length = rewind_to_prefix(self._cache, self._held, tokens)
        del self._held[length:]
        return length

    def _reason(self, tokens: list[int]) -> str | None:
        """Why this model cannot read these tokens; None if it can. To be asked after ``_sync``."""
        if len(tokens) >= self._model.context_length:
            return "drafter context full"
        unknown = max(tokens[len(self._held) :], default=0)
        if unknown >= self.context.common_ids:
            return f"the drafter has no token {unknown}"
        return None
