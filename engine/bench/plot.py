"""Line charts as one SVG file, without a library: axes from zero, a line and a name for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10

WIDTH, HEIGHT = 460, 300
"""Of a panel."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 32, 36, 76
_COLUMNS = 2
COLOURS = ("#1f5fa8", "#c2571a", "#3c7d3c", "#7a4b9a")
"""All of them dark enough on white."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart. Both axes begin at zero."""

    title: str
    x: str
    """Name of the axis."""
    y: str
    series: Sequence[Series]


def svg(panels: Sequence[Panel]) -> str:
    """A file with all panels, two in a row."""
    rows = ceil(len(panels) / _COLUMNS)
    width, height = WIDTH * min(len(panels), _COLUMNS), HEIGHT * rows
    corners = [(WIDTH * (at % _COLUMNS), HEIGHT * (at // _COLUMNS)) for at in range(len(panels))]
    drawn = "\n".join(
        f'<g transform="translate({x} {y})">\n{_panel(panel)}\n</g>'
        for (x, y), panel in zip(corners, panels, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#222">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n{drawn}\n</svg>\n'
    )


def ticks(most: float) -> list[float]:
    """Round numbers from 0 up to the first one that is not below ``most``: 4 to 8 of them, 0 included."""
    assert most > 0, "an axis needs a length"
    decade = 10.0 ** ceil(log10(most) - 1)
    step = next(decade * part for part in (0.2, 0.25, 0.5, 1, 2) if most <= 6 * decade * part)
    return [step * number for number in range(ceil(most / step - 1e-9) + 1)]


def _panel(panel: Panel) -> str:
    xs = ticks(max(x for series in panel.series for x, _ in series.points))
    ys = ticks(max(y for series in panel.series for _, y in series.points))
    plot_width, plot_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + plot_width * x / xs[-1], _TOP + plot_height * (1 - y / ys[-1])

    bottom = _TOP + plot_height
    parts = [_text(WIDTH / 2, 20, panel.title, "middle", ' font-size="14" font-weight="bold"')]
    for tick in ys:
        _, y = place(0, tick)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{tick:,.10g}", "end"))
    for tick in xs:
        x, _ = place(tick, 0)
        parts.append(f'<path d="M{x:.1f} {bottom}v4" stroke="#888"/>')
        parts.append(_text(x, bottom + 18, f"{tick:,.10g}", "middle"))
    parts.append(f'<path d="M{_LEFT} {bottom}H{WIDTH - _RIGHT}" stroke="#888"/>')
    parts.append(_text(WIDTH - _RIGHT, bottom + 34, panel.x, "end"))
    parts.append(_text(_LEFT - 6, _TOP - 8, panel.y, "end"))
    for number, series in enumerate(panel.series):
        colour = COLOURS[number % len(COLOURS)]
        parts += _line(colour, [place(x, y) for x, y in series.points])
        legend = _LEFT + number * plot_width / len(panel.series)
        parts.append(f'<path d="M{legend:.1f} {bottom + 54}h16" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(legend + 20, bottom + 58, series.name, "start"))
    return "\n".join(parts)


def _line(colour: str, places: Sequence[tuple[float, float]]) -> list[str]:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
