"""The engine's thread with a scripted session, and what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from support.scripted import Script, Scripted, make_round

from engine.config import Config, parse_config
from engine.context import Message
from engine.events import (
    Round,
)
from tui.engine_thread import EngineThread

CONFIG = parse_config('[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n', "test")
QUESTION = (Message("user", "Hello"),)
PATIENCE_S = 10.0


class Listener:
    """Collects what the thread says."""

    def __init__(self, script: Script, config: Config = CONFIG) -> None:
        self.factory = Scripted(script)
        self.woken = 0
        self.told: list[Any] = []
        self.thread = EngineThread(config, self._wake, cast(Any, self.factory))

    def _wake(self) -> None:
        self.woken += 1

    @property
    def session(self) -> Any:
        return self.factory.made[0]

    def until(self, found: Callable[[list[Any]], bool]) -> list[Any]:
        end = time.monotonic() + PATIENCE_S
        while not found(self.told):
            assert time.monotonic() < end, f"still waiting; told: {self.told}"
            self.told.extend(self.thread.drain())
            time.sleep(0.001)
        return self.told

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.told)

    def until_count(self, kind: type, count: int = 1) -> list[Any]:
        return self.until(lambda told: sum(isinstance(event, kind) for event in told) >= count)

    def stays(self, kind: type, count: int) -> None:
        """Nothing more of this kind comes for a while."""
        time.sleep(0.05)
        self.told.extend(self.thread.drain())
        assert self.count(kind) == count


@contextmanager
def listening(script: Script | None = None, config: Config = CONFIG) -> Iterator[Listener]:
    listener = Listener(script or Script(), config)
    listener.thread.start()
    try:
        yield listener
    finally:
        assert listener.thread.stop(PATIENCE_S)
        assert listener.session.closed


def rounds(count: int) -> tuple[Round, ...]:
    return tuple(make_round(number, 3, number % 4) for number in range(1, count + 1))


ENDLESS = Script(rounds=rounds(5000), pause_s=0.002)
LONG = parse_config(
    '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n[run]\nmax_new_tokens = 100000\n', "test"
)
