"""The app with a script in the place of a user."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from engine.config import Config
from engine.context import Message, preset_context
from engine.session import Session
from tui import app
from tui.app import SpecApp
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.engine_thread import EngineThread
from tui.guards import guarded_stderr
from tui.launch import Launch

PRESET = "builtin"
_POLL_S = 0.1
_STOP_S = 60.0

Script = Callable[["Played"], Coroutine[Any, Any, None]]


class Played(SpecApp):
    """Follows a script from its first paint on."""

    CSS_PATH = Path(app.__file__).with_name("app.tcss")

    def __init__(self, engine: EngineThread, launch: Launch, script: Script) -> None:
        super().__init__(engine, launch)
        self._script = script

    def on_ready(self) -> None:
        """Begin."""
        self.run_worker(self._script(self))


def play(
    script: Script,
    config: Config,
    folder: Path,
    session_factory: Callable[[Config], Session] = Session,
    *,
    messages: tuple[Message, ...] = (),
    load: bool = True,
) -> None:
    """Run the app on this process's terminal until the script ends it; what it saves goes into a folder.

    ``messages`` are those of the preset if there are none.
    """
    engine = EngineThread(config, session_factory=session_factory)
    talk = Conversation(messages or preset_context(PRESET))
    played = Played(engine, Launch(config, talk, ConversationStore(folder / "talks"), load=load), script)
    with guarded_stderr(folder / "app.log"):
        played.run()
    assert engine.stop(_STOP_S), "the engine did not end"
    if played.crash is not None:
        raise played.crash
    if played.return_code:  # a signal: nobody looks any more
        sys.exit(played.return_code)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something; seldom enough to cost nothing."""
    while not condition():
        await asyncio.sleep(_POLL_S)


def quiet() -> None:
    """No progress bars, as in ``tui.start``."""
    for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "TQDM_DISABLE"):
        os.environ.setdefault(name, "1")
