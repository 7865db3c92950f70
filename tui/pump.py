"""When the screen is drawn while the engine works: as often as is pleasant, as seldom as it must be.

The engine wakes the pump; between two frames it rests at least as long as keeps the frames' cost within their
share of the time. Nothing is scheduled while nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, thread_time

INTERVAL_S = 1 / 6
"""Between two frames while the engine works, if they cost little."""
SHARE = 0.03
"""Of the wall time, at most, for taking events and drawing."""
MAX_INTERVAL_S = 0.5
SLICE_S = 0.01
"""From one helping of events to the next, while more wait: the keys get their turn between them."""
_WEIGHT = 0.3
"""Of the newest frame in the mean cost."""


class Pump:
    """Decides when frames are drawn.

    Args:
        take: takes a helping of the events that wait; whether more wait.
        show: shows what they led to.
        later: calls a function after so many seconds, on the screen's thread.
        after_paint: calls a function when what was shown is painted.
        clock: seconds.
        cpu: processor seconds of this thread: waiting for the engine's thread is no cost.
    """

    def __init__(
        self,
        take: Callable[[], bool],
        show: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
        after_paint: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] = monotonic,
        cpu: Callable[[], float] = thread_time,
    ) -> None:
        self._take, self._show, self._later, self._after_paint = take, show, later, after_paint
        self._clock, self._cpu = clock, cpu
        self._due: float | None = None  # when the next frame is taken
        self._last = float("-inf")
        self._began = 0.0
        self.cost = 0.0
        """Mean processor seconds of a frame, painting included."""
        self.frames = 0

    @property
    def interval(self) -> float:
        """Seconds from one frame to the next."""
        return min(max(INTERVAL_S, self.cost / SHARE), MAX_INTERVAL_S)

    def wake(self, due_in: float = 0.0) -> None:
        """Something happened, or will in so many seconds: draw when it is time."""
        rest = self._last + self.interval - self._clock()
        self._schedule(max(rest, due_in, 0.0))

    def _schedule(self, seconds: float) -> None:
        due = self._clock() + seconds
        if self._due is None or due < self._due:
            self._due = due
            self._later(seconds, lambda: self._tick(due))

    def _tick(self, due: float) -> None:
        if due != self._due:
            return  # one that was wanted sooner has come
        self._due = None
        self._began = self._cpu()
        more = self._take()
        if not more or self._clock() - self._last >= self.interval:
            self._last = self._clock()
            self.frames += 1
            self._show()
            self._after_paint(self._painted)
        if more:
            self._schedule(SLICE_S)

    def _painted(self) -> None:
        spent = self._cpu() - self._began
        self.cost = spent if not self.cost else self.cost + _WEIGHT * (spent - self.cost)
