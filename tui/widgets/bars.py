"""Bars, digits and number formats that the inspector and the gauge draw with."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.renderables.digits import Digits

from tui.glyphs import Glyphs, bar
from tui.widgets.rows import Piece, Row, clip_row

_TIME_NAMES = ("draft", "verify", "host")
_TIME_STYLES = ("lines--drafter", "lines--target", "lines--host")
_TIME_FILLS = ("▒", "█", "░")
_ASCII_FILLS = ("d", "v", "h")


def bar_row(label: str, number: str, share: float, width: int, glyphs: Glyphs, style: str = "") -> Row:
    """A label, a number and a bar that takes the rest of ``width`` (none if there is no room for one)."""
    text = f"{label} {number} "
    room = width - cell_len(text)
    if room < 3:
        return Row(clip_row((Piece(text.rstrip(), ""),), width, glyphs.ellipsis))
    return Row((Piece(text), *bar_pieces(bar(share, room, glyphs), style, glyphs)))


def bar_pieces(cells: str, style: str, glyphs: Glyphs) -> tuple[Piece, ...]:
    """A bar whose empty part is faint."""
    pieces: list[Piece] = []
    for cell in cells:
        name = "lines--faint" if cell == glyphs.empty else style if cell != glyphs.tick else ""
        if pieces and pieces[-1].style == name:
            pieces[-1] = Piece(pieces[-1].text + cell, name)
        else:
            pieces.append(Piece(cell, name))
    return tuple(pieces)


def time_rows(times: tuple[float, float, float], width: int, glyphs: Glyphs, unit: str = "ms") -> list[Row]:
    """Where the time went: one bar of three parts, then their names. ``times``: draft, verify, host."""
    total = sum(times)
    fills = _ASCII_FILLS if glyphs.ascii_only else _TIME_FILLS
    cells = _parts(times, width) if total > 0 else (0, 0, 0)
    pieces = tuple(
        Piece(fill * count, style)
        for fill, count, style in zip(fills, cells, _TIME_STYLES, strict=True)
        if count
    )
    rows = [Row(pieces or (Piece(glyphs.empty * width, "lines--faint"),))]
    line: list[Piece] = []
    used = 0
    for name, fill, style, time in zip(_TIME_NAMES, fills, _TIME_STYLES, times, strict=True):
        value = f"{time:.1f} {unit}" if total > 0 else glyphs.absent
        text = f" {name} {value}" if glyphs.ascii_only is False else f"={name} {value}"
        gap = 2 if line else 0
        if used + gap + 1 + len(text) > width and line:
            rows.append(Row(tuple(line)))
            line, used, gap = [], 0, 0
        line += [Piece(" " * gap), Piece(fill, style), Piece(text)]
        used += gap + 1 + len(text)
    rows.append(Row(clip_row(line, width, glyphs.ellipsis)))
    return rows


def _parts(times: tuple[float, ...], width: int) -> tuple[int, ...]:
    """Columns of each part, together ``width``; what took time has at least one, while there is room."""
    total = sum(times)
    exact = [width * time / total for time in times]
    cells = [int(value) or int(time > 0) for value, time in zip(exact, times, strict=True)]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    while sum(cells) < width:
        lacking = [value - count for value, count in zip(exact, cells, strict=True)]
        cells[lacking.index(max(lacking))] += 1
    return tuple(cells)


@lru_cache(maxsize=64)
def digit_lines(text: str) -> tuple[str, ...]:
    """``text`` in digits three rows high."""
    lines: list[str] = [""]
    for segment in Digits(text).render(Style()):
        if not isinstance(segment, Segment):
            continue
        if segment.text == "\n":
            lines.append("")
        else:
            lines[-1] += segment.text
    return tuple(lines[:3])


def shown(value: float | None, form: str, absent: str) -> str:
    """A measure in a format such as ".2f"; one that is absent as such."""
    return absent if value is None else format(value, form)


def size(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB" if value < 1000 else f"{value / 1000:.1f} TB"
