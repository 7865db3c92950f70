"""Where the app's events come from: the engine at work, or a recording that is played."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from engine.events import Event, PlainStep, Round
from tui.reveal import needs_round
from tui.view import RevealNext, Told, ViewState

MAX_GAP_S = 2.0
"""Longest wait between two events of a replay; longer ones were idle time, or nearly so."""


class Source(Protocol):
    """Tells what happened since it was last asked."""

    def poll(self) -> Iterable[Told]:
        """The events that are due, oldest first. What is not drawn comes with the next poll."""
        ...


class LiveSource:
    """The engine's thread.

    Args:
        drain: gives the events that wait, such as ``EngineThread.drain``.
    """

    def __init__(self, drain: Callable[[], Iterable[Told]]) -> None:
        self._drain = drain

    def poll(self) -> Iterable[Told]:
        """What the engine said."""
        return self._drain()


class ReplayClock:
    """The time of a replay in seconds from its start: it runs, faster or slower than ``now``, or stands.

    Args:
        now: a monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float], speed: float = 1.0) -> None:
        assert speed > 0, f"a replay goes forwards, not at {speed}"
        self._now = now
        self._speed = speed
        self._at = 0.0
        self._since: float | None = None

    @property
    def time(self) -> float:
        """Seconds played."""
        return self._at if self._since is None else self._at + (self._now() - self._since) * self._speed

    @property
    def playing(self) -> bool:
        return self._since is not None

    @property
    def speed(self) -> float:
        """Seconds played in a second."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        assert speed > 0, f"a replay goes forwards, not at {speed}"
        self.jump(self.time)
        self._speed = speed

    def play(self) -> None:
        """Let it run."""
        if self._since is None:
            self._since = self._now()

    def pause(self) -> None:
        """Let it stand."""
        self._at = self.time
        self._since = None

    def jump(self, time: float) -> None:
        """Put it to a time; it goes on running, or standing, there."""
        self._at = time
        if self._since is not None:
            self._since = self._now()


class ReplaySource:
    """Plays recorded events at the pace at which they happened, or step by step.

    Args:
        events: in their order; their ``t_ns`` say when.
        clock: says how much of them was played.
        max_gap_s: longer gaps between two events are cut to this.
    """

    def __init__(self, events: Sequence[Event], clock: ReplayClock, max_gap_s: float = MAX_GAP_S) -> None:
        self.clock = clock
        self._events = events
        self._times = array("d", _times(events, max_gap_s))
        self._next = 0
        self._until = 0  # events before this index are due whatever the clock says

    @property
    def at_end(self) -> bool:
        """Whether every event was told."""
        return self._next >= len(self._events)

    @property
    def duration(self) -> float:
        """Seconds of the whole replay at speed 1."""
        return self._times[-1] if self._times else 0.0

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next event is due; None while the replay stands or is at its end."""
        if self.at_end:
            return None
        if self._next < self._until:
            return 0.0
        if not self.clock.playing:
            return None
        return max(0.0, (self._times[self._next] - self.clock.time) / self.clock.speed)

    def poll(self) -> Iterator[Told]:
        """The events whose time has come. At the end the clock stops."""
        while not self.at_end and (
            self._next < self._until or (self.clock.playing and self._times[self._next] <= self.clock.time)
        ):
            self._next += 1
            yield self._events[self._next - 1]
        if self.at_end:
            self.clock.pause()
            self.clock.jump(self.duration)

    def play(self) -> None:
        """Go on; at the end there is nothing to go on with (see ``restart``)."""
        if not self.at_end:
            self.clock.play()

    def pause(self) -> None:
        """Stand still."""
        self.clock.pause()

    def restart(self) -> None:
        """Begin again; the state the events go to has to be reset too."""
        self._next = self._until = 0
        self.clock.jump(0.0)

    def step_round(self) -> None:
        """Stand still after the next round (or plain step): the next poll tells it and what comes before it.
        Where no round is left it tells the rest."""
        self.clock.pause()
        start = max(self._next, self._until)
        rounds = (
            at for at in range(start, len(self._events)) if isinstance(self._events[at], Round | PlainStep)
        )
        self._until = next(rounds, len(self._events) - 1) + 1
        if self._until:
            self.clock.jump(max(self.clock.time, self._times[self._until - 1]))

    def skip_to(self, number: int) -> bool:
        """Go on from the next round (or plain step) of that number: the next poll tells all that comes before
        it. Whether there is one."""
        found = (
            at
            for at in range(self._next, len(self._events))
            if isinstance(event := self._events[at], Round | PlainStep) and event.number == number
        )
        at = next(found, None)
        if at is None:
            return False
        self._until = at
        self.clock.jump(max(self.clock.time, self._times[at - 1] if at else 0.0))
        return True

    def step_token(self, state: ViewState) -> RevealNext:
        """Stand still after the next token. What it gives has to be reduced BEFORE the next poll."""
        self.clock.pause()
        if needs_round(state):
            self.step_round()
        return RevealNext()


def _times(events: Sequence[Event], max_gap_s: float) -> Iterator[float]:
    """When each event is due, in seconds from the first one."""
    at, before = 0.0, events[0].t_ns if events else 0
    for event in events:
        at += min(max((event.t_ns - before) / 1e9, 0.0), max_gap_s)
        before = event.t_ns
        yield at
