"""Tokens as wrapped text that grows at its end: an append lays out the last row again and nothing before it.

A token is bytes, so a character may come from several tokens: it belongs to the token of its first byte, and
a cluster (an emoji of several code points, say) to that of its first character. Bytes that are no character
become chips such as ``<E2>``; those that may still become one wait for the next token.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

from tui.safe_text import visible
from tui.widgets.rows import clusters

_TAB_STOP = 4
_PLAIN = re.compile(r"[\x20-\x7e\n]*")
_JOINERS = "\u200c\u200d"
_CONTEXT = 2
"""Characters before a text that decide how its first one is shown (see ``tui.safe_text``)."""


class Kind:
    """What a stretch of text is."""

    TEXT = ""
    BLANK = "blank"
    """Blanks that are a whole token, so that nothing else shows it."""
    NEWLINE = "newline"
    TAB = "tab"
    CHIP = "chip"
    """A byte or a control character in a visible form."""


class Cell(NamedTuple):
    """One character as a reader sees it."""

    text: str
    width: int
    token: int
    source: str
    kind: str


class Run(NamedTuple):
    """Neighbouring cells of one token and kind."""

    text: str
    token: int
    source: str
    kind: str


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A row of wrapped text."""

    runs: tuple[Run, ...]
    soft: bool
    """Whether the row ends because it is full, not with a line end."""
    first: int
    """The token it starts with; that of an empty row is the next one to come."""


class TokenFlow:
    """Wrapped rows of a growing list of tokens."""

    def __init__(self, width: int, *, first: int = 0, ascii_only: bool = False, newline: str = "\n") -> None:
        """``first`` is the index of the first token, ``newline`` the glyph of a line end."""
        self.width = max(width, 1)
        self.first = self.end = first
        self.rows: list[FlowRow] = []
        self.laid_out = 0
        """Rows made so far, in all: what the work grows with."""
        self._ascii_only = ascii_only
        self._newline = newline
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._waiting: list[int] = []  # the token of each byte the decoder holds
        self._chars: list[str] = []  # characters of the last row, as the model wrote them
        self._owners: list[tuple[int, bool]] = []  # the token of each, and whether it is nothing but blanks
        self._context = ""

    def append(self, pieces: Iterable[bytes]) -> int:
        """Add tokens; the index of the first row that changed."""
        before = len(self.rows)
        for piece in pieces:
            self._decode(self._decoder.decode(piece), [self.end] * len(piece), piece.isspace())
            self.end += 1
        return self._lay_out(max(before - 1, 0), _JOINERS)

    def finish(self) -> int:
        """No more tokens: bytes that wait will not become a character. The first row that changed."""
        before = len(self.rows)
        self._decode(self._decoder.decode(b"", final=True), [], is_blank=False)
        return self._lay_out(max(before - 1, 0))

    def row_of(self, token: int) -> int:
        """The last row in which a token starts or goes on."""
        return max(bisect_right(self.rows, token, key=lambda row: row.first) - 1, 0)

    def _decode(self, text: str, owners: list[int], is_blank: bool) -> None:
        self._waiting += owners
        at = 0
        for char in text:
            self._chars.append(char)
            self._owners.append((self._waiting[at], is_blank))
            at += 1 if char < "\x80" or "\udc80" <= char <= "\udcff" else len(char.encode())
        del self._waiting[:at]

    def _lay_out(self, first: int, wait: str = "") -> int:
        """Replace the rows from ``first`` (the last one) by those of the waiting characters.

        A character of ``wait`` at the end is not shown yet: what it joins is still to come.
        """
        del self.rows[first:]
        shown = len(self._chars) - bool(self._chars and self._chars[-1] in wait)
        text = "".join(self._chars[:shown])
        cells = _cells(text, self._owners[:shown], self._context, self._ascii_only, self._newline)
        taken = start = 0
        for row, hard in _wrapped(cells, self.width):
            start = taken
            taken += sum(len(cell.source) for cell in row)
            token = row[0].token if row else self.end
            self.rows.append(FlowRow(_merged(row), not hard, token))
            self.laid_out += 1
        if self.rows:
            self.rows[-1] = FlowRow(self.rows[-1].runs, False, self.rows[-1].first)
        before = self._context + "".join(self._chars[:start])
        self._context = before[-_CONTEXT:]
        del self._chars[:start], self._owners[:start]
        return first


def _cells(
    text: str, owners: list[tuple[int, bool]], context: str, ascii_only: bool, newline: str
) -> Iterator[Cell]:
    if _PLAIN.fullmatch(text):
        for char, (token, is_blank) in zip(text, owners, strict=True):
            if char == "\n":
                yield Cell(newline, len(newline), token, char, Kind.NEWLINE)
            else:
                yield Cell(char, 1, token, char, Kind.BLANK if is_blank else Kind.TEXT)
        return
    for start, end, shown in _stretches(text, context, ascii_only):
        token, is_blank = owners[start]
        source = text[start:end]
        if source == "\n":
            yield Cell(newline, len(newline), token, source, Kind.NEWLINE)
        elif source == "\t":
            yield Cell("\t", 1, token, source, Kind.TAB)
        elif shown is not None:
            yield Cell(shown, cell_len(shown), token, source, Kind.CHIP)
        else:
            for low, high, width in clusters(source):
                token, is_blank = owners[start + low]
                kind = Kind.BLANK if is_blank else Kind.TEXT
                yield Cell(source[low:high], width, token, source[low:high], kind)


def _stretches(text: str, context: str, ascii_only: bool) -> Iterator[tuple[int, int, str | None]]:
    """Stretches (start, end, shown) of a text: safe ones, shown as they are (None), and single characters
    that are shown in another form."""
    whole = context + text
    # A lone byte is a surrogate here, which ``visible`` shows as such: <U+DCE2>, eight characters.
    shown = visible(whole, "\n\t", ascii_only=ascii_only)
    at = start = 0
    base = len(context)
    for index, char in enumerate(whole):
        if shown[at] == char and char not in "\n\t":
            at += 1
            continue
        end = at + 1 if shown[at] != "<" else shown.index(">", at) + 1
        if index >= base:
            if max(start, base) < index:
                yield max(start, base) - base, index - base, None
            is_byte = "\udc80" <= char <= "\udcff"
            form = f"<{ord(char) - 0xDC00:02X}>" if is_byte else shown[at:end]
            yield index - base, index + 1 - base, None if char in "\n\t" else form
        start, at = index + 1, end
    if max(start, base) < len(whole):
        yield max(start, base) - base, len(text), None


def _wrapped(cells: Iterable[Cell], width: int) -> Iterator[tuple[list[Cell], bool]]:
    """Rows (cells, ends with a line end) of at most ``width`` columns, broken behind blanks where possible.

    One blank at the end of a full row has no column of its own.
    """
    row: list[Cell] = []
    used = breakable = 0  # breakable: cells up to the last place where the row may end
    for cell in cells:
        if cell.kind == Kind.NEWLINE:
            row.append(cell if used + cell.width <= width else cell._replace(text="", width=0))
            yield row, True
            row, used, breakable = [], 0, 0
            continue
        if used + cell.width > width and cell.source == " " and row and row[-1].text:
            row.append(cell._replace(text="", width=0))
            breakable = len(row)
            continue
        while row and used + cell.width > width:
            cut = breakable or len(row)
            yield row[:cut], False
            row = row[cut:]
            used, breakable = sum(kept.width for kept in row), 0
        row.append(_tab(cell, used, width) if cell.kind == Kind.TAB else cell)
        used += row[-1].width
        if cell.source in {" ", "\t"}:
            breakable = len(row)
    yield row, False


def _tab(cell: Cell, used: int, width: int) -> Cell:
    """A tab is as wide as where it falls makes it."""
    columns = min(_TAB_STOP - used % _TAB_STOP, width - used)
    return cell._replace(text=" " * columns, width=columns)


def _merged(row: list[Cell]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for cell in row:
        last = runs[-1] if runs else None
        if last is not None and _belongs(cell, last):
            runs[-1] = Run(last.text + cell.text, last.token, last.source + cell.source, last.kind)
        else:
            runs.append(Run(cell.text, cell.token, cell.source, cell.kind))
    return tuple(runs)


def _belongs(cell: Cell, run: Run) -> bool:
    """Whether a cell goes on with a run; tabs and what has no column stay by themselves."""
    same = run.token == cell.token and run.kind == cell.kind != Kind.TAB
    return same and bool(run.text) == bool(cell.text)
