"""Pictures of the app, compared as SVG; ``pytest --snapshot-update`` draws them anew. They are tied to the
version of Textual in constraints.txt."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.app import Driven, driven
from support.scripted import TARGET, Script, make_round
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from engine.context import Message
from engine.errors import DoesNotFit
from engine.events import EndReason
from tui.app import SpecApp
from tui.screens import live
from tui.screens.live import LiveScreen

TALK = (
    Message("system", "You answer in one sentence."),
    Message("user", "Why is the sky blue?"),
)
PIECES = (
    [b"The", b" sky", b" is", b" blue"],
    [b" because", b" air", b" sc", b"atters"],
    [b" short", b" waves", b" more", b" than"],
    [b" long", b" ones", b".\n", b"<|im_end|>"],
)
SCRIPT = Script(
    rounds=(
        make_round(1, 3, 3, pieces=PIECES[0]),
        make_round(2, 3, 1, pieces=PIECES[1]),
        make_round(3, 3, 0, pieces=PIECES[2]),
        make_round(4, 3, 3, pieces=PIECES[3], text=" long ones.\n", cut=EndReason.EOS),
    ),
    reason=EndReason.EOS,
    drafter=dataclasses.replace(TARGET, name="scripted:drafter"),
)
REJECTED = dataclasses.replace(SCRIPT, rounds=tuple(make_round(n, 4, 0) for n in range(1, 9)))


class Pictures(SingleFileSnapshotExtension):
    """SVG files beside the tests, in a folder of their own."""

    _file_extension = "svg"
    _write_mode = WriteMode.TEXT

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """The folder."""
        return str(Path(test_location.filepath).parent / "snapshots" / test_location.basename)


def normal(svg: str) -> str:
    """Without the number that is drawn anew for every picture."""
    return re.sub(r"terminal-\d+-", "terminal-", svg)


def compare(
    snapshot: SnapshotAssertion,
    folder: Path,
    drive: Callable[[Driven], Awaitable[None]],
    *,
    size: tuple[int, int] = (120, 36),
    script: Script = SCRIPT,
    **launch: Any,
) -> None:
    async def go() -> str:
        async with driven(folder, script, size=size, messages=TALK, **launch) as app:
            await drive(app)
            pictures = [""]
            while pictures[-1] not in pictures[:-1]:  # on a busy machine a pane may be painted later
                await app.pilot.pause(0.1)
                app.app.screen.refresh()
                await app.pilot.pause()
                pictures.append(normal(app.app.export_screenshot()))
            return pictures[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveScreen, "show_memory", lambda *_: None)  # it differs every time
        patch.setattr(SpecApp, "model_is_here", False)
        patch.setattr(live, "UNHURRIED_S", 0.0)  # two pictures that agree must not both be a second old
        picture = asyncio.run(go())
    assert picture == snapshot(extension_class=Pictures)


async def finished(app: Driven) -> None:
    await app.press("ctrl+r")
    await app.until(lambda: app.lab.state.reference is not None, "the baseline")
    await app.ended()


async def stepped(app: Driven) -> None:
    await app.press("full_stop")
    await app.until(lambda: len(app.lab.state.rounds) == 1, "a round")
    await app.press("comma")
    await app.until(lambda: app.lab.state.revealed == 1, "a draft")
    await app.press(*["comma"] * 3)


def keys(*names: str) -> Callable[[Driven], Awaitable[None]]:
    """A finished run, then keys."""

    async def drive(app: Driven) -> None:
        await finished(app)
        await app.press(*names)

    return drive


async def failed(app: Driven) -> None:
    app.session.script = dataclasses.replace(
        SCRIPT, run_error=DoesNotFit("the pair needs 34 GB, 16 GB are free", "use a smaller dtype")
    )
    await app.press("ctrl+r")
    await app.top("ErrorModal")
    await app.ended()


async def replayed(app: Driven) -> None:
    app.app.action_demo_play()
    app.lab.toggle_pause()
    for _ in range(3):
        await app.press("full_stop")
    await app.until(lambda: len(app.lab.state.rounds) == 3, "three rounds")
    await app.until(lambda: app.app.survey is not None and app.app.survey.whole, "the rounds ahead")
    app.app.show_timeline()


CASES: dict[str, tuple[Callable[[Driven], Awaitable[None]], dict[str, Any]]] = {
    "wide": (finished, {}),
    "very_wide": (finished, {"size": (200, 50)}),
    "medium": (finished, {"size": (100, 30)}),
    "narrow": (finished, {"size": (80, 24)}),
    "small": (keys("3"), {"size": (60, 20)}),
    "paused_stepping": (stepped, {}),
    "all_rejected": (finished, {"script": REJECTED}),
    "replay": (replayed, {}),
    "error": (failed, {}),
    "ascii": (finished, {"ascii": True}),
    "help": (keys("f1"), {"size": (80, 24)}),
    "jump": (keys("ctrl+o"), {}),
    "jump_narrow": (keys("ctrl+o"), {"size": (80, 24)}),
    "settings": (keys("f2"), {"size": (100, 30)}),
}


@pytest.mark.parametrize("name", CASES)
def test_picture(name: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    drive, options = CASES[name]
    compare(snapshot, tmp_path, drive, **options)


@pytest.mark.parametrize("theme", ["spec-light", "spec-contrast", "spec-color-blind"])
def test_theme(theme: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    async def drive(app: Driven) -> None:
        await finished(app)
        app.app.theme = theme

    compare(snapshot, tmp_path, drive)


def test_no_color(tmp_path: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    compare(snapshot, tmp_path, finished, size=(80, 24))
