"""Rows of styled text for the line-API panes: what is shown, how, what it stands for and what copying gives.

Nothing here knows of Textual. All text in a ``Piece`` has passed ``visible`` or ``visible_bytes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len, split_graphemes


class Piece(NamedTuple):
    """A stretch of text in one style."""

    text: str
    style: str = ""
    """Component classes, separated by blanks; later ones win. Empty: the pane's own style."""
    key: int = -1
    """What it belongs to: an index of a token, of a draft, ...; -1 for nothing."""
    source: str | None = None
    """What copying the whole piece gives; None: the text as shown."""


class Row(NamedTuple):
    """One line of the screen."""

    pieces: tuple[Piece, ...] = ()
    soft: bool = False
    """The line goes on in the next row, so copying puts no line end between them."""

    @property
    def text(self) -> str:
        """The text as shown."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def hung(self) -> str:
        """What stands at the end of the row and has no column."""
        last = self.pieces[-1] if self.pieces else Piece("")
        return last.source or "" if not last.text else ""

    def copied(self, start: int, end: int) -> str:
        """What copying the characters ``start`` to ``end`` of ``text`` gives; a line end is not in it."""
        parts: list[str] = []
        at = 0
        for text, _, _, source in self.pieces:
            low, high = max(start - at, 0), min(end - at, len(text))
            if source is not None and (low < high or (not text and start <= at < end)):
                parts.append(source)
            elif low < high:
                parts.append(text[low:high])
            at += len(text)
        return "".join(parts)


def clusters(text: str) -> Iterator[tuple[int, int, int]]:
    """What a reader takes for one character: (start, end, columns), without gaps."""
    if text.isascii():
        yield from ((index, index + 1, 1) for index in range(len(text)))
        return
    flag: tuple[int, int, int] | None = None
    for start, end, width in split_graphemes(text)[0]:
        if end - start == 1 and "\U0001f1e6" <= text[start] <= "\U0001f1ff":
            if flag is None:
                flag = (start, end, width)
            else:  # two regional indicators are one flag
                yield flag[0], end, flag[2] + width
                flag = None
            continue
        if flag is not None:
            yield flag
            flag = None
        yield start, end, width
    if flag is not None:
        yield flag


def clip(text: str, width: int, ellipsis: str) -> str:
    """``text`` in at most ``width`` columns; what is cut is shown as an ellipsis."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ellipsis)
    if room < 0:
        return ellipsis[: max(width, 0)]
    used = cut = 0
    for _, end, columns in clusters(text):
        if used + columns > room:
            break
        used, cut = used + columns, end
    return text[:cut] + ellipsis


def clip_row(pieces: Iterable[Piece], width: int, ellipsis: str) -> tuple[Piece, ...]:
    """Pieces in at most ``width`` columns, with an ellipsis where they are cut."""
    kept: list[Piece] = []
    used = 0
    pieces = tuple(pieces)
    total = sum(cell_len(piece.text) for piece in pieces)
    if total <= width:
        return pieces
    for piece in pieces:
        columns = cell_len(piece.text)
        room = width - used
        if columns + cell_len(ellipsis) <= room:
            kept.append(piece)
            used += columns
            continue
        # A longer text than the piece's own, so that it is cut and not merely filled up.
        kept.append(piece._replace(text=clip(piece.text + " " * (room + 1), room, ellipsis)))
        break
    return tuple(kept)


def fitting(width: int, *choices: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The first of some ways to say a thing that has room; the last one where none has."""
    for pieces in choices:
        if sum(cell_len(piece.text) for piece in pieces) <= width:
            return pieces
    return choices[-1]


def padded(text: str, width: int) -> str:
    """``text`` with blanks at the end, ``width`` columns wide."""
    return text + " " * (width - cell_len(text))


def wrap(text: str, width: int, style: str = "", indent: str = "") -> list[Row]:
    """Words in rows of at most ``width`` columns; longer words are broken."""
    rows: list[Row] = []
    line = ""
    for word in text.split():
        rest = word
        while rest:
            joined = f"{line} {rest}" if line else (indent if rows else "") + rest
            if cell_len(joined) <= width:
                line = joined
                break
            if line:
                rows.append(Row((Piece(line, style),)))
                line = ""
                continue
            cut = _cut(joined, width)
            rows.append(Row((Piece(joined[:cut], style),)))
            rest = joined[cut:]
    if line:
        rows.append(Row((Piece(line, style),)))
    return rows


def _cut(text: str, width: int) -> int:
    """Index behind the last whole character in ``width`` columns; at least one character."""
    used = 0
    for start, end, columns in clusters(text):
        used += columns
        if used > width:
            return start or end
    return len(text)
