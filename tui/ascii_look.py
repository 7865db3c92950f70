"""The parts of a screen that Textual draws itself (borders, scrollbars, arrows) in ASCII.

A terminal without Unicode shows them as boxes or question marks. Every line passes ``AsciiFilter`` before it
is written, so no widget has to know. The panes' own signs are in ``tui.glyphs``.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender

_SIDES = "\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2551\u2575\u2577\u2579\u257b\u257d\u257f"
_ACROSS = "\u2500\u2501\u2504\u2505\u2508\u2509\u254c\u254d\u2550\u2574\u2576\u2578\u257a\u257c\u257e"
_ANY = {
    "HORIZONTAL": "-",
    "UPPER": "-",
    "LOWER": "_",
    "LEFT": "|",
    "RIGHT": "|",
    "UP-POINTING": "^",
    "DOWN-POINTING": "v",
    "LEFT-POINTING": "<",
    "RIGHT-POINTING": ">",
    "CIRCLE": "o",
}
"""By a word of a character's Unicode name; the pointers come before the sides."""


def _ascii(char: str) -> str:
    """One ASCII character that looks most like a drawing one."""
    if char in _SIDES:
        return "|"
    if char in _ACROSS:
        return "-"
    if char < "\u2580":
        return "+"
    name = unicodedata.name(char, "")
    for word in ("UP-POINTING", "DOWN-POINTING", "LEFT-POINTING", "RIGHT-POINTING"):
        if word in name:
            return _ANY[word]
    return next((sign for word, sign in _ANY.items() if word in name.split()), "#")


_TABLE = {code: _ascii(chr(code)) for code in range(0x2500, 0x2600)}
"""Box drawing, blocks and geometric shapes: one column each, as what stands for them."""


@lru_cache(maxsize=1024)
def ascii_text(text: str) -> str:
    """``text`` with ASCII in place of what lines and boxes are drawn with; other characters stay."""
    return text if text.isascii() else text.translate(_TABLE)


class AsciiFilter(LineFilter):
    """Lines without drawing characters."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments in ASCII."""
        del background
        return [Segment(ascii_text(text), style, control) for text, style, control in segments]


class AsciiScrollBarRender(ScrollBarRender):
    """A scrollbar of whole cells, told by their colour, and by being reversed where there is none."""

    VERTICAL_BARS = [" "]  # noqa: RUF012
    HORIZONTAL_BARS = [" "]  # noqa: RUF012
