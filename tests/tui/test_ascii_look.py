"""With --ascii nothing that a screen is drawn with is outside ASCII, whoever draws it."""

from __future__ import annotations

import asyncio
import unicodedata
from pathlib import Path

import pytest
from rich.cells import cell_len
from support.app import driven
from support.nasty import drawn
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widgets import Button, Checkbox, Input, OptionList, Select, Static

from tui.ascii_look import ascii_text
from tui.glyphs import ASCII, UNICODE
from tui.safe_text import visible_bytes
from tui.themes import ThemedApp


class Everything(ThemedApp[None]):
    CSS = "VerticalScroll { height: 12; border: round white; } #tall { height: 60; }"

    def __init__(self, ascii_only: bool) -> None:
        super().__init__()
        self.ascii = ascii_only

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Select([("one", 1), ("two", 2)])
            yield Static("caf\u00e9", id="tall")
        yield Checkbox("a check")
        yield Button("a button")
        yield OptionList("an option")
        yield Input("an input")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_textual_draws(ascii_only: bool) -> None:
    async def go() -> None:
        app = Everything(ascii_only)
        async with app.run_test(size=(60, 40)) as pilot:
            await pilot.pause()
            odd = {char for char in drawn(app) if not char.isascii()}
            assert "\u00e9" in odd, "text stays as it is"
            assert (odd == {"\u00e9"}) == ascii_only, odd
            app.query_one(Select).action_show_overlay()
            await pilot.pause()
            odd = {char for char in drawn(app) if not char.isascii()}
            assert (odd <= {"\u00e9"}) == ascii_only, odd
            assert (ScrollBar.renderer is ScrollBarRender) != ascii_only

    asyncio.run(go())


@pytest.mark.parametrize("key", ["", "f1", "f2", "f3", "f4", "L", "ctrl+o"])
@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_every_screen_of_the_app(tmp_path: Path, key: str, size: tuple[int, int]) -> None:
    async def go() -> None:
        async with driven(tmp_path, ascii=True, size=size) as app:
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.ended()
            if key:
                await app.press(key)
            await app.pilot.pause(0.2)
            assert not {char for char in drawn(app.app) if not char.isascii()}

    asyncio.run(go())


def test_every_drawing_character_has_a_stand_in_of_its_width() -> None:
    for code in range(0x2500, 0x2600):
        shown = ascii_text(chr(code))
        assert shown.isascii() and cell_len(shown) == 1, unicodedata.name(chr(code))
    assert ascii_text("\u256d\u2500 A \u25bc\u2502") == "+- A v|"


def test_a_blank_is_not_taken_for_another_character() -> None:
    for glyphs in (ASCII, UNICODE):
        assert visible_bytes(b" ", ascii_only=glyphs.ascii_only) == glyphs.blank
    assert visible_bytes(b" a_b ~", ascii_only=True) == "~a_b <7E>"
    assert visible_bytes(b"_", ascii_only=True) == "_"
    assert visible_bytes(b"~") == "~"
