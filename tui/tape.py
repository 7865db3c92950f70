"""A recording as a replay needs it: any event by its place, and the app's state at any place.

A file is read in parts, so the longest recording opens at once and costs little memory: its state at a place
comes from the keyframe before it, and what lies before that keyframe is read when it is looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from engine.errors import RecordingError
from engine.events import Event, PlainStep, Round
from engine.recording_file import RecordingFile
from tui.state import reduce
from tui.tape_states import StateWalk
from tui.view import ViewState

BEGINNING = ViewState(replay=True)
"""Before the first event of a recording."""


class Tape(Protocol):
    """Recorded events, by their places 0, 1, 2, ... A place may hold no event."""

    header: Mapping[str, Any]
    damage: str | None
    """Why it ends before its end, if it does."""

    def __len__(self) -> int: ...

    @property
    def steps(self) -> Sequence[int]:
        """The places of rounds and plain steps."""
        ...

    def event(self, at: int) -> Event | None:
        """The event of a place. A damaged place ends the tape there."""
        ...

    def time_ns(self, at: int) -> int | None:
        """When it happened, if that is known."""
        ...

    def state_at(self, at: int) -> Iterator[ViewState | None]:
        """The state before the event of a place, last; before it None, once for each bit of the work."""
        ...

    def refresh(self) -> bool:
        """Whether events came since the last look."""
        ...


class MemoryTape:
    """Events that are all in memory."""

    def __init__(self, events: Sequence[Event], header: Mapping[str, Any] | None = None) -> None:
        self.header: Mapping[str, Any] = header or {}
        self.damage: str | None = None
        self._events = events
        self.steps: Sequence[int] = array(
            "I", (at for at, event in enumerate(events) if isinstance(event, Round | PlainStep))
        )

    def __len__(self) -> int:
        return len(self._events)

    def event(self, at: int) -> Event | None:
        """The event of a place."""
        return self._events[at]

    def time_ns(self, at: int) -> int | None:
        """When it happened."""
        return self._events[at].t_ns

    def state_at(self, at: int) -> Iterator[ViewState | None]:
        """The fold of all before it."""
        state = BEGINNING
        for event in self._events[:at]:
            state = reduce(state, event)
        yield state

    def refresh(self) -> bool:
        """Nothing comes."""
        return False


class FileTape:
    """A recording in a file, which may still be written."""

    def __init__(self, file: RecordingFile) -> None:
        self.file = file
        self.header: Mapping[str, Any] = file.header
        self.damage = file.damage
        self._end: int | None = None  # the first line that cannot be read
        self._states = StateWalk(self, file, BEGINNING)

    def __len__(self) -> int:
        return self.file.lines if self._end is None else self._end

    @property
    def steps(self) -> Sequence[int]:
        """The lines of rounds and plain steps."""
        lines = self.file.step_lines
        return lines if self._end is None else lines[: bisect_left(lines, self._end)]

    def event(self, at: int) -> Event | None:
        """The event of a line; None for a keyframe, a kind that is not known, and a line that is damaged."""
        try:
            return self.file.event(at)
        except RecordingError as error:
            if self._end is None or at < self._end:
                self._end, self.damage = at, error.message
            return None

    def time_ns(self, at: int) -> int | None:
        """When the line was written."""
        return self.file.time_ns(at)

    def state_at(self, at: int) -> Iterator[ViewState | None]:
        """From the keyframe before it."""
        return self._states.state_at(at)

    def refresh(self) -> bool:
        """Whether lines came."""
        if self._end is not None:
            return False
        came = bool(self.file.refresh())
        self.damage = self.file.damage
        return came
