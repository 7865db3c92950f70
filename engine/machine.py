"""The machine that everything runs on: processor, cores, memory, and how busy it is. Needs no torch."""

from __future__ import annotations

import math
import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from engine.models.memory import control_groups, free_memory

_GROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_MOST_LIMIT = 1 << 60
"""Control groups of the first version write "no limit" as a number near 2**63."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this program may use of a machine."""

    system: str
    """Such as "Linux 6.1.0 x86_64"."""
    processor: str
    physical_cores: int | None
    """None where the system does not tell."""
    logical_cores: int
    allowed_cores: int
    """Logical cores that this process may be scheduled on."""
    core_quota: float | None
    """Cores' worth of time that a container may take; None: no limit."""
    memory_total: int
    """Bytes, as the next two."""
    memory_free: int
    """What this process may still take, a container's limit counted."""
    memory_limit: int | None
    """Of the container; None: no limit."""
    load: tuple[float, float, float] | None
    """Processes that ran or waited, over 1, 5 and 15 minutes; None where the system does not tell."""
    busy: float
    """Share of all cores that others used while this program waited, 0..1."""
    thread_variables: tuple[tuple[str, str], ...]
    """Environment variables that set the number of threads."""

    @property
    def useful_threads(self) -> int:
        """Threads that can compute side by side without waiting for each other's core."""
        cores = min(self.physical_cores or self.logical_cores, self.allowed_cores)
        return max(1, cores if self.core_quota is None else min(cores, math.ceil(self.core_quota)))


def read_machine(watch_s: float = 0.3) -> Machine:
    """Look at this machine.

    Args:
        watch_s: seconds to wait and see what others use of the processor.
    """
    import psutil

    others = Others()
    time.sleep(watch_s)
    busy = others.share()
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    logical = psutil.cpu_count() or os.cpu_count() or 1
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=processor_name(),
        physical_cores=psutil.cpu_count(logical=False),
        logical_cores=logical,
        allowed_cores=_allowed_cores() or logical,
        core_quota=core_quota(_GROUPS, _MEMBERSHIP),
        memory_total=int(psutil.virtual_memory().total),
        memory_free=free_memory(),
        memory_limit=memory_limit(_GROUPS, _MEMBERSHIP),
        load=tuple(psutil.getloadavg()) if hasattr(psutil, "getloadavg") else None,
        busy=busy,
        thread_variables=tuple((name, os.environ[name]) for name in names if os.environ.get(name)),
    )


class Others:
    """What other programs use of the processor, from its making on."""

    def __init__(self) -> None:
        self._before = _seconds()

    def share(self) -> float:
        """Share of all cores, 0..1."""
        busy, idle, own = (after - before for after, before in zip(_seconds(), self._before, strict=True))
        return min(max((busy - own) / (busy + idle), 0.0), 1.0) if busy + idle > 0 else 0.0


def _seconds() -> tuple[float, float, float]:
    """Processor time since the start, over all cores: in use, idle, and used by this process."""
    import psutil

    times, own = psutil.cpu_times(), psutil.Process().cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts the time of guests in that of users too.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - idle - guests, idle, own.user + own.system


def processor_name() -> str:
    """What the system calls the processor."""
    try:
        with Path("/proc/cpuinfo").open() as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def core_quota(root: Path, membership: Path) -> float | None:
    """Cores' worth of time that the control groups of this process allow; None without a limit."""
    found = []
    for folder in control_groups(root, membership, "cpu"):
        words = _words(folder / "cpu.max")  # quota and period in microseconds, or "max"
        if not words:
            words = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            found.append(int(words[0]) / int(words[1]))
    return min(found, default=None)


def memory_limit(root: Path, membership: Path) -> int | None:
    """Bytes that the control groups of this process allow; None without a limit."""
    words = [
        word
        for folder in control_groups(root, membership, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        for word in _words(folder / name)
    ]
    return min((int(word) for word in words if word.isdigit() and int(word) < _MOST_LIMIT), default=None)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return []


def _allowed_cores() -> int | None:
    """None on systems that bind no process to cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
