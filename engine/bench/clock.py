"""Time a token, measured the same way for every way of decoding."""

from __future__ import annotations

import time
from dataclasses import dataclass

from engine.events import Round


class CommitClock:
    """Notes when tokens are committed. Time before the first commit (prefill, setting up) does not count."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None  # tokens and nanoseconds
        self._last: tuple[int, int] = (0, 0)

    def commit(self, tokens: int) -> None:
        """Tokens were committed just now."""
        self._last = (self._last[0] + tokens, time.perf_counter_ns())
        if self._first is None:
            self._first = self._last

    @property
    def ms_per_token(self) -> float:
        """Milliseconds a token from the first commit to the last."""
        assert self._first is not None and self._last[0] > self._first[0], (
            "it takes two commits to measure one"
        )
        return (self._last[1] - self._first[1]) / 1e6 / (self._last[0] - self._first[0])


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer and how fast it was decoded."""

    ids: tuple[int, ...]
    ms_per_token: float
    rounds: tuple[Round, ...] = ()
    """Of speculative decoding by this engine."""
