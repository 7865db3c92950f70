"""What a recording comes to, for a list: its models, its length, its measures; without reading it whole.

Of each run the last keyframe is read, and the few lines behind it: a file of 100,000 rounds costs its scan
for line ends and at most 32 rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, RecordingError
from engine.keyframes import is_possible
from engine.recording_file import RecordingFile
from engine.run_fold import NO_RUN, RunFold
from engine.stats import Statistics

_LOOK_EVERY = 64
"""Events between two looks whether the work was called off."""


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """A recording in a line."""

    target: str
    """Name of the model it begins with; "" where the header names none."""
    drafter: str
    """Name of the drafter's model, or the drafting method; "" where the header names none."""
    runs: int
    rounds: int
    """Rounds (and plain steps) of all runs."""
    tokens: int
    """Of all answers, given ones not counted."""
    tau: float | None
    """Tokens a round, over all speculative rounds; None without one."""
    speedup: float | None
    """Of the newest run that was timed against plain decoding; None where none was."""
    recorded: str | None
    """When it was begun, as its header says: ISO 8601; None where that does not say."""
    torn: bool
    """The last line is not whole."""
    damage: str | None
    """What is wrong with a line that was read; what it says is not in the numbers."""


def summarise(path: str | Path, called_off: Callable[[], bool] = lambda: False) -> RecordingSummary:
    """Read what a list says of a recording. Bounded memory; for a thread of its own.

    Args:
        path: of a regular file.
        called_off: asked now and then, in the thread this runs in.

    Raises:
        RecordingError: the file is no recording, or cannot be read.
        Cancelled: it was called off.
    """
    with RecordingFile(path) as file:
        fold = _Fold(file, called_off)
        damage = file.damage
        try:
            fold.whole_file()
        except RecordingError as error:
            damage = damage or str(error)
        target, drafter = model_names(file.header)
        return RecordingSummary(
            *(target, drafter),
            runs=fold.runs,
            rounds=file.steps,
            tokens=fold.tokens,
            tau=fold.total.tau,
            speedup=fold.speedup,
            recorded=made if isinstance(made := file.header.get("recorded"), str) else None,
            torn=file.torn,
            damage=damage,
        )


def model_names(header: Mapping[str, Any]) -> tuple[str, str]:
    """Target and drafter that a header names; the drafter's method where it has no model."""

    def entry(*keys: str) -> str:
        value: object = header
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) else ""

    target = entry("target", "name") or entry("config", "verify", "model_name")
    return target, entry("drafter", "name") or entry("config", "draft", "method")


class _Fold:
    """Adds up the runs of a file."""

    def __init__(self, file: RecordingFile, called_off: Callable[[], bool]) -> None:
        self._file, self._called_off = file, called_off
        self._run: RunFold | None = None
        self.runs = 0
        self.tokens = 0
        self.total = Statistics()
        self.speedup: float | None = None

    def whole_file(self) -> None:
        """Every run; what was added before a damaged line counts."""
        places = self._file.runs
        ends = [*(place.line for place in places), self._file.lines][1:]
        try:
            for place, end in zip(places, ends, strict=True):
                if not place.resumed or self._run is None:
                    self._run_ended()
                    self._run = NO_RUN
                    self.runs += 1
                self._part(self._run, place.line, end)
        finally:
            self._run_ended()

    def _part(self, run: RunFold, start: int, end: int) -> None:
        """The lines of a run, or of one part of a run that went on with other models."""
        found = self._file.keyframes(start, end)
        known = self._known(found[-1]) if found else None
        if known is not None:
            run, start = known, found[-1] + 1  # it has counted earlier parts too
        self._run = run
        for number, event in enumerate(self._file.events(start, end)):
            if number % _LOOK_EVERY == 0 and self._called_off():
                raise Cancelled("the summary was called off")
            self._run = self._run.after(event)

    def _known(self, line: int) -> RunFold | None:
        """The run up to a keyframe; None for one that cannot be right."""
        try:
            fold = self._file.keyframe(line).fold
        except RecordingError:
            return None
        return fold if is_possible(fold) else None

    def _run_ended(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self.tokens += max(run.tokens - run.given, 0)
        if run.rounds:  # plain steps are no rounds
            self.total.merge(run.total.counts)
            self.speedup = run.total.speedup or self.speedup
