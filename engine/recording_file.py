"""A recording read in parts: opened by a scan for line ends, any event or round found by its number.

Lines are parsed when they are asked for, so a file of 100,000 rounds opens in a fraction of a second and
costs a few bytes of memory a line. The file may still be written: ``refresh`` takes what has come.

``engine.recording`` says what the lines hold.
"""

from __future__ import annotations

import os
import re
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from engine.errors import RecordingError
from engine.event_json import KINDS, event_from, from_json, parse_line
from engine.events import Event
from engine.keyframes import Keyframe
from engine.recording import read_header, reason_of
from engine.user_text import shown_name

LINE_LIMIT = 2**24
"""Bytes of one line; a longer one is damage."""
_CHUNK = 2**20
_HEAD = 96
"""Bytes of a line that say what kind of event it is, and when it was."""
_TIME = re.compile(rb'"t_ns":(\d{1,18})[,}]')
_STEPS = (b'{"event":"Round"', b'{"event":"PlainStep"')
_RESUMED = re.compile(rb'"resumed": ?true')
"""Quotes in a text are escaped, so that no text holds this."""
_RUN = b'{"event":"RunStarted"'
_KEYFRAME = b'{"event":"keyframe"'


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run is in the file."""

    line: int
    """Of its RunStarted."""
    first_step: int
    """Index of its first round (or plain step), counted over the whole file."""
    resumed: bool = False
    """It is the run before that goes on."""


class RecordingFile:
    """An open recording. Not for two threads at once.

    Lines are numbered from 0 without the header; a line that is torn or being written is not among them.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        """Open and scan. Raises RecordingError for a file that is no recording, or cannot be read.

        Args:
            name: how messages call it; default: its path.
        """
        self.name = name or shown_name(str(path))
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            raise RecordingError(f"cannot read {self.name}: {reason_of(error)}") from error
        self._close = weakref.finalize(self, os.close, self._fd)
        self._offsets = array("Q")  # where each line begins
        self._end = 0  # bytes that were scanned: whole lines
        self._steps = array("I")  # lines of rounds and plain steps
        self._keyframes = array("I")
        self._others = array("I")
        self._times = array("q")  # of each line; -1 where its beginning does not say
        self._runs: list[RunPlace] = []
        self.damage: str | None = None
        """What is wrong with the file, if it cannot be read to its end."""
        try:
            self.header = self._read_header()
            self.refresh()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; allowed twice. One that nobody holds any more is closed, too."""
        self._fd = -1
        self._close()

    def _read_header(self) -> dict[str, Any]:
        data = b""
        while b"\n" not in data and len(data) <= LINE_LIMIT:
            more = self._read(len(data), _CHUNK)
            if not more:
                break
            data += more
        if not data:
            raise RecordingError(f"{self.name} is empty, not a recording")
        first, newline, _ = data.partition(b"\n")
        header = read_header(first, self.name, cut=not newline)
        self._end = len(first) + len(newline)
        return header

    def refresh(self) -> int:
        """Take the whole lines that have come since the last look. Returns how many there are."""
        before = len(self._offsets)
        rest, at = b"", self._end
        while self.damage is None:
            data = self._read(at + len(rest), _CHUNK)
            if not data:
                break
            data = rest + data
            start = 0
            while (end := data.find(b"\n", start)) >= 0:
                self._take(data, start, end, at + start)
                start = end + 1
            rest, at = data[start:], at + start
            self._end = at
            if len(rest) > LINE_LIMIT:
                self.damage = f"{self.name}, line {len(self._offsets) + 2}: it is too long"
        return len(self._offsets) - before

    def lost(self) -> str | None:
        """Why no more can come, although the file may be being written; None while it can."""
        try:
            mine, there = os.fstat(self._fd), Path(self._path).stat()
        except OSError as error:
            return f"{self.name} is gone: {reason_of(error)}"
        if (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino):
            return f"{self.name} was replaced by another file"
        return f"{self.name} was cut short" if mine.st_size < self._end else None

    def _take(self, data: bytes, start: int, end: int, offset: int) -> None:
        number = len(self._offsets)
        head = data[start : min(start + _HEAD, end)]
        self._offsets.append(offset)
        time = _TIME.search(head)
        self._times.append(-1 if time is None else int(time[1]))
        if head.startswith(_STEPS):
            self._steps.append(number)
        elif head.startswith(_KEYFRAME):
            self._keyframes.append(number)
        else:
            self._others.append(number)
            if head.startswith(_RUN):
                resumed = _RESUMED.search(data, start, end) is not None
                self._runs.append(RunPlace(number, len(self._steps), resumed))

    # -- what is in it

    @property
    def lines(self) -> int:
        """Whole lines after the header."""
        return len(self._offsets)

    @property
    def steps(self) -> int:
        """Rounds and plain steps, of all runs."""
        return len(self._steps)

    @property
    def runs(self) -> tuple[RunPlace, ...]:
        """The runs in their order."""
        return tuple(self._runs)

    @property
    def step_lines(self) -> Sequence[int]:
        """The lines of the rounds and plain steps; it grows with the file."""
        return self._steps

    @property
    def torn(self) -> bool:
        """Whether bytes without a line end follow the last whole line."""
        return bool(self._read(self._end, 1))

    def line_of_step(self, index: int) -> int:
        """The line of a round or plain step. Raises IndexError."""
        return self._steps[index]

    def steps_before(self, line: int) -> int:
        """How many rounds and plain steps come before a line."""
        return bisect_right(self._steps, line - 1) if line else 0

    def event(self, line: int) -> Event | None:
        """The event of a line; None for a keyframe or a kind that is not known. Raises RecordingError."""
        value = self.value(line)
        kind = value.get("event")
        if not isinstance(kind, str):
            raise self._damaged(line, "it names no event")
        if kind not in KINDS:
            return None
        try:
            return event_from(KINDS[kind], value)
        except ValueError as error:
            raise self._damaged(line, str(error)) from error

    def events(self, start: int = 0, end: int | None = None) -> Iterator[Event]:
        """The events of some lines, in their order. Raises RecordingError at the first damaged one."""
        for line in range(start, self.lines if end is None else min(end, self.lines)):
            event = self.event(line)
            if event is not None:
                yield event

    def others(self, start: int, end: int) -> Sequence[int]:
        """The lines from ``start`` to before ``end`` that are neither rounds, plain steps nor keyframes."""
        return self._others[bisect_left(self._others, start) : bisect_left(self._others, end)]

    def keyframes(self, start: int, end: int) -> Sequence[int]:
        """The lines of keyframes from ``start`` to before ``end``."""
        return self._keyframes[bisect_left(self._keyframes, start) : bisect_left(self._keyframes, end)]

    def keyframe(self, line: int) -> Keyframe:
        """The keyframe of a line. Raises RecordingError where there is none."""
        try:
            return from_json(Keyframe, self.value(line))
        except ValueError as error:
            raise self._damaged(line, str(error)) from error

    def time_ns(self, line: int) -> int | None:
        """When a line was written, on the clock of the events; None where it does not say."""
        time = self._times[line]
        if time < 0:
            try:
                found = self.value(line).get("t_ns")
            except RecordingError:
                return None
            return found if isinstance(found, int) and 0 <= found < 2**63 else None
        return time

    # -- reading

    def value(self, line: int) -> dict[str, Any]:
        """The JSON object of a line. Raises RecordingError where it is none, IndexError for no line."""
        if not 0 <= line < len(self._offsets):
            raise IndexError(f"line {line} of {len(self._offsets)}")
        start = self._offsets[line]
        end = self._offsets[line + 1] if line + 1 < len(self._offsets) else self._end
        data = self._read(start, end - start)
        try:
            return parse_line(data)
        except ValueError as error:
            raise self._damaged(line, str(error)) from error

    def _damaged(self, line: int, why: str) -> RecordingError:
        return RecordingError(f"{self.name}, line {line + 2}: {why}", "The file is damaged there.")

    def _read(self, offset: int, count: int) -> bytes:
        try:
            return os.pread(self._fd, count, offset)
        except OSError as error:
            raise RecordingError(f"cannot read {self.name}: {reason_of(error)}") from error
