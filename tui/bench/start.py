"""How long it takes until something is there: the help, the first screen, a loaded model."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from engine.bench import loading
from engine.bench.report import Row
from engine.bench.timing import median_ratio
from tui.bench.terminal import Terminal, TerminalError

if TYPE_CHECKING:
    from tui.bench.rows import Setup

FULL = ("Context", "Output", "Rounds", "Gauge", "Inspector", "Settings")
"""What a full first frame has: the panes, and the line of the keys at the bottom."""
BUILTIN = "builtin:smollm2-135m"


def start_rows(setup: Setup) -> Iterator[Row]:
    """``spec --help``; and from the start of the process to the first full frame."""
    yield _help_row(setup.helps)
    seconds: list[float] = []
    imported: set[str] = set()
    for number in range(setup.starts + 1):
        with setup.terminal("start") as terminal:
            fact = terminal.fact()
            painted = first_full_frame(terminal)
            terminal.send("\x11")
        if number:  # the first one writes byte code and warms the disk's cache
            seconds.append(painted - terminal.began)
            if fact["at"] > painted - 0.01:
                imported |= set(fact["imported"])
            else:
                imported.add("(the engine began before it)")
    estimate = median_ratio(seconds)
    yield Row(
        *("first paint", estimate.value, "s"),
        at_most=0.8,
        low=estimate.low,
        high=estimate.high,
        note=f"median of {len(seconds)} starts, {min(seconds):.2f} .. {max(seconds):.2f} s",
    )
    yield Row(
        *("torch and its like imported by then", float(len(imported)), ""),
        at_most=0,
        note=", ".join(sorted(imported)) or "none",
    )


def first_full_frame(terminal: Terminal) -> float:
    """When everything that belongs on the first screen was drawn."""
    times = [terminal.drawn_at(word) for word in FULL]
    missing = [word for word, at in zip(FULL, times, strict=True) if at is None]
    if missing:
        raise TerminalError(f"the first screen lacks {', '.join(missing)}")
    return max(at for at in times if at is not None)


def load_rows(setup: Setup) -> Iterator[Row]:
    """Loading the model against reading its files."""
    for dtype in ("float32", "bfloat16"):
        request = loading.Request(setup.model or BUILTIN, dtype)
        found = [loading.measure(request) for _ in range(setup.loads)]
        estimate = median_ratio([each.ratio for each in found])
        took, read = (median(getattr(each, name) for each in found) for name in ("load", "read"))
        yield Row(
            *(f"model loaded / its files read, {dtype}", estimate.value, "x"),
            at_most=2,
            low=estimate.low,
            high=estimate.high,
            note=f"{took:.2f} s against {read:.2f} s; fresh processes, files in the system's cache",
        )


def _help_row(times: int) -> Row:
    seconds = []
    for number in range(times + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tui", "--help"], stdout=subprocess.DEVNULL, check=True)
        if number:  # the first one writes byte code and warms the disk's cache
            seconds.append(time.perf_counter() - start)
    estimate = median_ratio(seconds)
    return Row(
        *("spec --help", estimate.value, "s"),
        at_most=0.25,
        low=estimate.low,
        high=estimate.high,
        note=f"median of {len(seconds)} processes, {min(seconds):.2f} .. {max(seconds):.2f} s",
    )
