"""A recording as a replay needs it: any event by its place, and the app's state at any place.

A file is read in parts, so the longest recording opens at once and costs little memory: its state at a place
comes from the keyframe before it, and what lies before that keyframe is read when it is looked at.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from engine.errors import RecordingError
from engine.events import Event, PlainStep, Round
from engine.recording_file import RecordingFile
from tui.state import reduce
from tui.tape_states import StateWalk
from tui.view import ViewState

BEGINNING = ViewState(replay=True)
"""Before the first event of a recording."""


class Outcome(NamedTuple):
    """What became of the drafts of a round; a plain step has none."""

    accepted: int
    drafted: int
    rejected: bool
    """It ended in a rejection."""
    ms: float


UNKNOWN = Outcome(0, 0, rejected=False, ms=0.0)
"""Of a line that cannot be read."""


class Tape(Protocol):
    """Recorded events, by their places 0, 1, 2, ... A place may hold no event."""

    header: Mapping[str, Any]
    damage: str | None
    """Why it ends before its end, if it does."""

    @property
    def torn(self) -> bool:
        """Whether its last line was cut short, or is being written."""
        ...

    def __len__(self) -> int: ...

    @property
    def steps(self) -> Sequence[int]:
        """The places of rounds and plain steps."""
        ...

    def event(self, at: int) -> Event | None:
        """The event of a place. A damaged place ends the tape there."""
        ...

    def outcome(self, at: int) -> Outcome:
        """What became of the round of a place, at little cost."""
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

    def close(self) -> None:
        """It is not read any more."""
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

    torn = False

    def __len__(self) -> int:
        return len(self._events)

    def event(self, at: int) -> Event | None:
        """The event of a place."""
        return self._events[at]

    def outcome(self, at: int) -> Outcome:
        """What became of a round."""
        return _outcome(self._events[at])

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

    def close(self) -> None:
        """There is nothing to close."""


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
    def torn(self) -> bool:
        """Whether bytes without a line end follow its last line."""
        try:
            return self.file.torn
        except RecordingError:
            return False

    @property
    def steps(self) -> Sequence[int]:
        """The lines of rounds and plain steps."""
        lines = self.file.step_lines
        return lines if self._end is None else lines[: bisect_left(lines, self._end)]

    def event(self, at: int) -> Event | None:
        """The event of a line; None for a keyframe, a kind that is not known, and a line that is damaged."""
        if self._end is not None and at >= self._end:
            return None
        try:
            return self.file.event(at)
        except RecordingError as error:
            self._end, self.damage = at, error.message
            return None

    def outcome(self, at: int) -> Outcome:
        """What became of a round; its line is not checked any further."""
        try:
            return _outcome_of(self.file.value(at))
        except (RecordingError, KeyError, TypeError, ValueError, OverflowError):
            return UNKNOWN

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
        before = len(self)
        try:
            self.file.refresh()
            self.damage = self.file.damage or self.file.lost()
        except RecordingError as error:
            self.damage = error.message
        if self.damage is not None:
            self._end = self.file.lines
        return len(self) > before

    def close(self) -> None:
        """Close the file; what of it is not in memory reads as damaged from now on."""
        self.file.close()


def _outcome(event: Event) -> Outcome:
    if isinstance(event, Round):
        return Outcome(event.accepted, event.drafted, event.rejected, event.ms)
    ms = event.verify_ms + event.host_ms if isinstance(event, PlainStep) else 0.0
    return UNKNOWN._replace(ms=ms)


def _outcome_of(value: dict[str, Any]) -> Outcome:
    """The same of a line as it was parsed. Raises KeyError, TypeError, ValueError or OverflowError where it
    is none."""
    ms = float(value.get("draft_ms", 0.0)) + float(value["verify_ms"]) + float(value["host_ms"])
    if "drafts" not in value:
        return UNKNOWN._replace(ms=ms)
    accepted, drafts, tokens = int(value["n_accepted"]), len(value["drafts"]), len(value["tokens"])
    was_cut = tokens <= accepted
    kept = min(accepted, tokens)
    if not 0 <= kept <= drafts or not math.isfinite(ms):
        return UNKNOWN
    return Outcome(kept, tokens if was_cut else drafts, not was_cut and accepted < drafts, ms)
