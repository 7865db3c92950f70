"""Device time of model passes, measured without stopping the device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class PassClock:
    """Adds up the device time of passes.

    On the CPU a pass is timed by the wall clock. On a GPU two events are put in the device's queue around the
    pass and read in ``take_ms``, which the caller reaches after the round's one read, so no pass is waited
    for.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._elapsed_ns = 0
        self._events: list[tuple[torch.Event, torch.Event]] = []

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Time the block as one pass (or as several in a row)."""
        if self._device.type == "cpu":
            start = time.perf_counter_ns()
            try:
                yield
            finally:
                self._elapsed_ns += time.perf_counter_ns() - start
            return
        before, after = (torch.Event(self._device, enable_timing=True) for _ in range(2))
        before.record()
        try:
            yield
        finally:
            after.record()
            self._events.append((before, after))

    def take_ms(self) -> float:
        """Milliseconds since the last call; the counter starts again at zero."""
        total = self._elapsed_ns / 1e6
        for before, after in self._events:
            after.synchronize()
            total += before.elapsed_time(after)
        self._elapsed_ns = 0
        self._events.clear()
        return total
