"""Prompt lookup: what followed the same words before, follows now (Saxena 2023, "Prompt Lookup Decoding").

The newest tokens are looked up in a suffix automaton of the text so far, and of earlier texts if asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.drafters.suffix_automaton import MIN_MATCH, SEPARATOR, SuffixAutomaton
from engine.draws import Draws
from engine.events import ModelInfo
from engine.kv_cache import common_prefix
from engine.sampling import Law

HISTORY = 65_536
"""Tokens of earlier texts that are kept at most; beyond that the older half of them goes."""


class TextIndex:
    """The text so far and, with ``history``, earlier ones, ready to be looked up."""

    def __init__(self, *, history: bool) -> None:
        self._history = history
        self._texts = SuffixAutomaton()

    def sync(self, tokens: list[int]) -> None:
        """Take over these tokens: append what is new; if the past changed, begin another text."""
        held = self._texts.tokens[self._texts.start :]
        known = len(held)
        if common_prefix(held, tokens) < known:
            self._texts = self._earlier() if self._history else SuffixAutomaton()
            known = 0
        for token in tokens[known:]:
            self._texts.append(token)

    def draft(self, k: int, min_match: int) -> tuple[list[int], str | None]:
        """Up to k tokens that may follow, and why there are fewer.

        Args:
            min_match: tokens that must have occurred before.
        """
        return self._texts.draft(k, min_match)

    def _earlier(self) -> SuffixAutomaton:
        """All texts so far as earlier ones; the newest of them only, if they are too long."""
        texts = self._texts
        texts.begin()
        if texts.start <= HISTORY:
            return texts
        shorter = SuffixAutomaton()
        for token in texts.tokens[-HISTORY // 2 :]:
            if token == SEPARATOR:
                shorter.begin()
            else:
                shorter.append(token)
        return shorter


class LookupDrafter(Drafter):
    """Guesses by copying from the context: no model, no weights, microseconds.

    With ``draft.history`` it copies from earlier texts of the session too. A text becomes an earlier one,
    prompt and answer, when another is begun that does not go on from it. ``forget`` drops all of them, so
    that what comes next is drafted as by a new drafter; ``aside`` keeps them, out of sight.

    Args:
        min_match: what ``draft.min_match`` is if the configuration does not say.
    """

    def __init__(self, context: DrafterContext, min_match: int = MIN_MATCH) -> None:
        super().__init__(context)
        self._history = context.options.history
        self._min_match = context.options.min_match or min_match
        self._index = TextIndex(history=self._history)
        self._ns = 0

    @property
    def model_info(self) -> ModelInfo | None:
        return None  # as a part of a hybrid it stands beside a model that is not its own

    def settings(self) -> Mapping[str, Any]:
        return {"min_match": self._min_match, "history": self._history}

    def forget(self) -> None:
        self._index = TextIndex(history=self._history)

    @contextmanager
    def aside(self) -> Iterator[None]:
        kept, self._index = self._index, TextIndex(history=self._history)
        try:
            yield
        finally:
            self._index = kept

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        self._index.sync(tokens)
        return iter(())

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        start = time.perf_counter_ns()
        self._index.sync(tokens)
        ids, reason = self._index.draft(k, self._min_match)
        self._ns += time.perf_counter_ns() - start
        return Draft(torch.tensor(ids, dtype=torch.long), reason=reason)

    def take_ms(self) -> float:
        ms, self._ns = self._ns / 1e6, 0
        return ms
