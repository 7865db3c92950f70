"""Where the app's events come from: the engine at work, or a recording that is played."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import Protocol

from engine.events import Event
from tui.reveal import needs_round, step_count
from tui.schedule import MAX_GAP_S, Schedule
from tui.tape import MemoryTape, Tape
from tui.view import Jumped, RevealNext, RevealTo, Told, ViewState

FOLLOW_S = 0.2
"""Between two looks for more."""
LOOP_REST_S = 1.0
"""At the end, before it begins again."""
SEEK_SLICE_S = 0.03
"""For which a seek goes on before the keys get their turn."""
FAR = 1024
"""Places behind the clock from which on a replay goes to where it should be, and tells nothing between."""
MOST_EMPTY = 4096
"""Places without an event that are passed before the keys get their turn."""
HELD_STEPS = 4096
"""Rounds (or plain steps) that are told before those before them go out of memory."""


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
    """Plays recorded events at the pace at which they happened, or step by step, and goes to any of them.

    Args:
        tape: what is played.
        clock: says how much of it was played.
        max_gap_s: longer gaps between two events are cut to this; None: none is.
    """

    def __init__(
        self, tape: Tape | Sequence[Event], clock: ReplayClock, max_gap_s: float | None = MAX_GAP_S
    ) -> None:
        self.tape: Tape = MemoryTape(tape) if isinstance(tape, Sequence) else tape
        self.clock = clock
        self.loop = False
        """At the end, begin again."""
        self.follow = False
        """At the end, wait for more."""
        self.tells_all = False
        """Leave nothing out, whatever the pace: what listens keeps no state."""
        self._schedule = Schedule(self.tape, max_gap_s)
        self._next = 0
        self._until = 0  # events before this place are due whatever the clock says
        self._seeking: Iterator[ViewState | None] | None = None
        self._revealed: int | None = None  # steps of the newest round, where the seek comes to it
        self._anchor = 0  # the step from which on the state's items are in memory

    # -- where it is

    @property
    def at(self) -> int:
        """The place of the next event."""
        return self._next

    @property
    def step(self) -> int:
        """How many rounds (or plain steps) were told, of all runs."""
        return bisect_left(self.tape.steps, self._next)

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.tape.steps)

    @property
    def at_end(self) -> bool:
        """Whether every event was told."""
        return self._next >= len(self.tape) and self._seeking is None

    @property
    def seeking(self) -> bool:
        """Whether it is on its way to another place."""
        return self._seeking is not None

    @property
    def time(self) -> float:
        """Seconds played, at speed 1; what is due and was not told yet is not among them."""
        left = self._next < len(self.tape)
        return min(self.clock.time, self._schedule.due(self._next) if left else self.duration)

    @property
    def duration(self) -> float:
        """Seconds of the whole replay at speed 1."""
        return self._schedule.duration

    @property
    def max_gap_s(self) -> float | None:
        """Longest wait between two events; longer ones are cut to it. None: none is cut."""
        return self._schedule.max_gap_s

    @max_gap_s.setter
    def max_gap_s(self, seconds: float | None) -> None:
        self._schedule = Schedule(self.tape, seconds)
        self.clock.jump(self._schedule.before(self._next))

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next event is due; None while the replay stands or is at its end."""
        if self._seeking is not None or self._next < self._until or self._next > len(self.tape):
            return 0.0
        if self.at_end:
            loops = self.loop and self.clock.playing
            return FOLLOW_S if self.follow else LOOP_REST_S if loops else None
        if not self.clock.playing:
            return None
        return max(0.0, (self._schedule.due(self._next) - self.clock.time) / self.clock.speed)

    # -- telling

    def poll(self) -> Iterator[Told]:
        """The events whose time has come. At the end the clock stops."""
        if self._seeking is None and self._next > len(self.tape):
            self._seek(len(self.tape))  # damage was found in what lies behind
        if self._seeking is not None:
            yield from self._arrived()
            return
        self._look_for_more()
        if self._lags():
            self._seek(self._schedule.place_at(self.clock.time))
            return
        before, empty = self._next, 0
        while self._is_due() and empty < MOST_EMPTY:
            self._next += 1
            event = self.tape.event(self._next - 1)
            if event is None:
                empty += 1
            else:
                yield event
        if self.at_end and self.clock.playing and not self.follow:
            self._ended(is_seen=before == self._next)
        elif self.clock.playing and not self.tells_all and self.step - self._anchor > HELD_STEPS:
            self._seek(self._next)  # what was told long ago goes out of memory

    def _lags(self) -> bool:
        """Whether so much is due that going to the place is quicker than what lies between."""
        far = self._next + FAR
        return (
            not self.tells_all
            and self.clock.playing
            and far < len(self.tape)
            and self._schedule.due(far) <= self.clock.time
        )

    def _is_due(self) -> bool:
        if self.at_end:
            return False
        asked_for = self._next < self._until
        return asked_for or (self.clock.playing and self._schedule.due(self._next) <= self.clock.time)

    def _arrived(self) -> Iterator[Told]:
        """Go on seeking for a moment; the state, when it is there."""
        assert self._seeking is not None
        end = perf_counter() + SEEK_SLICE_S
        for state in self._seeking:
            if state is not None:
                self._seeking = None
                if self._next > len(self.tape):  # damage was found on the way: the tape ends there
                    self._seek(len(self.tape))
                    return
                self._anchor = self.step
                yield Jumped(state, not self.clock.playing, self._revealed)
                return
            if perf_counter() >= end:
                return

    def _ended(self, *, is_seen: bool) -> None:
        if self.loop and len(self.tape):
            if is_seen:
                self.seek(0)
            return
        self.clock.pause()
        self.clock.jump(self.duration)

    def _look_for_more(self) -> None:
        if not (self.follow and self.at_end):
            return
        self.clock.jump(self._schedule.before(self._next))
        if self.tape.refresh():
            self._schedule.go_on()

    # -- the user

    def play(self) -> None:
        """Go on; at the end there is nothing to go on with (see ``restart``)."""
        if not self.at_end or self.follow:
            self.clock.play()

    def pause(self) -> None:
        """Stand still, where it was told to."""
        self.clock.pause()
        self.clock.jump(self.time)

    def restart(self) -> None:
        """Begin again."""
        self.seek(0)

    def seek(self, place: int, revealed: int | None = None) -> None:
        """Go to just before the event of a place; one of the next polls tells the state there.

        Args:
            revealed: show the newest round up to this step only (see ``tui.reveal``).
        """
        self._seek(min(max(place, 0), len(self.tape)), revealed)
        self.clock.jump(self._schedule.before(self._next))

    def _seek(self, place: int, revealed: int | None = None) -> None:
        self._next = self._until = place
        self._revealed = revealed
        self._seeking = self.tape.state_at(place)

    def seek_step(self, count: int) -> None:
        """Go to just behind so many rounds (or plain steps), of all runs; 0: to the beginning, all: to the
        end, with what comes behind the last one."""
        steps = self.tape.steps
        if count >= len(steps):
            self.seek(len(self.tape))
        else:
            self.seek(steps[count - 1] + 1 if count > 0 else 0)

    def step_round(self) -> None:
        """Stand still after the next round (or plain step): the next poll tells it and what comes before it.
        Where no round is left it tells the rest."""
        self.clock.pause()
        steps = self.tape.steps
        at = bisect_left(steps, max(self._next, self._until))
        self._until = steps[at] + 1 if at < len(steps) else len(self.tape)
        self.clock.jump(max(self.clock.time, self._schedule.before(self._until)))

    def back_round(self) -> None:
        """Stand still one round (or plain step) earlier; before the first one of all, at the beginning."""
        self.clock.pause()
        self.seek_step(self.step - 1)

    def step_token(self, state: ViewState) -> RevealNext:
        """Stand still after the next token. What it gives has to be reduced BEFORE the next poll."""
        self.clock.pause()
        if needs_round(state):
            self.step_round()
        return RevealNext()

    def back_token(self, state: ViewState) -> RevealTo | None:
        """Stand still before the last token that is shown. What it gives, if anything, has to be reduced;
        else one of the next polls tells the state there."""
        self.clock.pause()
        count = self.step
        if not count:
            self.seek(0)
            return None
        newest = self.tape.steps[count - 1]
        shown = state.revealed if state.rounds else 1
        if shown is None:
            shown = step_count(state.rounds[-1])
        if not state.rounds and not state.output:
            self.seek(newest + 1)  # another run has begun; the one before it ends there
        elif shown <= 1:
            self.seek(newest)
        elif self._next == newest + 1:
            return RevealTo(shown - 1)
        else:
            self.seek(newest + 1, shown - 1)
        return None
