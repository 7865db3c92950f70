"""The user's own editor for a text: ``$VISUAL``, else ``$EDITOR``, on a private temporary file."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from engine.context import SIZE_LIMIT
from engine.errors import ContextError, DiskError, UserError
from engine.user_text import read_text

_HINT = 'Set EDITOR to the name of a program, for example: export EDITOR="nano"'
_NO_ROOM = "Free some space, or set TMPDIR to a folder that can be written."


def editor_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The words of the editor's command. Raises UserError if none is set."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UserError(f"the editor {named!r} cannot be understood: {error}", _HINT) from error
    if not words:
        raise UserError("no editor is set: neither VISUAL nor EDITOR is", _HINT)
    return words


def edit_outside(text: str, command: Sequence[str]) -> str:
    """Let the editor change a text; blocks until it ends. The one line end that editors add is dropped.

    Raises UserError if the editor is missing or fails, ContextError for a file that is no text, DiskError.
    What was written but cannot be taken over stays in the file, and the error names it.
    """
    path = _written(text)
    before = path.read_bytes()
    try:
        status = _run([*command, str(path)])
        if status != 0:
            told = f"the editor {command[0]!r} ended with status {status}"
            raise UserError(told, _kept(path, before) or "The text is unchanged.")
        try:
            changed = read_text(str(path), SIZE_LIMIT, ContextError)
        except ContextError as error:
            raise ContextError(error.message, _kept(path, before) or error.hint) from error
    except BaseException:
        if not _kept(path, before):
            _remove(path)
        raise
    _remove(path)
    if changed.endswith("\n") and not text.endswith("\n"):
        changed = changed[:-1].removesuffix("\r")
    return changed


def _written(text: str) -> Path:
    """A new temporary file, private to the user, with the text."""
    name: str | None = None
    try:
        handle, name = tempfile.mkstemp(prefix="message-", suffix=".md")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        if name is not None:
            _remove(Path(name))
        told = f"cannot write a temporary file: {error.strerror or error}"
        raise DiskError(told, _NO_ROOM) from error
    return Path(name)


def _kept(path: Path, before: bytes) -> str:
    """Where the user's text is, if the file holds another one than at the beginning."""
    try:
        return "" if path.read_bytes() == before else f"What you wrote is kept in {path}."
    except OSError:  # the editor deleted it
        return ""


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _run(command: list[str]) -> int:
    try:
        with subprocess.Popen(command, stderr=_terminal()) as process, _interrupts_are_the_editors():
            return process.wait()
    except FileNotFoundError as error:
        raise UserError(f"there is no editor {command[0]!r}", _HINT) from error
    except PermissionError as error:
        raise UserError(f"the editor {command[0]!r} may not be run", _HINT) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(f"the editor {command[0]!r} cannot be started: {why}", _HINT) from error


def _terminal() -> IO[str] | None:
    """The terminal for the editor's complaints: in the app, file descriptor 2 is its log."""
    stream = sys.__stderr__
    try:
        return None if stream is None or stream.fileno() < 0 else stream
    except (OSError, ValueError):
        return None


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ctrl-C reaches every program on the terminal; while the editor has it, it means the editor."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
