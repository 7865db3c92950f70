"""The app's core on the engine's thread, with a scripted session that counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from support.app import CONFIG
from support.scripted import Script, Scripted, make_round

from engine.config import Config
from engine.context import Message
from engine.events import Event
from tui.conversation import Conversation
from tui.engine_thread import EngineThread
from tui.lab import Lab

PATIENCE_S = 20.0
QUESTION = Message("user", "q1")
MODEL = {"draft.method": "model", "draft.model_name": "scripted:drafter"}


class Bench:
    """A lab, its engine and its scripted session."""

    def __init__(self, script: Script, messages: tuple[Message, ...], config: Config) -> None:
        factory = Scripted(script)
        self.engine = EngineThread(config, session_factory=cast(Any, factory))
        self.lab = Lab(self.engine, config, Conversation(messages))
        self.said: list[str] = []
        self.lab.say = self.said.append
        self.session = cast(Any, factory.made[0])
        self.runs = 0
        self.loads: list[Config] = []
        generate, load = self.session.generate, self.session.load

        def counted(*args: Any, **named: Any) -> Iterator[Event]:
            self.runs += 1
            yield from generate(*args, **named)

        def noted(tell: Callable[[Event], None]) -> None:
            self.loads.append(self.session.config)
            load(tell)

        self.session.generate = counted
        self.session.load = noted

    def until(self, found: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not found():
            state = self.lab.state
            assert time.monotonic() < end, f"{state.phase} {state.busy} {self.contents} {self.said}"
            self.lab.drain()
            time.sleep(0.001)

    def settle(self) -> None:
        """Wait until the engine has nothing to do."""
        self.until(lambda: self.idle)
        end = time.monotonic() + 0.05
        while time.monotonic() < end or not self.idle:
            self.lab.drain()
            time.sleep(0.001)

    @property
    def idle(self) -> bool:
        lab = self.lab
        return lab.state.busy is None and not lab.running and not lab.asked and not lab.loading

    @property
    def contents(self) -> list[str]:
        return [message.content for message in self.lab.conversation.messages]

    def run(self) -> None:
        self.lab.start()
        self.settle()

    def writes(self, *words: str) -> None:
        """Let the next answers be these words."""
        self.session.script = Script(rounds=(make_round(1, 1, 1, pieces=[words[0].encode(), b"."]),))


@contextmanager
def bench(
    script: Script | None = None, messages: tuple[Message, ...] = (QUESTION,), config: Config = CONFIG
) -> Iterator[Bench]:
    made = Bench(script or Script(), messages, config)
    made.engine.start()
    try:
        made.lab.load(config)
        made.until(lambda: made.lab.loaded and made.idle)
        yield made
    finally:
        assert made.engine.stop(PATIENCE_S)
