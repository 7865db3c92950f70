"""One measure after the other, with the time left, from where an earlier run was stopped."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.bench.report import Row, line
from engine.bench.state import Done, State, default_path, now

STOPPED = 130
"""Exit status of a bench that Ctrl-C ended, as shells have it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A measure to be run."""

    name: str
    seconds: float
    """What it may take; told from it and from those that are done is only the time left."""
    run: Callable[[], Iterable[Row]]


def add_options(parser: argparse.ArgumentParser, bench: str) -> None:
    """The options about the state, which every bench has."""
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="keep what is finished there, and go on after it (default: "
        f"bench/{bench}.jsonl in the cache folder; with --only: nowhere)",
    )
    parser.add_argument("--fresh", action="store_true", help="measure anew what a stopped run has finished")
    parser.add_argument(
        "--keep", action="store_true", help="leave the state there at the end: another bench shares it"
    )
    parser.add_argument(
        "--no-table", action="store_true", help="print no results: engine.bench.together prints those of all"
    )


def state_path(options: argparse.Namespace, bench: str) -> Path | None:
    """Where these options want the state."""
    if options.state is not None:
        path: Path = options.state
        return path
    return None if options.only else default_path(bench)


def run_jobs(jobs: Sequence[Job], state: State, tell: Callable[[str], object]) -> list[Done]:
    """Run what is not finished yet, and give all of it, in order.

    Args:
        tell: gets the progress, line by line.

    Raises KeyboardInterrupt, after saying what is kept, and DiskError.
    """
    tell(_beginning(jobs, state))
    began = time.monotonic()
    try:
        for job in jobs:
            if job.name in state.finished:
                continue
            left = time_left(jobs, state.finished.values())
            tell(f"[{time.monotonic() - began:4.0f} s, {left}] {job.name}\n")
            state.add(_run(job, tell))
    except KeyboardInterrupt:
        kept = f"; {len(state.finished)} of {len(jobs)} measures are kept" if state.path else ""
        tell(f"\nstopped{kept}{', the same command goes on after them' if state.path else ''}\n")
        raise
    return [state.finished[job.name] for job in jobs]


def time_left(jobs: Sequence[Job], finished: Iterable[Done]) -> str:
    """In words, at the pace of those that are finished."""
    taken = {done.measure: done.seconds for done in finished}
    expected = {job.name: job.seconds for job in jobs}
    known = sum(expected[name] for name in taken)
    pace = sum(taken.values()) / known if known else 1.0
    seconds = pace * sum(seconds for name, seconds in expected.items() if name not in taken)
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


def _run(job: Job, tell: Callable[[str], object]) -> Done:
    began = time.monotonic()
    rows = []
    for row in job.run():
        rows.append(row)
        tell(f"         {line(row)}\n")
    return Done(job.name, tuple(rows), round(time.monotonic() - began, 1), now())


def _beginning(jobs: Sequence[Job], state: State) -> str:
    if state.finished:
        newest = max(done.ended for done in state.finished.values())
        return (
            f"{len(state.finished)} of {len(jobs)} measures were finished by a run that ended at {newest}: "
            "they are taken from there, --fresh measures them anew\n"
        )
    if state.outdated:
        return (
            f"a stopped run finished {state.outdated} measures with other code, versions or setup, or on "
            "another machine: they are not used\n"
        )
    return ""
