"""When each event of a tape is due, in seconds from its first one; long waits are cut."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from tui.tape import Tape

SLOWEST, FASTEST = 0.1, 16.0
"""Times its own pace that a replay can have."""
MAX_GAP_S = 2.0
"""Longest wait between two events of a replay; longer ones were idle time, or nearly so."""


class Schedule:
    """Eight bytes an event.

    Args:
        max_gap_s: longer waits between two events are cut to this; None: none is.
    """

    def __init__(self, tape: Tape, max_gap_s: float | None = MAX_GAP_S) -> None:
        self._tape = tape
        self._times = array("d")
        self.max_gap_s = max_gap_s
        self.go_on()

    def go_on(self) -> None:
        """Take the events that came since the last look."""
        first = len(self._times)
        at = self._times[-1] if first else 0.0
        before = self._tape.time_ns(first - 1) if first else None
        for place in range(first, len(self._tape)):
            now = self._tape.time_ns(place)
            if now is not None and before is not None:
                gap = max((now - before) / 1e9, 0.0)
                at += gap if self.max_gap_s is None else min(gap, self.max_gap_s)
            before = before if now is None else now
            self._times.append(at)

    @property
    def duration(self) -> float:
        """Seconds of it all."""
        return self._times[-1] if self._times else 0.0

    def due(self, place: int) -> float:
        """When the event of a place is due."""
        return self._times[place]

    def place_at(self, seconds: float) -> int:
        """The place of the first event that is due later."""
        return bisect_right(self._times, seconds)

    def before(self, place: int) -> float:
        """When the event before a place was due; 0 at the beginning."""
        return self._times[min(place, len(self._times)) - 1] if place > 0 and self._times else 0.0
