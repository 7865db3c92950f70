"""Ctrl-C and SIGTERM: the first one ends the work in order, the second one ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_STOPPING = b"\nstopping after this round; once more to quit at once\n"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Takes the two signals inside a ``with`` block.

    While ``cancel`` is None, the first signal raises KeyboardInterrupt; else it calls ``cancel``. Either way
    the second one does what the system does by default. A signal that the parent had ignored stays so.
    """

    def __init__(self) -> None:
        self.cancel: Callable[[], None] | None = None
        self.signal: int | None = None
        """The signal that came."""
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """128 + the signal's number: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (signal.SIGINT if self.signal is None else self.signal)

    def __enter__(self) -> Self:
        # Python allows it in the main thread only; elsewhere the caller's handlers stay.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = number
        for known in self._before:
            signal.signal(known, signal.SIG_DFL)
        if self.cancel is None:
            raise KeyboardInterrupt
        self.cancel()
        with suppress(OSError):
            # Not through sys.stderr: this may interrupt a write to it.
            if os.isatty(2):
                os.write(2, _STOPPING)
