"""The signs the panes draw with: one set for terminals with Unicode, one in ASCII.

Every sign is one column wide in every terminal that follows wcwidth; none is an emoji.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs."""

    ascii_only: bool
    """Also how ``visible`` and ``visible_bytes`` are to write."""

    rejected: str = "x"
    ignored: str = "."
    correction: str = ">"
    bonus: str = "+"
    given: str = "="
    pending: str = "?"

    full: str = "█"
    empty: str = "░"
    parts: str = "▏▎▍▌▋▊▉"
    """Cells filled by 1/8, 2/8, ...; as many as the set has."""
    levels: str = "▁▂▃▄▅▆▇█"
    """Cells filled to a height, lowest first."""
    tick: str = "│"
    """A mark on a bar."""
    line: str = "─"
    cursor: str = "▌"

    play: str = "►"
    pause: str = "‖"
    stop: str = "■"
    record: str = "●"
    folded: str = "▸"
    unfolded: str = "▾"
    up: str = "↑"
    down: str = "↓"
    arrow: str = "→"
    newline: str = "⏎"
    blank: str = "·"
    """A blank that would not be seen; as ``visible_bytes`` writes it."""
    check: str = "✓"
    cross: str = "✗"
    bullet: str = "•"
    separator: str = "·"
    ellipsis: str = "…"
    times: str = "x"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    """Frames of one column."""
    absent: str = "--"
    """A measure that does not exist."""


UNICODE = Glyphs(ascii_only=False)
ASCII = Glyphs(
    ascii_only=True,
    full="#",
    empty="-",
    parts="",
    levels="_.-=+*#@",
    tick="|",
    line="-",
    cursor=">",
    play=">",
    pause="=",
    stop="#",
    record="o",
    folded="+",
    unfolded="-",
    up="^",
    down="v",
    arrow="->",
    newline="\\n",
    blank="~",
    check="v",
    cross="x",
    bullet="*",
    separator="-",
    ellipsis="...",
    spinner="|/-\\",
)


def glyph_set(ascii_only: bool) -> Glyphs:
    """The set for a terminal."""
    return ASCII if ascii_only else UNICODE


def bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A bar of ``width`` columns, ``share`` (0..1, clipped) of it full."""
    steps = len(glyphs.parts) + 1
    filled = round(min(max(share, 0.0), 1.0) * width * steps)
    whole, part = divmod(filled, steps)
    text = glyphs.full * whole + (glyphs.parts[part - 1] if part else "")
    return text + glyphs.empty * (width - len(text))


def bar_with_tick(share: float, tick: float, width: int, glyphs: Glyphs) -> str:
    """The same with a mark at ``tick`` (0..1)."""
    cells = bar(share, width, glyphs)
    at = min(max(int(tick * width), 0), width - 1)
    return cells[:at] + glyphs.tick + cells[at + 1 :] if width > 0 else ""


def sparkline(values: Iterable[float], glyphs: Glyphs, top: float | None = None) -> str:
    """One column a value (>= 0), as high as its share of ``top``; None: of the highest one."""
    heights = list(values)
    highest = max(heights, default=0.0) if top is None else top
    if highest <= 0:
        return glyphs.levels[0] * len(heights)
    last = len(glyphs.levels) - 1
    return "".join(glyphs.levels[round(min(max(value / highest, 0.0), 1.0) * last)] for value in heights)
