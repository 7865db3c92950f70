"""The likeliest tokens of both models at one position, as rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from engine.events import Alternative
from tui.glyphs import Glyphs
from tui.marks import piece_text
from tui.widgets.bars import bar_row
from tui.widgets.rows import Piece, Row, clip, clip_row, fitting, padded

BESIDE_FROM = 24
"""Columns from which on two laws have room beside each other."""
_NUMBER = 5
"""Columns of a probability there."""


@dataclass(frozen=True, slots=True)
class Law:
    """What is known of one model's law."""

    name: str
    entries: tuple[Alternative, ...]
    chosen: int
    """Id of the token that is looked at."""
    style: str
    before_temperature: bool
    """Of a run that takes only the likeliest token: the numbers are those at temperature 1."""


def law_rows(law: Law, width: int, glyphs: Glyphs) -> list[Row]:
    """A heading, and a line with a bar for each token."""
    if not law.entries:
        return []
    column = min(max(width // 3, 6), 16)
    rows = [_row(_heading(law, width), width, glyphs)]
    for entry in law.entries:
        number = f"{entry.probability:6.3f}"
        label = _label(law, entry, column, glyphs)
        rows.append(bar_row(label, number, entry.probability, width, glyphs, law.style))
    return rows


def rows_beside(laws: list[Law], width: int, glyphs: Glyphs) -> list[Row]:
    """Two laws beside each other, without bars; one alone as ever."""
    laws = [law for law in laws if law.entries]
    if len(laws) < 2 or width < BESIDE_FROM:
        return [row for law in laws for row in law_rows(law, width, glyphs)]
    half = (width - 1) // 2
    heading = tuple(Piece(padded(f" {law.name}", half + 1), f"{law.style} lines--strong") for law in laws)
    rows = [_row(heading, width, glyphs)]
    if any(law.before_temperature for law in laws):
        rows.append(_row((Piece(" before temperature", "lines--dim"),), width, glyphs))
    for at in range(max(len(law.entries) for law in laws)):
        pieces: list[Piece] = []
        for law in laws:
            text = ""
            if at < len(law.entries):
                entry = law.entries[at]
                label = _label(law, entry, half - 1 - _NUMBER, glyphs)
                text = f"{label}{entry.probability:{_NUMBER}.2f}"
            pieces.append(Piece(padded(text, half + 1)))
        rows.append(_row(tuple(pieces), width, glyphs))
    return rows


def _heading(law: Law, width: int) -> tuple[Piece, ...]:
    name = law.name
    long = Piece(f"{name}'s likeliest", "lines--strong")
    if not law.before_temperature:
        return (long,)
    note = Piece(", before temperature", "lines--dim")
    short = Piece(name, "lines--strong")
    return fitting(width, (long, note), (short, note), (short, Piece(", before T", "lines--dim")))


def _label(law: Law, entry: Alternative, columns: int, glyphs: Glyphs) -> str:
    """A token's text in some columns, with a sign where it is the one that is looked at."""
    sign = glyphs.cursor if entry.id == law.chosen else " "
    return sign + padded(clip(piece_text(entry.piece, glyphs), columns, glyphs.ellipsis), columns)


def _row(pieces: tuple[Piece, ...], width: int, glyphs: Glyphs) -> Row:
    total = sum(cell_len(piece.text) for piece in pieces)
    if total > width and pieces[-1].text.endswith(" "):
        last = pieces[-1]
        pieces = (*pieces[:-1], last._replace(text=last.text.rstrip(" ")))
    return Row(clip_row(pieces, width, glyphs.ellipsis))
