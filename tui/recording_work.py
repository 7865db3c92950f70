"""Long work on one recording, for a thread of its own: exported, checked, made ready to play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import Cancelled, RecordingError
from engine.recheck import Finding, Grade, Recheck
from engine.recording import read_recording
from engine.recording_file import RecordingFile
from tui.atomic_file import write_atomic
from tui.export.forms import written
from tui.playable import Playable, open_recording
from tui.recording_folder import claimed, with_name_only

_working: set[object] = set()


@contextmanager
def at_work() -> Iterator[None]:
    """While a thread works on files: nothing is to be timed meanwhile (see ``works``)."""
    token = object()
    _working.add(token)
    try:
        yield
    finally:
        _working.discard(token)


def works() -> bool:
    """Whether some thread works on recordings."""
    return bool(_working)


_TOLD = 20
"""Findings of a grade that are kept; the others are counted."""
_LOOK_EVERY = 256
"""Events between two looks whether the work was called off."""


def export(path: Path, form: str, target: Path) -> None:
    """Write a recording in another form, to a new file, as much of it as can be read.

    Raises:
        RecordingError: the file is no recording.
        DiskError: there is a file of that name, or none can be written.
    """
    with at_work():
        text = written(read_recording(path, tolerant=True), form)
    with claimed(target):
        write_atomic(target, text)


def checked_playable(path: Path) -> tuple[Playable, str]:
    """A recording ready to be played, and what of it is known not to be readable, in words; "" for nothing.
    What else cannot be read is found when the replay comes there.

    Raises:
        RecordingError: the file is no recording, or holds nothing to play.
        ContextError: its messages are none.
    """
    with at_work():
        demo = open_recording(path)
    tape = demo.source.tape
    if not len(tape):
        raise RecordingError(f"{path.name} holds no run", "It was ended before one began.")
    problem = ""
    if tape.damage is not None:
        problem = f"{with_name_only(tape.damage, path)}. What comes before it is played."
    elif tape.torn:
        problem = f"The last line of {path.name} is cut short; what comes before it is played."
    return demo, problem


@dataclass(slots=True)
class Checked:
    """What came of checking a recording again without models."""

    runs: int = 0
    rounds: int = 0
    checks: int = 0
    unfinished: int = 0
    """Runs whose end is not in it."""
    findings: dict[Grade, list[Finding]] = field(default_factory=lambda: {grade: [] for grade in Grade})
    """The first ones of each grade."""
    counts: Counter[Grade] = field(default_factory=Counter)
    damage: str | None = None
    """What is wrong with the first line that cannot be read; what follows it was not checked."""
    torn: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether all of it was read and nothing in it is impossible."""
        return not self.counts[Grade.BUG] and self.damage is None


def check(path: Path, called_off: Callable[[], bool], tell: Callable[[int, int], None]) -> Checked:
    """Check every round of a recording again, as ``spec verify`` does. Bounded memory.

    Args:
        called_off: asked now and then, in the thread this runs in.
        tell: called in that thread with the rounds checked so far and those there are.

    Raises:
        RecordingError: the file is no recording.
        Cancelled: it was called off.
    """
    recheck, told = Recheck(), Checked()
    with at_work(), RecordingFile(path) as file:
        told.damage, told.torn = file.damage, file.torn
        try:
            for number, event in enumerate(file.events()):
                if number % _LOOK_EVERY == 0:
                    tell(recheck.rounds, file.steps)
                    if called_off():
                        raise Cancelled("the check was called off")
                for found in recheck.add(event):
                    told.counts[found.grade] += 1
                    if len(told.findings[found.grade]) < _TOLD:
                        told.findings[found.grade].append(found)
        except RecordingError as error:
            told.damage = error.message
    if told.damage is not None:
        told.damage = with_name_only(told.damage, path)
    told.runs, told.rounds, told.checks = recheck.runs, recheck.rounds, recheck.checks
    told.unfinished = recheck.unfinished
    return told


def counted(count: int, noun: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def check_text(checked: Checked) -> tuple[str, list[str]]:
    """The verdict in a sentence, and what it rests on, line by line."""
    looked = f"{counted(checked.runs, 'run')}, {checked.rounds:,} rounds, {checked.checks:,} checks"
    wrong = checked.counts[Grade.BUG]
    if wrong:
        verdict = f"{wrong:,} of {checked.checks:,} checks found something that cannot be."
    elif checked.damage is not None:
        verdict = "What could be read is sound; the file is damaged."
    else:
        verdict = "Nothing is wrong." if checked.checks else "There is nothing to check."
    lines = [f"Checked again without the models: {looked}."]
    if checked.damage is not None:
        lines.append(f"{checked.damage}. What follows was not checked.")
    if checked.unfinished:
        lines.append(f"{counted(checked.unfinished, 'run')} without an end: the recording stops before it.")
    if checked.torn:
        lines.append("The last line is cut short, as when a program is killed: it was left out.")
    for grade in (Grade.BUG, Grade.ROUNDING, Grade.TIE):
        lines += [_finding(found) for found in checked.findings[grade]]
        more = checked.counts[grade] - len(checked.findings[grade])
        if more:
            lines.append(f"{grade.value}: {more:,} more")
    return verdict, lines


def _finding(found: Finding) -> str:
    where = f"run {found.run}" + (f", round {found.round}" if found.round is not None else "")
    return f"{found.grade.value}: {where}: {found.check}: {found.text}"
