"""The app's own lines: the first one, the tabs with the letters of jump mode, the keys that apply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.app import Driven, driven
from support.nasty import drawn
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import PANES
from tui.screens.jump import JumpScreen
from tui.state import BaselineView, Phase
from tui.widgets.transport import KeyLine, TabBar, TransportBar


class Asking(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "dismiss", "Zip it"),
        Binding("q", "no", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Static("Well?")


class WithKeys(Asking):
    def compose(self) -> ComposeResult:
        yield Static("Well?")
        yield KeyLine(id="own")


def play(test: Callable[[Driven], Awaitable[None]], folder: Path, **how: Any) -> None:
    async def go() -> None:
        async with driven(folder, **how) as app:
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.ended()
            await test(app)

    asyncio.run(go())


@pytest.mark.parametrize("columns", [80, 100])
def test_the_first_line_keeps_what_is_asked_for(tmp_path: Path, columns: int) -> None:
    async def test(app: Driven) -> None:
        line = drawn(app.app).splitlines()[0]
        assert "K 5 T 0 seed 7 block" in line and "scripted:tar" in line and "ended: rounds" in line
        assert app.app.live.query_one(TransportBar).text.endswith("cpu float32")

    play(test, tmp_path, size=(columns, 24))


def test_long_phases_are_short_on_a_narrow_screen(tmp_path: Path) -> None:
    async def go() -> None:
        for columns, word in ((80, "timing plain 1/4"), (120, "timing plain decoding 1/4")):
            async with driven(tmp_path, size=(columns, 24)) as app:
                bar = app.app.live.query_one(TransportBar)
                state = replace(app.lab.state, phase=Phase.BASELINE, baseline=BaselineView(1, 4, None))
                bar.show(state, app.lab.config)
                assert word + " " in bar.text

    asyncio.run(go())


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
def test_letters_stand_on_the_tabs_where_panes_are_hidden(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test(app: Driven) -> None:
        before = drawn(app.app).splitlines()
        tabs = app.app.live.query_one(TabBar)
        await app.press("ctrl+o")
        await app.top("JumpScreen")
        after = drawn(app.app).splitlines()
        row = tabs.region.y
        for name, letter in zip(PANES, "corigpy", strict=True):
            short = name.capitalize() if size[0] >= 80 else name.capitalize().replace("tor", "t")
            assert f"{letter} {short}" in after[row]
        write = app.app.live.message_line.region.y
        assert [y for y, line in enumerate(after) if line != before[y]] == [row, write, size[1] - 1]
        await app.pilot.click(offset=(after[row].index("g Gauge"), row))
        await app.top("LiveScreen")
        assert app.app.live.active == "gauge"

    play(test, tmp_path, size=size)


def test_a_letter_stands_on_its_pane_where_all_are_shown(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("ctrl+o")
        screen = await app.top("JumpScreen")
        assert isinstance(screen, JumpScreen)
        assert " r rounds " in drawn(app.app) and len(screen.query(Static)) == 6

    play(test, tmp_path)


def test_the_last_line_has_the_keys_of_the_screen_on_top(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        line = app.app.live.query_one("#keys", KeyLine)
        before = line.text
        assert "Help" in before
        app.app.push_screen(Asking())
        await app.top("Asking")
        await app.until(lambda: line.text == " z Zip it ", line.text)
        app.app.push_screen(WithKeys())
        await app.top("WithKeys")
        own = app.app.screen.query_one(KeyLine)
        await app.until(lambda: own.text == " z Zip it " and not line.text, own.text)
        await app.pilot.click(own, offset=(2, 0))
        await app.top("Asking")
        await app.press("z")
        await app.top("LiveScreen")
        await app.until(lambda: line.text == before, line.text)

    play(test, tmp_path)


@pytest.mark.parametrize("columns", range(40, 61, 4))
def test_no_key_is_shown_without_what_it_does(tmp_path: Path, columns: int) -> None:
    async def test(app: Driven) -> None:
        line = app.app.live.query_one("#keys", KeyLine)
        shown = drawn(app.app).splitlines()[-1].rstrip()
        assert shown and line.text.startswith(shown)
        rest = line.text[len(shown) :]
        assert not rest.strip() or rest.startswith("  "), "cut between two keys"

    play(test, tmp_path, size=(columns, 20))
