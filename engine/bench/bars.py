"""Bar charts as SVG, without a library: groups of horizontal bars from zero, with a line at a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from engine.bench.plot import COLOURS, ticks

WIDTH = 920
_LEFT, _RIGHT, _TOP, _BOTTOM = 150, 60, 64, 40
_BAR, _GAP = 14, 12
"""Height of a bar, and space between two groups."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One chart."""

    title: str
    x: str
    """Name of the axis."""
    series: Sequence[str]
    groups: Sequence[tuple[str, Sequence[float | None]]]
    """Name, and a value for each of the series; None draws no bar."""
    line: float | None = None
    """Where a line crosses all bars."""


def bars_svg(bars: Bars) -> str:
    """The chart as an SVG element."""
    values = [value for _, group in bars.groups for value in group if value is not None]
    scale = ticks(max([*values, bars.line or 0.0, 1e-9]))
    group_height = _BAR * len(bars.series) + _GAP
    bottom = _TOP + group_height * len(bars.groups)
    height = bottom + _BOTTOM

    def place(value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * value / scale[-1]

    parts = [_text(WIDTH / 2, 20, bars.title, "middle", ' font-size="14" font-weight="bold"')]
    for tick in scale:
        parts.append(f'<path d="M{place(tick):.1f} {_TOP}V{bottom}" stroke="#ddd"/>')
        parts.append(_text(place(tick), bottom + 16, f"{tick:,.10g}", "middle"))
    parts.append(_text(WIDTH - _RIGHT, bottom + 34, bars.x, "end"))
    legend = float(_LEFT)
    for index, name in enumerate(bars.series):
        parts.append(f'<rect x="{legend:.1f}" y="36" width="12" height="12" fill="{_colour(index)}"/>')
        parts.append(_text(legend + 16, 46, name, "start"))
        legend += 16 + 8 * len(name) + 16
    for number, (name, group) in enumerate(bars.groups):
        top = _TOP + number * group_height + _GAP / 2
        parts.append(_text(_LEFT - 8, top + _BAR * len(group) / 2 + 4, name, "end"))
        for index, value in enumerate(group):
            if value is not None:
                parts += _bar(place(0), place(value), top + index * _BAR, _colour(index), f"{value:.2f}")
    if bars.line is not None:
        parts.append(
            f'<path d="M{place(bars.line):.1f} {_TOP}V{bottom}" stroke="#888" stroke-dasharray="4 3"/>'
        )
    drawn = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#222">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n{drawn}\n</svg>\n'
    )


def _bar(left: float, right: float, top: float, colour: str, value: str) -> list[str]:
    width = right - left
    return [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR - 3}" fill="{colour}"/>',
        _text(right + 4, top + _BAR - 4, value, "start"),
    ]


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
