"""Which panes a frame draws while the engine works, and that none is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.app import LONG, Driven, driven
from textual.events import Paste

from tui.screens import live
from tui.screens.palette import PaletteInput
from tui.widgets.gauge import GaugePane
from tui.widgets.inspector import InspectorPane
from tui.widgets.rounds import RoundsPane


@pytest.fixture(params=[0.4, 60.0], ids=["soon", "never"])
def seldom(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How seldom the panes that are in no hurry are drawn."""
    monkeypatch.setattr(live, "UNHURRIED_S", request.param)
    every: float = request.param
    return every


def rounds_in(app: Driven, pane: type[GaugePane | InspectorPane | RoundsPane]) -> int:
    """How many rounds the pane was told of."""
    return len(app.app.live.query(pane).first()._state.rounds)


def test_panes_in_no_hurry_follow_and_catch_up_at_a_pause(tmp_path: Path, seldom: float) -> None:
    async def go() -> None:
        async with driven(tmp_path, LONG) as app:
            await app.running()
            gauge = rounds_in(app, GaugePane)
            await app.until(lambda: rounds_in(app, RoundsPane) > gauge + 15, "rounds in their pane")
            if seldom > 1:
                assert rounds_in(app, GaugePane) <= gauge + 2
            else:
                await app.until(lambda: rounds_in(app, GaugePane) > gauge + 15, "the gauge")
            await app.press("f7")
            await app.until(lambda: app.phase.value == "paused", "the pause")
            await app.until(lambda: rounds_in(app, GaugePane) == len(app.lab.state.rounds), "the gauge")
            assert rounds_in(app, InspectorPane) == len(app.lab.state.rounds)

    asyncio.run(go())


def test_a_round_that_is_chosen_is_shown_at_once(tmp_path: Path, seldom: float) -> None:
    async def go() -> None:
        async with driven(tmp_path, LONG) as app:
            await app.running()
            await app.until(lambda: rounds_in(app, RoundsPane) > 12, "rounds in their pane")
            await app.press("3", "k")
            await app.until(lambda: rounds_in(app, InspectorPane) > 10, "the inspector")

    asyncio.run(go())


def test_a_token_is_looked_into_where_one_pane_is_shown(tmp_path: Path) -> None:
    """The inspector was told of no round until then."""

    async def go() -> None:
        async with driven(tmp_path, size=(80, 24)) as app:
            app.lab.start()
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.press("left", "enter")
            await app.until(lambda: app.app.live.active == "inspector", "the inspector")
            assert app.app.live.query_one(InspectorPane).index == len(app.lab.state.rounds) - 1

    asyncio.run(go())


def test_what_is_pasted_into_the_palette_is_made_visible(tmp_path: Path) -> None:
    async def go() -> None:
        async with driven(tmp_path) as app:
            await app.press("ctrl+p")
            await app.top("Palette")
            app.screen.query_one(PaletteInput).post_message(Paste("\x1b]52;c;eA==\x07quit"))
            await app.pilot.pause(0.2)
            text = "".join(
                segment.text for strip in app.screen._compositor.render_strips() for segment in strip
            )
            assert "quit" in text
            assert "\x1b" not in text

    asyncio.run(go())
