"""Run the ``spec`` command with a scripted session in a process of its own, piped or on a terminal.

The child's script is Python code for ``support.scripted`` names, such as ``Script(pause_s=5)``.
"""

from __future__ import annotations

import errno
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_CHILD = """\
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from support.scripted import *
from tui.cli import run
run(session_factory=Scripted({script}))
"""


def spec_argv(*argv: str, script: str | None = None) -> list[str]:
    """The command line of ``spec ARGV``; with ``script`` its session is scripted."""
    if script is None:
        return [sys.executable, "-m", "tui", *argv]
    code = _CHILD.format(root=str(ROOT), tests=str(ROOT / "tests"), script=script)
    return [sys.executable, "-c", code, *argv]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a child: plain, UTF-8, with a terminal type."""
    names = {"NO_COLOR", "SPEC_DEBUG", "COLUMNS", "LINES"}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT), **changes}


def run_piped(
    argv: Sequence[str], *, cwd: Path, stdin: bytes = b"", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run to the end with pipes on all three streams."""
    return subprocess.run(
        argv, cwd=cwd, input=stdin, capture_output=True, timeout=60, check=False, env=env or environment()
    )


def run_on_terminal(
    argv: Sequence[str],
    *,
    cwd: Path,
    press: tuple[bytes, bytes] | None = None,
    env: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    """Run on a terminal of its own; returns the exit status and every byte the terminal got.

    ``press`` is (what to wait for, the keys to send then).
    """
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(argv[0], list(argv), env or environment())
    data = b""
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if not select.select([fd], [], [], 1)[0]:
                continue
            try:
                part = os.read(fd, 65536)
            except OSError as error:
                if error.errno != errno.EIO:  # Linux: the other end is closed
                    raise
                part = b""
            if not part:
                break
            data += part
            if press is not None and press[0] in data:
                os.write(fd, press[1])
                press = None
    finally:
        os.close(fd)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), data
