"""A child process that the user can cancel."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from engine.models.cache import IsCancelled, stop_if

_POLL_SECONDS = 0.1


def run_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    on_tick: Callable[[], None],
    cancelled: IsCancelled,
) -> int:
    """Run a command to its end and return its exit status; what it prints goes to ``log``.

    ``on_tick`` is called about ten times a second. The child is killed when the user cancels, or whatever
    else ends this call early. Raises Cancelled.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while (status := child.poll()) is None:
                stop_if(cancelled)
                on_tick()
                time.sleep(_POLL_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    return status


def last_words(log: Path) -> str:
    """What a failed command said: its line with ERROR or error, else its last one."""
    lines = [
        line.strip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    told = [line for line in lines if line.lower().startswith("error")]
    return (told or lines or ["no message"])[-1][:300]
