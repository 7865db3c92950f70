"""The whole app on a scripted engine, driven by keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from support.scripted import Script, Scripted, make_round
from textual.pilot import Pilot
from textual.screen import Screen

from engine.config import Config, parse_config
from engine.context import Message
from tui.app import SpecApp
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.engine_thread import EngineThread
from tui.lab import Lab
from tui.launch import Launch
from tui.recording_folder import RecordingFolder
from tui.state import Phase

CONFIG = parse_config('[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n', "test")
QUESTION = (Message("user", "Hello, who is there?"),)
ANSWERED = (*QUESTION, Message("assistant", "It is me."))
LONG = Script(rounds=tuple(make_round(number, 3, number % 4) for number in range(1, 400)), pause_s=0.02)
"""Runs until it is stopped."""
PATIENCE_S = 30.0


class Driven:
    """The app, its pilot and its scripted session."""

    def __init__(self, app: SpecApp, pilot: Pilot[int], factory: Scripted) -> None:
        self.app, self.pilot, self._factory = app, pilot, factory

    @property
    def lab(self) -> Lab:
        return self.app.lab

    @property
    def session(self) -> Any:
        return self._factory.made[0]

    @property
    def phase(self) -> Phase:
        return self.lab.state.phase

    @property
    def screen(self) -> Screen[Any]:
        return self.app.screen

    @property
    def said(self) -> str:
        """All toasts so far."""
        return "\n".join(str(toast.message) for toast in self.app._notifications)

    async def press(self, *keys: str) -> None:
        """Press keys where they act, not in a text field."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(
        self, predicate: Callable[[], object], what: str = "", patience: float = PATIENCE_S
    ) -> None:
        """Wait for something that will happen."""
        end = time.monotonic() + patience
        while not predicate():
            state = self.lab.state
            assert time.monotonic() < end, (
                f"still waiting for {what}: {state.phase}, {len(state.rounds)} rounds, {self.screen}"
            )
            await self.pilot.pause(0.01)

    async def loaded(self) -> None:
        """Load the scripted pair."""
        await self.until(lambda: self.lab.loaded, "the load")

    async def running(self, rounds: int = 2) -> None:
        """Start, and wait for some rounds."""
        self.lab.start()
        await self.until(lambda: self.lab.running and len(self.lab.state.rounds) >= rounds, "rounds")

    async def ended(self) -> None:
        """Wait until nothing is on its way."""
        await self.until(lambda: self.lab.state.busy is None and not self.lab.running, "the end")

    async def top(self, name: str) -> Screen[Any]:
        """Wait for a screen to be on top."""
        await self.until(lambda: type(self.screen).__name__ == name, name)
        await self.pilot.pause()
        return self.screen


@asynccontextmanager
async def driven(
    folder: Path,
    script: Script | None = None,
    *,
    size: tuple[int, int] = (120, 36),
    messages: Sequence[Message] = QUESTION,
    config: Config = CONFIG,
    load: bool = True,
    session_factory: Any = None,
    **launch: Any,
) -> AsyncIterator[Driven]:
    """The app with a conversation, its models loaded: the scripted ones, or those of another session."""
    factory = Scripted(script or Script())
    launch.setdefault("recordings", RecordingFolder(folder / "recordings"))
    engine = EngineThread(config, session_factory=session_factory or cast(Any, factory))
    begin = Launch(
        config, Conversation(tuple(messages)), ConversationStore(folder / "talks"), load=load, **launch
    )
    app = SpecApp(engine, begin)
    try:
        async with app.run_test(size=size) as pilot:
            driven_app = Driven(app, pilot, factory)
            await driven_app.until(lambda: engine.alive, "the engine's thread")
            if load:
                await driven_app.loaded()
            app.live.go_to("output")
            await pilot.pause()
            yield driven_app
    finally:
        assert engine.stop(PATIENCE_S)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test that awaits."""
    asyncio.run(cast(Any, test()))
