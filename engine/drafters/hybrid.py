"""Two drafters in one: what a long match says is copied, where there is none a model guesses.

Which of them guesses depends on the committed tokens only, never on what either would say: so the text keeps
the target's law, as with each of them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from engine.drafters.base import Draft, Drafter, DrafterContext, Scored
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws
from engine.sampling import Law

MIN_MATCH = 4
"""Default of ``draft.min_match``: from here on a copy is worth more than the drafts of a good model."""


class HybridDrafter(Drafter):
    """Copies from the text where the match has ``draft.min_match`` tokens, else runs the model.

    The model does not read along while the text is copied; it catches up when it is asked again.
    """

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        self._lookup = LookupDrafter(context, MIN_MATCH)
        self._model = ModelDrafter(context)
        self._guessed: Drafter = self._lookup  # the one that the newest draft is from

    def settings(self) -> Mapping[str, Any]:
        return self._lookup.settings()

    def parts(self) -> Mapping[str, Drafter]:
        return {"lookup": self._lookup, "model": self._model}

    def reserve(self, tokens: int) -> None:
        self._model.reserve(tokens)

    def forget(self) -> None:
        self._lookup.forget()
        self._model.forget()

    def aside(self) -> AbstractContextManager[None]:
        return self._lookup.aside()

    def prefill_cost(self, tokens: list[int]) -> int:
        return self._model.prefill_cost(tokens)

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        self._lookup.prefill(tokens)
        return self._model.prefill(tokens)

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        self._guessed = self._lookup
        draft = self._lookup.propose(tokens, k, law, draws)
        if len(draft.ids):
            return replace(draft, source="lookup")
        self._guessed = self._model
        draft = self._model.propose(tokens, k, law, draws)
        if len(draft.ids):
            return replace(draft, source="model")
        return replace(draft, reason=f"no match; {draft.reason}")

    def observe(self, scored: Scored) -> None:
        self._guessed.observe(scored)

    def take_ms(self) -> float:
        return self._lookup.take_ms() + self._model.take_ms()
