"""The keyframes of a recorded file, as far as they can be trusted, and those made where there are none."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from engine.errors import RecordingError
from engine.events import Event
from engine.keyframes import KEYFRAME_EVERY, is_possible
from engine.recording_file import RecordingFile, RunPlace
from engine.run_fold import RunFold


class Events(Protocol):
    """Gives events by their lines; a damaged line has none."""

    def event(self, at: int) -> Event | None: ...


class Frames:
    """Keyframes by the line behind which they hold: their own one, or that of the round they come after.

    A file whose keyframes are missing, or do not fit its rounds, was not written by this program: then they
    are made from the rounds, whenever these are folded.
    """

    def __init__(self, file: RecordingFile) -> None:
        self._file = file
        self._made: dict[int, RunFold] = {}
        self._lines = array("I")  # of those
        self._trusted = True
        self.fold = lru_cache(256)(self._fold)

    def lines(self, start: int, end: int) -> Sequence[int]:
        """The lines from ``start`` to before ``end`` that have a keyframe."""
        if self._trusted:
            return self._file.keyframes(start, end)
        return self._lines[bisect_left(self._lines, start) : bisect_left(self._lines, end)]

    def _fold(self, line: int) -> RunFold | None:
        """What the run's lines up to this one add up to; None for a keyframe that cannot be right."""
        if not self._trusted:
            return self._made[line]
        try:
            fold = self._file.keyframe(line).fold
        except RecordingError:
            return None
        return fold if is_possible(fold) else None

    def before(self, run: RunPlace, begun: RunFold, start: int, end: int) -> tuple[int, RunFold] | None:
        """The last keyframe between two lines of a run."""
        lines = self.lines(start, end)
        if lines:
            fold = self.fold(lines[-1])
            steps = self._file.steps_before(lines[-1] + 1) - run.first_step
            if fold is not None and (fold.run, fold.given, fold.steps) == (begun.run, begun.given, steps):
                return lines[-1], fold
        elif self._file.steps_before(end) - self._file.steps_before(start) < 2 * KEYFRAME_EVERY:
            return None
        if not self._trusted:
            return None
        self._trusted = False
        self.fold.cache_clear()
        return self.before(run, begun, start, end)

    def keep(self, line: int, fold: RunFold) -> None:
        """A round of a line was folded: make a keyframe where one is due and the file's are no good."""
        due = not self._trusted and not fold.steps % KEYFRAME_EVERY and line not in self._made
        if due and is_possible(fold):
            self._made[line] = fold
            self._lines.insert(bisect_left(self._lines, line), line)
