"""The last line of a pane that explains the marks, however narrow the pane is."""

from __future__ import annotations

from tui.glyphs import Glyphs
from tui.marks import LEGEND_ORDER, Mark, legend
from tui.widgets.painted import BARE
from tui.widgets.rows import Piece, fitting

_GAPS = (2, 1)
"""Blanks between two marks, the first that has room."""
_SHORTER: tuple[dict[Mark, str], ...] = (
    {Mark.CORRECTION: "corr"},
    {Mark.ACCEPTED: "ok", Mark.REJECTED: "rej", Mark.IGNORED: "ign", Mark.CORRECTION: "corr"},
)


def legend_pieces(
    glyphs: Glyphs, width: int, marks: tuple[Mark, ...] = LEGEND_ORDER, *, signs: bool = True
) -> tuple[Piece, ...]:
    """Every mark with its name; the names are shortened until all have room, in the end to the signs alone.

    Args:
        signs: the pane puts signs before its tokens; else a style stands for each mark, and a name shows it.
    """
    names = [{mark: mark.value for mark in marks}]
    names += [names[0] | {mark: name for mark, name in short.items() if mark in marks} for short in _SHORTER]
    if signs:
        names.append({mark: "ok" if mark is Mark.ACCEPTED else "" for mark in marks})
    return fitting(width, *(_pieces(glyphs, each, gap, signs=signs) for each in names for gap in _GAPS))


def _pieces(glyphs: Glyphs, names: dict[Mark, str], gap: int, *, signs: bool) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    for entry in legend(glyphs, tuple(names)):
        pieces += [Piece(" " * gap)] if pieces else []
        pieces += [Piece(entry.glyph, f"{entry.component} {BARE}")] if signs and entry.glyph else []
        pieces += [Piece(names[entry.mark], entry.component)]
    return tuple(piece for piece in pieces if piece.text)
