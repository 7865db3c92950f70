"""Prompt lookup: what followed the same words before, follows now (Saxena 2023, "Prompt Lookup Decoding")."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.draws import Draws
from engine.kv_cache import common_prefix
from engine.sampling import Law

LONGEST = 3
"""Longest run of tokens that is looked up; shorter ones follow, down to a single token."""


class NgramIndex:
    """Where each run of 1..LONGEST tokens occurred last, updated token by token."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._follower: dict[tuple[int, ...], int] = {}  # run of tokens -> index of the token after it

    def sync(self, tokens: list[int]) -> None:
        """Take over these tokens: append what is new, start again if the past changed."""
        if common_prefix(self.tokens, tokens) < len(self.tokens):
            self.tokens = []
            self._follower.clear()
        for token in tokens[len(self.tokens) :]:
            end = len(self.tokens)
            # A run enters the index when its follower is known, so the newest run never finds itself.
            for n in range(1, min(LONGEST, end) + 1):
                self._follower[tuple(self.tokens[end - n :])] = end
            self.tokens.append(token)

    def copy(self, k: int) -> list[int]:
        """The k tokens after the latest earlier occurrence of the longest known suffix; [] if there is none.

        A copy that reaches the end goes on with what it has just copied, as in LZ77, so a repetition goes on.
        """
        size = len(self.tokens)
        for n in range(min(LONGEST, size), 0, -1):
            start = self._follower.get(tuple(self.tokens[size - n :]))
            if start is not None:
                copied = self.tokens[start : start + k]
                while len(copied) < k:
                    copied.append(copied[len(copied) - (size - start)])
                return copied
        return []


class LookupDrafter(Drafter):
    """Guesses by copying from the context: no model, no weights, microseconds."""

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        self._index = NgramIndex()
        self._ns = 0

    def forget(self) -> None:
        self._index = NgramIndex()

    def prefill(self, tokens: list[int]) -> Iterator[int]:
        self._index.sync(tokens)
        return iter(())

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        start = time.perf_counter_ns()
        self._index.sync(tokens)
        ids = self._index.copy(k)
        self._ns += time.perf_counter_ns() - start
        return Draft(torch.tensor(ids, dtype=torch.long), reason=None if ids else "no match")

    def take_ms(self) -> float:
        ms, self._ns = self._ns / 1e6, 0
        return ms
