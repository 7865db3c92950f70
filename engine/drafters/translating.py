"""A drafting model that reads the committed text through its own tokenizer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import torch

from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.drafters.transcript import Transcript
from engine.draws import Draws
from engine.prefill import catch_up, prefill, rewind_to_prefix
from engine.sampling import Law

NOTHING = torch.empty(0, dtype=torch.long)


class TranslatingDrafter(Drafter):
    """Keeps a model's cache in step with a text whose ids are another vocabulary's."""

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        assert context.model is not None, "the method needs a model"
        self._model = context.model
        self._cache = self._model.new_cache()
        self._held: list[int] = []  # own ids in the cache; after a round the drafts among them, judged or not
        self._transcript = Transcript(context.target.text, self._model.text)

    def reserve(self, tokens: int) -> None:
        self._cache.reserve(min(tokens, self._model.context_length))

    def forget(self) -> None:
        self._cache.clear()
        self._held.clear()
        self._transcript.clear()

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        ids = self._sync(tokens)
        if self._reason(ids):
            return
        for done in prefill(self._model, self._cache, ids):
            self._held = ids[: len(self._cache)]
            yield done

    def prefill_cost(self, tokens: list[int]) -> int:
        ids = self._sync(tokens)
        return 0 if self._reason(ids) else max(0, len(ids) - 1 - len(self._cache))

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        own = self._sync(tokens)
        reason = self._reason(own)
        if reason:
            return Draft(NOTHING, reason=reason)
        if catch_up(self._model, self._cache, own):
            self._held = own[: len(self._cache)]
        room = self._model.context_length - len(own)
        draft = self._draft(tokens, own, min(k, room), law, draws)
        return draft if draft.reason or room >= k else replace(draft, reason="drafter context near its end")

    @abstractmethod
    def _draft(self, tokens: list[int], own: list[int], k: int, law: Law, draws: Draws) -> Draft:
        """Up to k >= 1 guesses in the target's ids, with no more than k passes.

        Args:
            own: the committed text in own ids; ``_held`` counts those that need no pass.
        """

    def take_ms(self) -> float:
        return self._model.clock.take_ms()

    def _sync(self, tokens: list[int]) -> list[int]:
        """The committed text in own ids; the cache is rewound to what it shares with them."""
        self._transcript.sync(tokens)
        ids = list(self._transcript.ids)
        length = rewind_to_prefix(self._cache, self._held, ids) if ids else 0
        del self._held[length:]
        return ids

    def _reason(self, ids: list[int]) -> str | None:
        """Why this model cannot go on from its own ids; None if it can. To be asked after ``_sync``."""
        if not ids:
            return "no text that could be read"
        if len(ids) >= self._model.context_length:
            return "drafter context full"
        unknown = max(ids[len(self._held) :], default=0)
        if unknown >= self._model.vocab_size:
            return f"the drafter has no token {unknown}"
        return None
