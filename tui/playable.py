"""Recordings to play, and the one that ships with the program: something to see before any model is there."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from engine.context import Message, messages_from
from engine.errors import RecordingError, SpeculateError
from engine.recording import reason_of
from engine.recording_file import RecordingFile
from engine.recording_summary import model_names
from engine.user_text import shown_name, size_text
from tui.source import ReplayClock, ReplaySource
from tui.tape import FileTape, Tape

PATH = Path(__file__).parents[1] / "engine" / "assets" / "demo.jsonl"
_PIPE_LIMIT = 2**34
"""Bytes that are taken from standard input."""
_CHUNK = 2**20


class Made(NamedTuple):
    """What a recording was made with."""

    target: str
    drafter: str
    machine: str


@dataclass(frozen=True, slots=True)
class Playable:
    """A recording, ready to be played."""

    source: ReplaySource
    messages: tuple[Message, ...]
    made: Made
    path: Path | None = None
    """Its file; None for one that came through a pipe."""


def load_demo(path: Path = PATH, now: Callable[[], float] = monotonic) -> Playable | None:
    """The shipped recording; None where there is none, or none that can be read: it is no reason not to
    start."""
    try:
        return open_recording(path, now)
    except SpeculateError:
        return None


def open_recording(
    path: str | Path, now: Callable[[], float] = monotonic, speed: float = 1.0, *, follow: bool = False
) -> Playable:
    """A recording, ready to be played from its beginning at so many times its pace.

    Args:
        path: of the file, or "-" for standard input, which is read to its end, as other pipes are.
        now: a monotonic clock in seconds.
        follow: at its end, wait for more.

    Raises:
        RecordingError: it is no recording, of a newer version, or cannot be read.
        ContextError: the messages in its header are none. One without messages is played without them.
    """
    is_pipe = str(path) == "-" or _is_pipe(path)
    file = _from_pipe(path) if is_pipe else RecordingFile(path)
    played = to_play(FileTape(file), file.name, now, speed)
    played.source.follow = follow
    return played if is_pipe else replace(played, path=Path(path))


def to_play(tape: Tape, name: str, now: Callable[[], float] = monotonic, speed: float = 1.0) -> Playable:
    """A tape, ready to be played.

    Args:
        name: of the file, for messages.

    Raises:
        ContextError: the messages in its header are none.
    """
    context = tape.header.get("context")
    messages = messages_from(context, name) if context else ()
    return Playable(ReplaySource(tape, ReplayClock(now, speed)), messages, made_with(tape.header))


def _is_pipe(path: str | Path) -> bool:
    try:
        return Path(path).is_fifo()
    except (OSError, ValueError):
        return False  # opening it says why


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path is None else path.open("rb")


def _from_pipe(path: str | Path) -> RecordingFile:
    """A pipe, or standard input, as a file without a name."""
    is_input = str(path) == "-"
    told = "standard input" if is_input else shown_name(str(path))
    handle, name = tempfile.mkstemp(prefix="naive-speculate-")
    try:
        with os.fdopen(handle, "wb") as copy, _opened(None if is_input else Path(path)) as pipe:
            taken = 0
            while chunk := pipe.read(_CHUNK):
                taken += copy.write(chunk)
                if taken > _PIPE_LIMIT:
                    raise RecordingError(f"{told} is larger than {size_text(_PIPE_LIMIT)}")
        return RecordingFile(name, told)
    except OSError as error:
        raise RecordingError(f"cannot take {told}: {reason_of(error)}") from error
    finally:
        Path(name).unlink(missing_ok=True)


def made_with(header: Mapping[str, Any]) -> Made:
    """Names of target and drafter, and the machine, as far as the header says."""
    target, drafter = model_names(header)
    machine = header.get("machine")
    said = _machine(machine) if isinstance(machine, dict) else ""
    return Made(target or "recorded target", drafter or "recorded drafter", said)


def _machine(machine: Mapping[str, Any]) -> str:
    threads = machine.get("threads")
    said = [
        _word(machine, "processor"),
        f"{threads} threads" if type(threads) is int else "",
        " ".join(filter(None, (_word(machine, "device"), _word(machine, "dtype")))),
    ]
    return ", ".join(filter(None, said))


def _word(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
