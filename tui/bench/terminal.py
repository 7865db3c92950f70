"""A terminal for the bench: a program runs on it, and every byte it draws is kept with the time it came.

Unix only. It draws nothing itself, so it costs the machine next to nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import queue
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

SIZE = (120, 36)
"""Columns and rows."""
_END_S = 20.0


class TerminalError(Exception):
    """The program on the terminal did not do what it should; the message has what it drew last."""


class Terminal:
    """Runs ``python ARGUMENTS FD`` on a terminal; what it writes to FD, a JSON object a line, are facts.

    Args:
        arguments: of this Python.
        environment: of the program, beside this process's own.
        size: columns and rows.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], size: tuple[int, int] = SIZE
    ) -> None:
        self._screen, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        facts, told = os.pipe()
        self._drawn = bytearray()
        self._arrivals: list[tuple[int, float]] = []  # bytes so far, and when the last of them came
        self._changed = threading.Condition()
        self._facts: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.began = time.monotonic()
        """When the program was started; seconds of the monotonic clock, which all processes share."""
        self._process = subprocess.Popen(
            [sys.executable, *arguments, str(told)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            pass_fds=[told],
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
        )
        os.close(theirs)
        os.close(told)
        self._threads = [
            threading.Thread(target=self._read_screen, daemon=True),
            threading.Thread(target=self._read_facts, args=[facts], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the program, kindly where it leaves by itself."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S if kind is None else 0)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        os.close(self._screen)

    @property
    def drawn(self) -> bytes:
        """Everything that was drawn so far."""
        with self._changed:
            return bytes(self._drawn)

    def send(self, keys: str) -> tuple[int, float]:
        """Press keys; how much was drawn by then, and when."""
        with self._changed:
            before = len(self._drawn)
        now = time.monotonic()
        os.write(self._screen, keys.encode())
        return before, now

    def drawn_at(self, pattern: str, since: int = 0, timeout: float = 10.0) -> float | None:
        """When what matches was drawn; None if it was not in time.

        Args:
            pattern: a regular expression for what is written, escape sequences included.
            since: bytes drawn before, which are not looked at.
        """
        expression, end = re.compile(pattern.encode()), time.monotonic() + timeout
        with self._changed:
            while True:
                found = expression.search(self._drawn, since)
                if found is not None:
                    return next(at for count, at in self._arrivals if count >= found.end())
                if not self._changed.wait(end - time.monotonic()) and time.monotonic() >= end:
                    return None

    def fact(self, timeout: float = 120.0) -> dict[str, Any]:
        """The next fact. Raises TerminalError if none comes."""
        try:
            fact = self._facts.get(timeout=timeout)
        except queue.Empty:
            raise TerminalError(f"nothing was told for {timeout:.0f} s; {self._tail()}") from None
        if fact is None:
            self._threads[0].join(1.0)  # what it said of its end
            raise TerminalError(f"the program ended early; {self._tail()}")
        return fact

    def _tail(self) -> str:
        text = re.sub(
            r"\x1b\[[0-9;?<=>]*[a-zA-Z~]|[\x00-\x08\x0b-\x1f]", "", self.drawn.decode("utf-8", "replace")
        )
        return f"its last words: {text[-1500:]!r}"

    def _read_screen(self) -> None:
        while True:
            try:
                part = os.read(self._screen, 1 << 16)
            except OSError:  # Linux: the other end is closed
                part = b""
            now = time.monotonic()
            with self._changed:
                self._drawn += part
                self._arrivals.append((len(self._drawn), now))
                self._changed.notify_all()
            if not part:
                return

    def _read_facts(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8") as pipe:
            for line in pipe:
                self._facts.put(json.loads(line))
        self._facts.put(None)
