"""What keeps the terminal whole: standard error guarded, signals answered, the engine ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tui.failures import report

if TYPE_CHECKING:
    from tui.engine_thread import EngineThread

JOIN_S = 2.0
"""How long the engine's thread gets to end."""
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name))


def on_signals(leave: Callable[[int], object]) -> None:
    """Have the running loop call ``leave`` with the exit code when a signal comes that ends the program."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        # Loops of other systems, and of other threads than the main one, do not offer it.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, leave, 128 + number)


@contextmanager
def guarded_stderr(log: Path) -> Iterator[None]:
    """What C code writes to file descriptor 2 goes to a log file; Textual draws on a copy of the terminal.

    Where the log cannot be written, it goes nowhere.
    """
    before = sys.__stderr__
    kept = os.dup(2)
    # Standard error may be a file: then the screen is where standard output goes.
    screen = 2 if os.isatty(2) else 1
    terminal = os.fdopen(os.dup(screen), "w", encoding="utf-8", errors="backslashreplace")
    sink = _open(log)
    sys.__stderr__ = terminal  # type: ignore[misc]  # Textual's driver writes to it
    os.dup2(sink, 2)
    os.close(sink)
    try:
        yield
    finally:
        with suppress(OSError):
            terminal.flush()
        os.dup2(kept, 2)
        os.close(kept)
        sys.__stderr__ = before  # type: ignore[misc]  # as it was
        with suppress(OSError):
            terminal.close()


def _open(log: Path) -> int:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def shut_down(
    engine: EngineThread, code: int, timeout: float = JOIN_S, *, crash: Exception | None = None
) -> None:
    """End the engine's thread; one that hangs in a pass ends with the process.

    Args:
        code: the exit status of the process, if it ends here.
        timeout: seconds that the thread gets.
        crash: what ended the app, if it was a mistake: nobody else can tell it if the process ends here.
    """
    if engine.stop(timeout):
        return
    with suppress(OSError):
        if crash is not None:
            code = report(crash, sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
