"""The base of the panes: a row keeps its line, and what is shown is what would be drawn without that."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from textual.app import ComposeResult
from textual.color import Color
from textual.geometry import Offset, Region
from textual.pilot import Pilot
from textual.selection import Selection
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.themes import THEMES, ThemedApp
from tui.widgets.lines import LineView
from tui.widgets.rows import Piece, Row


class Letters(LineView):
    """Rows of a letter each."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = list("abc")
        self.note = "legend"

    def row_total(self) -> int:
        return len(self.letters)

    def build_row(self, y: int) -> Row:
        return Row((Piece(self.letters[y], "lines--strong" if y % 2 else "", y), Piece(f" in row {y}")))

    def empty_text(self) -> str:
        return "nothing is here"

    def legend(self) -> tuple[Piece, ...]:
        return (Piece(self.note),)

    def add(self, letters: str) -> None:
        first = len(self.letters)
        self.letters += letters
        self.rows_changed(first)

    def cut(self, length: int) -> None:
        del self.letters[length:]
        self.rows_changed(length)

    def say(self, note: str) -> None:
        self.note = note
        self.foot_changed()

    def put(self, y: int, letter: str) -> None:
        self.letters[y : y + 1] = [letter]
        if y == len(self.letters) - 1:
            self.rows_changed(y)
        self.search_again(y)
        self.repaint_row(y)


class Shown(ThemedApp[None]):
    CSS = "Letters { height: 12; width: 30; } Letters.-other { height: 7; width: 24; }"
    ascii = False

    def turn(self, pane: Letters) -> None:
        self.ascii = not self.ascii
        pane.refresh_layout()

    def compose(self) -> ComposeResult:
        yield Letters()
        yield Letters()


def run(scenario: Callable[[Letters, Pilot[None], Shown], Awaitable[None]]) -> None:
    async def go() -> None:
        app = Shown()
        async with app.run_test(size=(60, 30)) as pilot:
            await scenario(app.query(Letters).first(), pilot, app)

    asyncio.run(go())


def whole(pane: Letters) -> Region:
    return pane.outer_size.region


def looks(strips: list[Strip]) -> list[list[tuple[str, object]]]:
    return [[(segment.text, segment.style) for segment in strip.simplify()] for strip in strips]


def anew(pane: Letters) -> list[list[tuple[str, object]]]:
    """How the pane looks if nothing is kept."""
    pane._styles_cache.clear()
    return looks(Widget.render_lines(pane, whole(pane)))


def test_a_row_keeps_its_line_while_it_scrolls() -> None:
    async def scenario(pane: Letters, pilot: Pilot[None], app: Shown) -> None:
        pane.add("x" * 40)
        await pilot.pause()
        before, built = pane.render_lines(whole(pane)), pane.built
        pane.add("y")
        await pilot.pause()
        after = pane.render_lines(whole(pane))
        assert [id(line) for line in after[1:9]] == [id(line) for line in before[2:10]]
        assert pane.built == built + 1
        assert looks(after) == anew(pane)

    run(scenario)


def test_the_scrollbar_is_drawn_when_it_moves_by_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(pane: Letters, pilot: Pilot[None], app: Shown) -> None:
        pane.add("x" * 1000)
        await pilot.pause()
        bar = pane.vertical_scrollbar
        drawn: list[float] = []
        monkeypatch.setattr(bar, "_render_content", lambda: drawn.extend([bar.position]))
        for _ in range(5):
            pane.add("y")
            await pilot.pause()
        assert not drawn
        monkeypatch.undo()
        pane.scroll_to(y=0, animate=False)
        await pilot.pause()
        assert bar.position == 0
        pane.scroll_to(y=pane.max_scroll_y // 2, animate=False)
        await pilot.pause()
        assert abs(bar.position - pane.max_scroll_y / 2) < pane.row_total() / pane.page
        pane.action_last()
        await pilot.pause()
        assert bar.position == pane.max_scroll_y
        assert bar.window_virtual_size == pane.virtual_size.height

    run(scenario)


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_selected_text_keeps_its_own_colour(theme: Theme) -> None:
    async def scenario(pane: Letters, pilot: Pilot[None], app: Shown) -> None:
        app.theme = theme.name
        await pilot.pause()
        plain = pane.render_line(1)
        app.screen.selections = {pane: Selection(Offset(0, 1), Offset(6, 1))}
        await pilot.pause()
        segments = [segment for segment in pane.render_line(1) if segment.text.strip()]
        picked = [segment for segment in segments if segment.text in "b in row 1"[:6]]
        assert [segment.text for segment in picked] == ["b", " in r"]
        ground = Color.parse(theme.variables["screen-selection-background"]).rich_color
        for segment, before in zip(picked, plain, strict=False):
            assert segment.style is not None and before.style is not None
            assert segment.style.bgcolor == ground
            assert segment.style.color == before.style.color

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_it_looks_as_if_nothing_were_kept(seed: int) -> None:
    async def scenario(pane: Letters, pilot: Pilot[None], app: Shown) -> None:
        chance = random.Random(seed)
        other = app.query(Letters).last()
        steps: list[Callable[[], object]] = [
            lambda: pane.add("".join(chance.choices("defg", k=chance.randrange(1, 9)))),
            lambda: pane.add("h"),
            lambda: pane.put(chance.randrange(len(pane.letters) + 1), "p"),
            lambda: pane.cut(chance.randrange(len(pane.letters) + 1)),
            lambda: pane.scroll_to(y=chance.randrange(20), animate=False),
            pane.action_last,
            lambda: pane.focus() if chance.random() < 0.5 else other.focus(),
            lambda: pane.say(f"legend {chance.random():.3f}"),
            lambda: setattr(pane, "border_title", f"title {chance.random():.3f}"),
            lambda: setattr(app, "theme", chance.choice(THEMES).name),
            lambda: pane.toggle_class("-other"),
            lambda: pane._search(chance.choice(["", "d", "row 1"])),
            lambda: app.turn(pane),
        ]
        for number in range(60):
            step = chance.choice(steps)
            step()
            await pilot.pause()
            assert looks(pane.render_lines(whole(pane))) == anew(pane), f"step {number}"

    run(scenario)
