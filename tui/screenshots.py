"""Draws the pictures of the documentation with the program itself, from the recording that ships with it.

``python -m tui.screenshots [FOLDER]`` writes them, and the table of keys into the folder's ``app.md``. No
model is needed, and every machine draws the same.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from engine.bench.report import written_into
from engine.config import load_config
from tui.app import SpecApp
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.engine_thread import EngineThread
from tui.key_table import key_table
from tui.launch import DEFAULT_PRESET, Launch
from tui.widgets.inspector import InspectorPane
from tui.widgets.rounds import RoundsPane

_ROUND = 1
"""Index of the round that is looked into: one with accepted, rejected and ignored drafts."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One file."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    theme: str = "spec-dark"


PICTURES = (
    Picture("app.svg", (140, 40)),
    Picture("app-narrow.svg", (80, 24), ("3",)),
    Picture("app-light.svg", (120, 36), theme="spec-light"),
)


async def draw(picture: Picture) -> str:
    """The picture as SVG text."""
    config = load_config(DEFAULT_PRESET)
    with tempfile.TemporaryDirectory() as folder:
        launch = Launch(config, Conversation(), ConversationStore(Path(folder)), demo=True)
        engine = EngineThread(config)
        app = SpecApp(engine, launch)
        try:
            async with app.run_test(size=picture.size) as pilot:
                app.theme = picture.theme
                app.model_is_here = False
                await _play(app, pilot)
                await pilot.press(*picture.keys)
                app.live.query_one(RoundsPane).select(_ROUND)
                app.live.query_one(InspectorPane).select(_ROUND)
                await pilot.pause(0.2)
                return app.export_screenshot()
        finally:
            engine.stop(2.0)


async def _play(app: SpecApp, pilot: Pilot[int]) -> None:
    """To the end of the recording, in no time."""
    while app.lab.replay is None:
        await pilot.pause(0.01)
    app.lab.replay.clock.jump(app.lab.replay.duration)
    while not app.lab.replay.at_end or app.lab.state.reference is None:
        app.pump.wake()
        await pilot.pause(0.05)


def main(folders: Iterable[str] = ()) -> int:
    """Write all pictures and return the exit code."""
    folder = Path(next(iter(folders), "docs"))
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        path = folder / picture.name
        path.write_text(asyncio.run(draw(picture)), encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    manual = folder / "app.md"
    if manual.is_file():
        manual.write_text(written_into(manual.read_text("utf-8"), key_table(), "keys"), encoding="utf-8")
        sys.stdout.write(f"{manual}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
