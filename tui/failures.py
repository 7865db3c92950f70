"""The one place that tells an error to the user and picks the exit code.

::

    0    fine
    1    the engine failed, or a mistake of this program
    2    the user's mistake: options, configuration, context, model name, recording path
    3    the machine or the network cannot: memory, disk, download
    130  stopped by Ctrl-C        143  stopped by SIGTERM
    141  nobody reads the output any more
"""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path
from typing import TextIO

from engine.errors import Cancelled, ResourceError, SpeculateError, UserError
from tui.safe_text import visible

EXIT_BROKEN_PIPE = 141
APP_NAME = "naive-speculate"
_HELP = "spec --help says what can be given."


def report(error: Exception, stderr: TextIO, *, debug: bool = False) -> int:
    """Tell the error in one line, with its hint, and return the exit code. ``debug`` adds the traceback."""
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    if debug:
        stderr.write(visible("".join(traceback.format_exception(error))))
    if isinstance(error, SpeculateError):
        hint = error.hint or (_HELP if isinstance(error, UserError) else None)
        _tell(error.message, hint, stderr, label=not isinstance(error, Cancelled))
        return error.exit_code
    if isinstance(error, OSError):
        _tell(_words(error), "The system refused this; nothing that was written before is lost.", stderr)
        return ResourceError.exit_code
    if isinstance(error, MemoryError):
        _tell("memory ran out", "Use a smaller model or a shorter context.", stderr)
        return ResourceError.exit_code
    hint = f"The details are in {write_log(error)}; please report them."
    _tell(f"internal error: {type(error).__name__}: {error}".rstrip(": "), hint, stderr)
    return 1


def _tell(message: str, hint: str | None, stderr: TextIO, *, label: bool = True) -> None:
    stderr.write(visible(f"error: {message}" if label else message, "") + "\n")
    if hint:
        stderr.write(visible(f"hint: {hint}", "") + "\n")


def _words(error: OSError) -> str:
    words = (error.strerror or str(error) or type(error).__name__).lower()
    return words if error.filename is None else f"{error.filename}: {words}"


def state_dir() -> Path:
    """Where logs go; it need not exist yet."""
    from platformdirs import user_state_path

    return user_state_path(APP_NAME, appauthor=False)


def write_log(error: Exception) -> str:
    """Write the traceback to a file of its own; returns its path, or where else the details are to be had."""
    text = "".join(traceback.format_exception(error))
    path = state_dir() / f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return "the output of the same command with --debug"
    return str(path)
