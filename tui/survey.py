"""What became of each round of a recording, looked up ahead of the replay: for the timeline and the markers.

A long recording is gone through a little at a time, so that the screen stays alive; what is known so far can
be used at once. A few bytes of memory a round.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum
from statistics import median
from time import perf_counter

from tui.tape import Tape

SLOW = 2.0
"""A round is slow from so many times the median round on."""
_TRIED = 16
"""Rounds that are read between two looks at the clock."""


class MarkerKind(Enum):
    """Rounds worth going to."""

    REJECTED_AT_0 = "rejected at the first draft"
    ALL_ACCEPTED = "all drafts accepted"
    SLOW = "slow rounds"
    BOOKMARK = "your bookmarks"


class Survey:
    """The outcomes of the rounds (and plain steps) of a tape, as far as they were read."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._accepted = array("H")
        self._drafted = array("H")
        self._rejected = array("b")
        self._ms = array("f")
        self._median: tuple[int, float] = (0, 0.0)

    def __len__(self) -> int:
        """Rounds that were read."""
        return len(self._ms)

    @property
    def whole(self) -> bool:
        """Whether all were read."""
        return len(self) >= len(self._tape.steps)

    def read(self, seconds: float) -> bool:
        """Read on for about so long; whether all were read."""
        end = perf_counter() + seconds
        steps = self._tape.steps
        while len(self) < len(steps):
            for at in range(len(self), min(len(self) + _TRIED, len(steps))):
                found = self._tape.outcome(steps[at])
                self._accepted.append(min(found.accepted, 0xFFFF))
                self._drafted.append(min(found.drafted, 0xFFFF))
                self._rejected.append(found.rejected)
                self._ms.append(found.ms)
            if perf_counter() >= end:
                break
        return self.whole

    def share(self, start: int, end: int) -> float | None:
        """Accepted of all drafted tokens in some rounds; None where nothing is known or was drafted."""
        drafted = sum(self._drafted[start:end])
        return sum(self._accepted[start:end]) / drafted if drafted else None

    def is_slow(self, at: int) -> bool:
        """Whether a round took much longer than most."""
        known, middle = self._median
        if not known or len(self) >= 2 * known or (self.whole and known < len(self)):
            every = max(len(self) // 4096, 1)
            self._median = len(self), median(self._ms[::every])
            middle = self._median[1]
        return self._ms[at] >= SLOW * middle > 0

    def is_marker(self, at: int, kind: MarkerKind, bookmarks: Sequence[int]) -> bool:
        """Whether a round that was read is of a kind."""
        match kind:
            case MarkerKind.REJECTED_AT_0:
                return bool(self._rejected[at]) and not self._accepted[at]
            case MarkerKind.ALL_ACCEPTED:
                return 0 < self._drafted[at] == self._accepted[at]
            case MarkerKind.SLOW:
                return self.is_slow(at)
            case MarkerKind.BOOKMARK:
                return at in bookmarks

    def marker(self, at: int, by: int, kind: MarkerKind, bookmarks: Sequence[int]) -> int | None:
        """The nearest round of a kind behind (``by`` 1) or before (-1) round ``at``; None if there is none
        among those that were read."""
        if kind is MarkerKind.BOOKMARK:
            beyond = [mark for mark in bookmarks if (mark - at) * by > 0]
            return min(beyond, key=lambda mark: abs(mark - at), default=None)
        places = range(at + 1, len(self)) if by > 0 else range(min(at, len(self)) - 1, -1, -1)
        return next((place for place in places if self.is_marker(place, kind, bookmarks)), None)
