"""What the target was fed, pass by pass: kept to be repeated where a text leaves that of plain decoding."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence


class Passes:
    """The passes of a run's rounds, eight bytes an id."""

    def __init__(self) -> None:
        self._numbers = array("q")  # of each pass: its start, how many ids, the ids

    def add(self, start: int, ids: Sequence[int]) -> None:
        """A pass over these ids, the first of them at position ``start``."""
        self._numbers.extend((start, len(ids), *ids))

    def __iter__(self) -> Iterator[tuple[int, list[int]]]:
        """Start and ids of each."""
        at = 0
        while at < len(self._numbers):
            start, size = self._numbers[at : at + 2]
            at += 2 + size
            yield start, self._numbers[at - size : at].tolist()
