"""The user's own editor for a text: ``$VISUAL``, else ``$EDITOR``, on a private temporary file."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from engine.context import SIZE_LIMIT
from engine.errors import ContextError, DiskError, UserError
from engine.user_text import read_text

_HINT = 'Set EDITOR to the name of a program, for example: export EDITOR="nano"'


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
    """
    path: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix="message-", suffix=".md")  # private to the user: 0600
        path = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        status = _run([*command, name])
        if status != 0:
            raise UserError(f"the editor {command[0]!r} ended with status {status}", "The text is unchanged.")
        changed = read_text(name, SIZE_LIMIT, ContextError)
    except OSError as error:
        raise DiskError(f"cannot write a temporary file: {error.strerror or error}") from error
    finally:
        if path is not None:
            with suppress(OSError):
                path.unlink()
    if changed.endswith("\n") and not text.endswith("\n"):
        changed = changed[:-1].removesuffix("\r")
    return changed


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except FileNotFoundError as error:
        raise UserError(f"there is no editor {command[0]!r}", _HINT) from error
    except PermissionError as error:
        raise UserError(f"the editor {command[0]!r} may not be run", _HINT) from error
