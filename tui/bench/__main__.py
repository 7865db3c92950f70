"""``python -m tui.bench``: how fast the app is here, on a terminal of its own, with the real model.

A table on stdout, then one JSON line, as ``python -m engine.bench`` prints them. The exit status says whether
it ran, not whether the limits were met. What is finished is kept: a run that was stopped is gone on with by
the same command.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import engine
import tui
from engine.bench.jobs import STOPPED, Job, add_options, run_jobs, state_path
from engine.bench.report import fenced, json_line, table, written_into
from engine.bench.state import State, code_hash, key_of
from tui.bench.rows import ROWS, SECONDS, Setup
from tui.bench.terminal import SIZE

BENCH = "app"


def main(argv: Sequence[str] | None = None, setup: Setup | None = None) -> int:
    """Measure and print. Returns the exit status."""
    options = _parser().parse_args(argv)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        setup = _changed(setup or Setup(Path(scratch)), Path(scratch), options)
        jobs = _jobs(setup, options.only)
        state = State(state_path(options, BENCH), _key(setup, options.only), [job.name for job in jobs])
        if options.fresh:
            state.drop()
        try:
            done = run_jobs(jobs, state, sys.stderr.write)
        except KeyboardInterrupt:
            return STOPPED
    rows = [row for each in done for row in each.rows]
    context = _context(load) | {"seconds": round(sum(each.seconds for each in done), 1)}
    text = _preamble(context) + table(rows) + "\n"
    if options.write:
        document = options.write.read_text("utf-8")
        options.write.write_text(written_into(document, fenced(text), "app"), encoding="utf-8")
    if not options.no_table:
        if not options.json:
            sys.stdout.write(text)
        sys.stdout.write(json_line(rows, context) + "\n")
    if not options.keep:
        state.drop()
    return 0


def _changed(setup: Setup, scratch: Path, options: argparse.Namespace) -> Setup:
    """The setup as the options want it."""
    given = {"blocks": options.blocks, "tokens": options.tokens}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(setup, scratch=scratch, **changes)


def _jobs(setup: Setup, only: Sequence[str] | None) -> list[Job]:
    return [Job(name, SECONDS.get(name, 30.0), partial(ROWS[name], setup)) for name in only or ROWS]


def _key(setup: Setup, only: Sequence[str] | None) -> str:
    """Of everything that the measures depend on."""
    what = {"bench": BENCH, "setup": asdict(replace(setup, scratch=Path())), "only": only}
    return key_of({**_fixed_context(), **what, "machine": platform.uname(), "code": code_hash(engine, tui)})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tui.bench", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=[*ROWS], metavar="NAME", help=f"only these measures: {', '.join(ROWS)}"
    )
    parser.add_argument("--blocks", type=int, metavar="N", help="speed: times A B B A (default: 3)")
    parser.add_argument("--tokens", type=int, metavar="N", help="speed: of one run (default: 400)")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table between the marks of this document too"
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    add_options(parser, BENCH)
    return parser


def _context(load: float) -> dict[str, Any]:
    """What the numbers depend on."""
    return _fixed_context() | {"load_average_before": load, "load_average_after": os.getloadavg()[0]}


def _fixed_context() -> dict[str, Any]:
    return {
        "versions": {
            "python": platform.python_version(),
            "textual": version("textual"),
            "torch": version("torch"),
        },
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "size": SIZE,
    }


def _preamble(context: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in context["versions"].items())
    columns, lines = context["size"]
    return (
        f"The app on a terminal of {columns} x {lines}; {context['cores']} cores, OMP threads "
        f"{context['threads']}; {versions}\n"
        f"load average {context['load_average_before']:.2f} before, {context['load_average_after']:.2f} after"
        f"; {context['seconds']:.0f} s\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
