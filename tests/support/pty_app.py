"""The app in a process of its own, on a terminal that is emulated."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte
from support.terminal import environment

_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])")
_KITTY = re.compile(rb"\x1b\[[<>=?][0-9;]*u")
_LEFT_ON = {25}
"""Modes that a shell expects to be on: the cursor."""
_HARMLESS = {7, 2026, 2048}


class PtyApp:
    """A child on a terminal of ``columns`` by ``rows``."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], columns: int = 120, rows: int = 36
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.started = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], list(argv), {**environment(), "COLORTERM": "truecolor", **env})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.status: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    @property
    def text(self) -> str:
        """What the screen shows."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def round(self) -> int:
        """The number of rounds in the first line."""
        found = re.search(r" round (\d+) ", self.text)
        assert found is not None, self.text
        return int(found[1])

    def pump(self, seconds: float = 0.05) -> bool:
        """Take what the child wrote; False when it closed the terminal."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.raw += data
        self._stream.feed(_KITTY.sub(b"", data))
        return bool(data)

    def until(self, *words: str, patience: float = 60.0) -> None:
        """Wait until one of the words is on the screen."""
        end = time.monotonic() + patience
        while not any(word in self.text for word in words):
            assert time.monotonic() < end, f"{words} not on the screen:\n{self.text}"
            assert self.pump(), f"it ended, {words} not on the screen:\n{self.text}"

    def press(self, keys: bytes) -> None:
        """Send keys."""
        os.write(self._fd, keys)

    def kill(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, patience: float = 30.0) -> int:
        """The exit status, once the child ended."""
        end = time.monotonic() + patience
        while self.pump():
            assert time.monotonic() < end, f"it does not end:\n{self.text}"
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def assert_restored(self) -> None:
        """The terminal is as a shell expects it: no alternate screen, no mouse, cursor shown."""
        modes = {int(number): letter == b"h" for number, letter in _MODE.findall(self.raw)}
        on = {mode for mode, is_on in modes.items() if is_on} - _HARMLESS
        assert on <= _LEFT_ON, f"modes left on: {on}"
        assert modes.get(25, True), "the cursor is hidden"
        assert modes.get(1049) is False, "the alternate screen was entered, and left"
