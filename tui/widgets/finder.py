"""Finding text in rows, a row at a time, so that what is appended costs only its own length."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from tui.widgets.rows import Row

Place = tuple[int, int]
"""Row and character of a match's first character."""


class Finder:
    """The places of a text in rows; case does not matter, and a match may go over soft line ends."""

    def __init__(self, row_at: Callable[[int], Row], whole_row: Callable[[int], Row] | None = None) -> None:
        """``row_at`` makes a row as it is shown, ``whole_row`` as it is searched; a shown row may be cut."""
        self._row_at = row_at
        self._whole_row = whole_row or row_at
        self.needle = ""
        self.places: list[Place] = []
        self.current: int | None = None
        """Index into ``places`` of the match that was gone to."""
        self.first = 0
        """Rows before this one are not searched."""
        self._searched = 0  # rows before this one are done

    def search(self, needle: str, rows: int) -> None:
        """Look for another text; an empty one ends the search."""
        self.needle = needle.lower()
        self.places = []
        self.current = None
        self._searched = 0
        self.extend(rows)

    def forget(self, first: int) -> None:
        """The rows from ``first`` on are no longer what they were."""
        if not self.needle or first > self._searched:
            return
        while first > 0 and self._row_at(first - 1).soft:
            first -= 1  # a match may reach from an earlier row into the changed one
            if self._searched - first > len(self.needle):
                break
        self._searched = min(self._searched, first)
        del self.places[bisect_left(self.places, (first, 0)) :]
        if self.current is not None and self.current >= len(self.places):
            self.current = None

    def extend(self, rows: int) -> None:
        """Search the rows that are new."""
        if not self.needle:
            return
        for y in range(max(self._searched, self.first), rows):
            text = self._whole_row(y).text
            self.places += [(y, at) for at in self._starts(text + self._after(y, rows), len(text))]
        self._searched = rows

    def spans(self, y: int, rows: int) -> list[tuple[int, int, bool]]:
        """Characters of row ``y`` that belong to matches: (start, end, is the current match)."""
        if not self.needle:
            return []
        before, shown = self._before(y), self._row_at(y).text
        own = len(shown)
        text = before + shown + self._after(y, rows)
        current = self.places[self.current] if self.current is not None else None
        spans: list[tuple[int, int, bool]] = []
        for at in self._starts(text, len(text)):
            start, end = at - len(before), at - len(before) + len(self.needle)
            if start < own and end > 0:
                is_current = current == (y, start) or (start < 0 and current is not None and current[0] < y)
                spans.append((max(start, 0), min(end, own), is_current))
        return spans

    def step(self, y: int, by: int) -> Place | None:
        """Go to the next match (``by`` = 1) or the one before (-1), round the ends; None if there is none.

        From no current match: the first at or behind row ``y``, or the last before it.
        """
        if not self.places:
            return None
        if self.current is None:
            behind = bisect_left(self.places, (y, 0))
            self.current = behind if by > 0 else behind - 1
        else:
            self.current += by
        self.current %= len(self.places)
        return self.places[self.current]

    def _starts(self, text: str, below: int) -> list[int]:
        text = _lowered(text)
        found: list[int] = []
        at = text.find(self.needle)
        while 0 <= at < below:
            found.append(at)
            at = text.find(self.needle, at + len(self.needle))
        return found

    def _after(self, y: int, rows: int) -> str:
        text = ""
        while len(text) < len(self.needle) - 1 and y + 1 < rows and self._row_at(y).soft:
            text += self._row_at(y).hung
            y += 1
            text += self._row_at(y).text
        return text[: max(len(self.needle) - 1, 0)]

    def _before(self, y: int) -> str:
        text = ""
        while len(text) < len(self.needle) - 1 and y > 0 and self._row_at(y - 1).soft:
            y -= 1
            text = self._row_at(y).text + self._row_at(y).hung + text
        return text[max(len(text) - len(self.needle) + 1, 0) :]


def _lowered(text: str) -> str:
    """Lower case, every character keeping its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
