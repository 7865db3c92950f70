"""Two lists of tokens side by side: both begin a new line at the same token, so that token N stands beside
token N. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len

from tui.marks import NO_PIECE
from tui.safe_text import visible_bytes
from tui.widgets.rows import clusters


class Shown(NamedTuple):
    """A token as it is shown."""

    text: str
    """Safe to show, never empty, without a line end."""
    width: int
    """Columns of the text."""
    begins_line: bool = False
    ends_line: bool = False
    """The next token begins a line."""


class Line(NamedTuple):
    """One line of both columns."""

    start: int
    """Index of its first token."""
    end: int
    """Index behind its last token."""
    part: int = 0
    """Which line of several: of a token that is wider than its column, or of the marker."""
    is_whole: bool = True
    """All tokens from ``start`` to ``end`` are on it; else a part of the one at ``start``."""

    @property
    def is_marker(self) -> bool:
        """It holds no token: it stands before the first one that differs."""
        return self.start == self.end


MARKER_LINES = 2


def shown(piece: bytes, *, ascii_only: bool = False) -> Shown:
    """A token's bytes on a line: blanks round a word stay blanks, blanks alone are made visible."""
    body = piece.strip(b" ")
    if body:
        start = piece.index(body)
        end = len(piece) - start - len(body)
        text = " " * start + visible_bytes(body, ascii_only=ascii_only) + " " * end
    else:
        text = visible_bytes(piece, ascii_only=ascii_only) or NO_PIECE
    # The usual token of an indented line is its line end and the blanks behind it: they begin the line.
    begins = piece.startswith(b"\n") and not piece.endswith(b"\n")
    return Shown(text, cell_len(text), begins, not begins and b"\n" in piece)


def align(first: Sequence[Shown], second: Sequence[Shown], width: int, at: int | None = None) -> list[Line]:
    """The lines of two columns, each ``width`` columns wide. O(tokens).

    Args:
        at: index of the first token that differs: a marker stands before it, and a line begins with it.
    """
    assert width > 0, f"a column of {width}"
    lines: list[Line] = []
    start, used = 0, (0, 0)
    for index in range(max(len(first), len(second))):
        pair = [tokens[index] if index < len(tokens) else None for tokens in (first, second)]
        widths = [token.width if token else 0 for token in pair]
        begins = index == at or any(token.begins_line for token in pair if token)
        if begins or used[0] + widths[0] > width or used[1] + widths[1] > width:
            lines += _closed(start, index)
            start, used = index, (0, 0)
        if index == at:
            lines += [Line(at, at, part) for part in range(MARKER_LINES)]
        if max(widths) > width:
            parts = max(len(parts_of(token.text, width)) for token in pair if token)
            lines += [Line(index, index + 1, part, is_whole=False) for part in range(parts)]
            start = index + 1
            continue
        used = (used[0] + widths[0], used[1] + widths[1])
        if any(token.ends_line for token in pair if token):
            lines += _closed(start, index + 1)
            start, used = index + 1, (0, 0)
    return lines + _closed(start, max(len(first), len(second)))


def _closed(start: int, end: int) -> list[Line]:
    return [Line(start, end)] if start < end else []


def parts_of(text: str, width: int) -> list[str]:
    """A text in parts of at most ``width`` columns, but for a character that is wider."""
    return [*_parts(text, width)]


def _parts(text: str, width: int) -> Iterator[str]:
    start = used = 0
    for low, _, columns in clusters(text):
        if used + columns > width and low > start:
            yield text[start:low]
            start, used = low, 0
        used += columns
    yield text[start:]
