"""Marks are told apart without colour, read well in every theme, and show nothing a terminal would obey."""

from __future__ import annotations

import asyncio
import re
from itertools import combinations
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.color import ColorSystem
from support.scripted import make_round
from textual.app import ComposeResult
from textual.color import Color
from textual.theme import Theme
from textual.widget import Widget

from engine.events import Origin, Verdict
from tui.glyphs import ASCII, UNICODE, Glyphs, bar, bar_with_tick, glyph_set, sparkline
from tui.marks import (
    LEGEND_ORDER,
    MARK_CLASSES,
    NO_PIECE,
    TEXT_STYLES,
    Mark,
    glyph_of,
    legend,
    mark_of_origin,
    mark_of_verdict,
    mark_styles,
    marked,
    marked_draft,
    marked_output,
    marked_target,
    marks_css,
)
from tui.state import OutputToken
from tui.themes import COLOR_BLIND, CONTRAST, DARK, LIGHT, MARK_DEFAULTS, THEMES, ThemedApp, mark_colors

SETS = pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
ALL_THEMES = pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
TOGETHER = [*LEGEND_ORDER, Mark.PENDING]
"""Marks that may stand in one line."""
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


# -- glyphs


@SETS
def test_every_sign_has_its_width(glyphs: Glyphs) -> None:
    wide = {"parts", "levels", "spinner"} | ({"arrow", "newline", "ellipsis"} if glyphs.ascii_only else set())
    for name in Glyphs.__slots__:
        sign = getattr(glyphs, name)
        if name in {"ascii_only", "absent"}:
            continue
        assert cell_len(sign) == len(sign), name
        assert name in wide or len(sign) == 1, name
        assert sign.isascii() or not glyphs.ascii_only, name


def test_the_terminal_chooses_the_set() -> None:
    assert (glyph_set(True), glyph_set(False)) == (ASCII, UNICODE)


@SETS
@given(share=st.floats(-1, 2), tick=st.floats(0, 1), width=st.integers(0, 40))
def test_bars_are_as_wide_as_asked(glyphs: Glyphs, share: float, tick: float, width: int) -> None:
    plain = bar(share, width, glyphs)
    assert cell_len(plain) == width
    assert cell_len(bar_with_tick(share, tick, width, glyphs)) == width
    assert bar(1.0, width, glyphs) == glyphs.full * width
    assert bar(0.0, width, glyphs) == glyphs.empty * width


def test_bars_by_example() -> None:
    assert bar(0.5, 4, ASCII) == "##--"
    assert bar(0.5, 4, UNICODE) == "██░░"
    assert bar(0.3125, 4, UNICODE) == "█▎░░"
    assert bar_with_tick(1.0, 0.5, 4, ASCII) == "##|#"
    assert bar_with_tick(1.0, 1.0, 4, ASCII) == "###|"


def test_sparklines_by_example() -> None:
    assert sparkline([0, 1, 2, 4], UNICODE) == "▁▃▅█"
    assert sparkline([1, 9], UNICODE, top=2) == "▅█"
    assert sparkline([0, 0], ASCII) == "__"
    assert sparkline([], ASCII) == ""


# -- marks


@SETS
def test_marks_are_told_apart_without_colour(glyphs: Glyphs) -> None:
    for one, other in combinations(TOGETHER, 2):
        assert (glyph_of(one, glyphs), TEXT_STYLES[one]) != (glyph_of(other, glyphs), TEXT_STYLES[other])
        assert glyph_of(one, glyphs) != glyph_of(other, glyphs), f"{one} and {other} on a bare terminal"


def test_every_verdict_and_origin_has_a_mark() -> None:
    assert [mark_of_verdict(verdict).value for verdict in Verdict] == [verdict.value for verdict in Verdict]
    assert [mark_of_origin(origin).value for origin in Origin] == [origin.value for origin in Origin]
    assert mark_of_verdict(None) is Mark.PENDING
    assert {mark.component for mark in Mark} == MARK_CLASSES


def test_tokens_with_their_marks() -> None:
    round_ = make_round(1, 3, 1, pieces=[b" one", b"two", b"\n", b" \xe2"])
    drafts = [marked_draft(draft, draft.verdict, UNICODE).plain for draft in round_.drafts]
    assert drafts == ["·one", "x two", ". ⏎"]
    assert marked_target(round_.target, UNICODE).plain == "> ·<E2>"
    assert marked_draft(round_.drafts[0], None, ASCII).plain == "? ~one"
    for origin, plain in ((Origin.BONUS, "+ ·a"), (Origin.PLAIN, "·a"), (Origin.GIVEN, "= ·a")):
        assert marked_output(OutputToken(1, b" a", origin, 0, 0), UNICODE).plain == plain
    nothing = marked(b"", Mark.ACCEPTED, UNICODE)
    assert (nothing.plain, nothing.width, nothing.component) == (NO_PIECE, len(NO_PIECE), "mark--accepted")


def test_the_legend_names_the_marks_in_order() -> None:
    assert [item.plain for item in legend(ASCII)] == [
        "accepted",
        "x rejected",
        ". ignored",
        "> correction",
        "+ bonus",
    ]


@SETS
@given(
    piece=st.binary(max_size=12)
    | st.text("\x00\x1b\x9b\u202e\u200b[/] a\U0001f525", max_size=9).map(str.encode)
)
def test_a_mark_shows_nothing_that_a_terminal_obeys(glyphs: Glyphs, piece: bytes) -> None:
    for mark in Mark:
        shown = marked(piece, mark, glyphs)
        assert not CONTROLS.search(shown.plain)
        assert shown.plain


# -- themes


class Marks(Widget):
    COMPONENT_CLASSES: ClassVar[set[str]] = set(MARK_CLASSES)
    DEFAULT_CSS = marks_css("Marks")


class MarksApp(ThemedApp[None]):
    def compose(self) -> ComposeResult:
        yield Marks()


def styles_in(theme: str) -> dict[Mark, tuple[str, str, dict[str, bool]]]:
    """For each mark: foreground, text and text style of a rejected-looking token's content."""

    async def look() -> dict[Mark, tuple[str, str, dict[str, bool]]]:
        app = MarksApp()
        async with app.run_test() as pilot:
            app.theme = theme
            await pilot.pause()
            styles = mark_styles(app.query_one(Marks))
            told = {}
            for mark, style in styles.items():
                content = marked(b"[/] [red]x", mark, UNICODE).content(styles)
                names = ("bold", "dim", "italic", "underline", "strike")
                attributes = {name: bool(getattr(style, name)) for name in names}
                assert style.foreground is not None
                told[mark] = (style.foreground.hex.lower(), content.plain, attributes)
                if mark is Mark.REJECTED:
                    first = content.spans[0].style
                    assert not getattr(first, "strike", True), "the glyph is not struck through"
            return told

    return asyncio.run(look())


@ALL_THEMES
def test_each_theme_gives_the_marks_its_colours_and_their_styles(theme: Theme) -> None:
    for mark, (color, text, attributes) in styles_in(theme.name).items():
        assert color == theme.variables[f"mark-{mark}"]
        assert {name for name, is_set in attributes.items() if is_set} == set(TEXT_STYLES[mark].split()) - {
            "none"
        }
        assert text.endswith("[/] [red]x"), "markup of a model stays text"


def test_another_theme_gets_colours_that_fit_it() -> None:
    assert styles_in("nord")[Mark.ACCEPTED][0] == MARK_DEFAULTS["mark-accepted"]
    assert styles_in("textual-light")[Mark.ACCEPTED][0] == LIGHT.variables["mark-accepted"]


def luminance(color: Color) -> float:
    """Relative luminance of WCAG 2."""
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(Color.parse(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


@ALL_THEMES
def test_every_mark_can_be_read_on_every_background(theme: Theme) -> None:
    least = 7.0 if theme is CONTRAST else 4.5
    for ground in (theme.background, theme.surface, theme.panel):
        assert ground is not None
        for name, color in mark_colors(theme).items():
            assert contrast(color, ground) >= least, f"{name} on {ground}"


@ALL_THEMES
def test_selected_text_can_be_read_and_seen(theme: Theme) -> None:
    selected = theme.variables["screen-selection-background"]
    for name, color in {**mark_colors(theme), "foreground": str(theme.foreground)}.items():
        assert contrast(color, selected) >= 4.5, name
    assert theme.surface is not None and contrast(selected, theme.surface) >= 1.25


@ALL_THEMES
def test_accepted_is_told_from_plain_text_in_16_colours(theme: Theme) -> None:
    def number(mark: str) -> int | None:
        return RichColor.parse(theme.variables[mark]).downgrade(ColorSystem.STANDARD).number

    assert number("mark-accepted") not in {number("mark-plain"), 0, 7, 8, 15}, "nor is it a grey"
    if theme is not COLOR_BLIND:
        assert number("mark-accepted") in {2, 10}, "a green"


def test_there_is_a_theme_of_each_kind() -> None:
    assert [theme.name for theme in THEMES] == [
        "spec-dark",
        "spec-light",
        "spec-contrast",
        "spec-color-blind",
    ]
    assert [theme.dark for theme in THEMES] == [True, False, True, True]
    assert {frozenset(mark_colors(theme)) for theme in THEMES} == {frozenset(f"mark-{mark}" for mark in Mark)}


def test_without_red_and_green_the_verdicts_differ_in_brightness_or_blue() -> None:
    accepted, rejected = (
        Color.parse(COLOR_BLIND.variables[f"mark-{name}"]) for name in ("accepted", "rejected")
    )
    assert abs(accepted.b - rejected.b) > 128
    green, red = (Color.parse(DARK.variables[f"mark-{name}"]) for name in ("accepted", "rejected"))
    assert abs(green.b - red.b) < 128, "what the other themes do not promise"
