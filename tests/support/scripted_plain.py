"""Plain decoding as a scripted session tells it: the tokens of its rounds, one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.config import Config
from engine.context import Message
from engine.events import (
    EndReason,
    Event,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)

STEP_MS = 25.0
ROUND = 4
"""Plain steps that pause as long as a round does."""


class PlainScript:
    """The part of a scripted session that a race needs besides ``generate``."""

    config: Config
    script: Any
    messages: tuple[Message, ...]
    _cancelled: threading.Event

    def _tell(self, event: Event) -> Iterator[Event]:
        raise NotImplementedError

    def _settings(self) -> Settings:
        raise NotImplementedError

    def plain(self, messages: Sequence[Message]) -> Iterator[Event]:
        """Tell the tokens of the rounds, up to the limit of the configuration, 25 ms each."""
        self.messages = tuple(messages)
        self._cancelled.clear()
        limit = self.config.resolved_limits()[0] or 2000
        yield from self._tell(
            RunStarted(0, 0, 1, "plain", (1, 2, 3), (b"a", b"b", b"c"), 0, limit, None, self.config.run.stop)
        )
        yield from self._tell(SegmentStarted(0, 0, 1, self._settings()))
        yield from self._tell(PrefillProgress(0, 0, 2, 2))
        yield from self._tell(PrefillFinished(0, 0, 5.0))
        done = 0
        for id_, piece, cut in plain_tokens(self.script.rounds)[:limit]:
            if done:
                self._cancelled.wait(self.script.pause_s / ROUND)
            if self._cancelled.is_set():
                break
            done += 1
            text = piece.decode("utf-8", "replace")
            yield from self._tell(PlainStep(0, 0, done, id_, piece, text, cut, 0, STEP_MS - 1, 1.0))
        reason = EndReason.CANCELLED if self._cancelled.is_set() else self.script.reason
        yield from self._tell(RunFinished(0, 0, reason, "", done, 5.0, 5.0 + STEP_MS, STEP_MS * done))

    @contextmanager
    def aside(self, adapt: Callable[[Config], Config]) -> Iterator[None]:
        """Decode with another configuration for a while."""
        before, self.config = self.config, adapt(self.config)
        try:
            yield
        finally:
            self.config = before

    def forget(self) -> None:
        """There are no caches."""


def plain_tokens(rounds: Sequence[Round]) -> list[tuple[int, bytes, EndReason | None]]:
    """The committed tokens of rounds, in their order, each with why the answer ends with it."""
    found = []
    for round_ in rounds:
        pieces = [draft.piece for draft in round_.drafts[: round_.accepted]]
        pieces += [] if round_.was_cut else [round_.target.piece]
        cuts = [None] * (len(round_.tokens) - 1) + [round_.cut]
        found += list(zip(round_.tokens, pieces, cuts, strict=True))
    return found
