"""Recordings: JSON lines, one an event, written as they happen and read back to equal events.

First line::

    {"format": "naive-speculate-recording", "version": 1, ...what the session says of itself}

Then one line an event, ``{"event": "Round", ...fields}``, and after every 32 rounds of a run a
``{"event": "keyframe", ...}`` that lets a reader start there. The file is ASCII, so that ``cat`` shows it
safely. Bytes are text where they are UTF-8, else a list of byte values. Floats come back bit for bit.

A reader ignores fields and kinds of event that it does not know (the latter are counted), fills missing
fields that have a default, and drops a last line that was torn. At any other line that is wrong it raises
RecordingError, or, where that is asked for, ends there and says so.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import DiskError, RecordingError
from engine.event_json import KINDS, dump_line, event_from, from_json, parse_line, plain, to_json
from engine.events import Event
from engine.keyframes import Keyframe, KeyframeMaker
from engine.user_text import shown_name, size_text

FORMAT = "naive-speculate-recording"
VERSION = 1
SIZE_LIMIT = 2**30
"""Bytes that are read whole."""

_HOW = "A recording is made with --record FILE."


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording as it was read."""

    header: dict[str, Any]
    events: tuple[Event, ...]
    keyframes: tuple[Keyframe, ...]
    torn: bool
    """The last line was cut short; the events before it are whole."""
    skipped: int
    """Lines with a kind of event this version does not know."""
    damage: str | None = None
    """What is wrong with the first line that could not be read; what follows it is not here."""

    @property
    def whole(self) -> bool:
        """Whether all that was written could be read."""
        return not self.torn and self.damage is None


class Recorder:
    """Writes one recording. The file is for its owner alone; each line reaches the system at once.

    Events that come before the header wait for it; without any line the file goes again. A recorder that is
    closed, by ``close`` or by a failed write, takes events and drops them.
    """

    def __init__(self, path: str | Path) -> None:
        """Create the file. Raises RecordingError where that fails or something would be overwritten."""
        self.path = Path(path)
        self.has_header = False
        self.failure: DiskError | None = None
        """Why the recording ended early, if it did."""
        self._waiting: list[Event] = []
        self._keyframes = KeyframeMaker()
        fd, self._is_new = _create(self.path)
        self._fd: int | None = fd
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._size = 0

    @property
    def closed(self) -> bool:
        """Whether nothing more will be written."""
        return self._fd is None

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Write the first line; ``header`` holds JSON values. Raises DiskError once, then it is closed."""
        assert not self.has_header, "a recording has one header"
        assert not {"format", "version"} & header.keys(), "format and version are the recorder's"
        self.has_header = True
        self._line({"format": FORMAT, "version": VERSION, **header})
        for event in self._waiting:
            self.write(event)
        self._waiting.clear()

    def write(self, event: Event) -> None:
        """Write one event, and a keyframe when it is due. Raises DiskError once, then it is closed."""
        if self.closed:
            return
        if not self.has_header:
            self._waiting.append(event)
            return
        self._line(to_json(event))
        if keyframe := self._keyframes.add(event):
            self._line({"event": "keyframe", **plain(keyframe)})

    def close(self) -> None:
        """Close the file; allowed twice."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        os.close(fd)
        if self._is_new and not self._size:
            self.path.unlink(missing_ok=True)

    def _line(self, value: dict[str, Any]) -> None:
        if self._fd is None:
            return
        data = dump_line(value)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._give_up()
            self.failure = DiskError(
                f"the recording {self.path} is not complete: {reason_of(error)}",
                "Free some space or record to another place; the lines written before are whole.",
            )
            raise self.failure from error
        self._size += len(data)

    def _give_up(self) -> None:
        """Leave only whole lines in the file and close it."""
        assert self._fd is not None
        try:
            if self._regular:
                os.ftruncate(self._fd, self._size)
            self.close()
        except OSError:
            # The disk refuses this too. A reader drops a torn last line, so nothing is lost by it.
            self._fd = None


def read_recording(path: str | Path, *, tolerant: bool = False) -> Recording:
    """Read a whole recording.

    Args:
        path: of the file, or "-" for standard input.
        tolerant: stop at a damaged line instead of raising; ``damage`` says what is wrong with it.

    Raises:
        RecordingError: the file is none, of a newer version, too large to read whole, or damaged.
    """
    name = "standard input" if str(path) == "-" else shown_name(str(path))
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(SIZE_LIMIT + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise RecordingError(f"cannot read {name}: {reason_of(error)}", _HOW) from error
    except ValueError as error:
        raise RecordingError(f"{name} is not a possible file name", _HOW) from error
    if len(data) > SIZE_LIMIT:
        raise RecordingError(
            f"{name} is larger than {size_text(SIZE_LIMIT)}", "It is too large to read whole."
        )
    return _Reader(name, tolerant=tolerant).read(data)


def read_header(line: bytes, name: str, *, cut: bool) -> dict[str, Any]:
    """What the first line of a recording says, format and version left out.

    Args:
        name: of the file, for the message.
        cut: whether the line lacks its end.

    Raises:
        RecordingError: the line is none of a recording, or of a newer version.
    """
    try:
        header = parse_line(line)
    except ValueError as error:
        if cut and line.startswith(f'{{"format":"{FORMAT}"'.encode()):
            raise RecordingError(f"{name} was cut in its first line", _HOW) from error
        header = {}
    if header.get("format") != FORMAT:
        raise RecordingError(f"{name} is not a recording of this program", _HOW)
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordingError(f"{name}: version {version!r} of a recording is not known", _HOW)
    if version > VERSION:
        raise RecordingError(
            f"{name} is a recording of version {version}; this program reads up to {VERSION}",
            "Update this program.",
        )
    return {key: value for key, value in header.items() if key not in {"format", "version"}}


class _Reader:
    def __init__(self, name: str, *, tolerant: bool) -> None:
        self.name = name
        self.tolerant = tolerant
        self.events: list[Event] = []
        self.keyframes: list[Keyframe] = []
        self.skipped = 0

    def read(self, data: bytes) -> Recording:
        if not data:
            raise RecordingError(f"{self.name} is empty, not a recording", _HOW)
        first, newline, rest = data.partition(b"\n")
        header = read_header(first, self.name, cut=not newline)
        lines = rest.split(b"\n")
        last = lines.pop()
        torn, damage = False, None
        try:
            for number, line in enumerate(lines, 2):
                self._line(line, number)
            torn = bool(last) and not self._complete(last, len(lines) + 2)
        except RecordingError as error:
            if not self.tolerant:
                raise
            damage = str(error)
        return Recording(header, tuple(self.events), tuple(self.keyframes), torn, self.skipped, damage)

    def _complete(self, line: bytes, number: int) -> bool:
        """Take a last line without its line end, if it is whole but for that."""
        try:
            parse_line(line)
        except ValueError:
            return False
        self._line(line, number)
        return True

    def _line(self, line: bytes, number: int) -> None:
        try:
            value = parse_line(line)
            kind = value.get("event")
            if kind == "keyframe":
                self.keyframes.append(from_json(Keyframe, value))
            elif isinstance(kind, str) and kind in KINDS:
                self.events.append(event_from(KINDS[kind], value))
            elif isinstance(kind, str):
                self.skipped += 1
            else:
                raise ValueError("it names no event")
        except ValueError as error:
            raise RecordingError(
                f"{self.name}, line {number}: {error}", "The file is damaged there."
            ) from error


def _create(path: Path) -> tuple[int, bool]:
    """Open a file for writing, readable by its owner only; also whether it is new."""
    hint = "Give a path in a folder that exists and that you may write to."
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        try:
            return os.open(path, flags | os.O_EXCL, 0o600), True
        except FileExistsError:
            # Devices, pipes and files of mktemp exist already. What holds something is refused below.
            fd = os.open(path, flags, 0o600)
    except OSError as error:
        kind = DiskError if error.errno in _DISK_FULL else RecordingError
        raise kind(f"cannot record to {path}: {reason_of(error)}", hint) from error
    except ValueError as error:
        raise RecordingError(f"cannot record to {str(path)!r}: {error}", hint) from error
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_size:
        os.close(fd)
        raise RecordingError(
            f"cannot record to {path}: the file exists", "Give another path, or remove that file first."
        )
    return fd, False


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


def reason_of(error: OSError | ValueError) -> str:
    """What the system says, to go on in a sentence."""
    reason = getattr(error, "strerror", None) or str(error)
    return reason[:1].lower() + reason[1:]
