"""``python -m engine.bench``: speed and memory on this machine, against transformers and against the limits.

A table on stdout, then one JSON line. The exit status says whether it ran, not whether the limits were met.
What is finished is kept: a run that was stopped is gone on with by the same command.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import engine
from engine.bench import curve
from engine.bench.jobs import STOPPED, Job, add_options, run_jobs, state_path
from engine.bench.lab import DTYPES, Labs, Setup
from engine.bench.machine import machine_facts, machine_words
from engine.bench.report import fenced, json_line, table, written_into
from engine.bench.rows import ROWS
from engine.bench.state import Done, State, code_hash, key_of
from engine.models.optimize import Optimize
from engine.models.quiet import quiet

BENCH = "engine"


def main(argv: Sequence[str] | None = None, setup: Setup | None = None) -> int:
    """Measure and print. Returns the exit status."""
    options = _parser().parse_args(argv)
    setup = replace(setup or Setup(), repeats=options.repeats, optimize=options.optimize)
    quiet()
    context, load_before = _context(setup), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        jobs = _jobs(setup, Path(scratch), options.only)
        what = {
            **context,
            "bench": BENCH,
            "setup": asdict(setup),
            "code": code_hash(engine),
            "only": options.only,
        }
        state = State(state_path(options, BENCH), key_of(what), [job.name for job in jobs])
        if options.fresh:
            state.drop()
        try:
            done = run_jobs(jobs, state, sys.stderr.write)
        except KeyboardInterrupt:
            return STOPPED
    context["seconds"] = round(sum(each.seconds for each in done), 1)
    context |= {"load_average_before": load_before, "load_average_after": os.getloadavg()[0]}
    rows = [row for each in done for row in each.rows]
    if options.write:
        _write(options.write, context, done)
    if not options.no_table:
        if not options.json:
            sys.stdout.write(f"{_preamble(context)}{table(rows)}\n")
        sys.stdout.write(json_line(rows, context) + "\n")
    if not options.keep:
        state.drop()
    return 0


def _jobs(setup: Setup, scratch: Path, only: Sequence[str] | None) -> list[Job]:
    """The measures that are asked for, number format by number format."""
    labs = Labs(setup, scratch)

    def job(name: str, dtype: str) -> Job:
        return Job(f"{name}-{dtype}", ROWS[name].seconds, lambda: ROWS[name].rows(labs.of(dtype)))

    wanted = [job(name, dtype) for dtype in DTYPES for name in ROWS if dtype in ROWS[name].dtypes]
    return [each for each in wanted if not only or {each.name, each.name.rpartition("-")[0]} & set(only)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description=__doc__)
    names = [*ROWS, *(f"{name}-{dtype}" for name in ROWS for dtype in ROWS[name].dtypes)]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"only these measures: {', '.join(names)}"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=1,
        metavar="N",
        help="decode every prompt N times there and back (default: 1)",
    )
    parser.add_argument(
        "--optimize",
        choices=get_args(Optimize),
        default="auto",
        help="how our own passes run, as run.optimize (default: auto)",
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="put the table between the marks of this document too"
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    add_options(parser, BENCH)
    return parser


def _context(setup: Setup) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        **machine_facts(),
        "target": setup.target,
        "drafter_layers": list(setup.layers),
        "optimize": setup.optimize,
        "repeats": setup.repeats,
    }


def _write(document: Path, context: dict[str, Any], done: Sequence[Done]) -> None:
    """Put what was measured between the marks of a document; what was not measured stays as it is there."""
    text = document.read_text("utf-8")
    about_context = [row for each in done if any(row.points for row in each.rows) for row in each.rows]
    others = [row for each in done for row in each.rows if row not in about_context]
    if others:
        text = written_into(text, fenced(f"{_preamble(context)}{table(others)}"))
    if about_context:
        block = curve.markdown(about_context, document, _preamble(context))
        text = written_into(text, block, curve.NAME)
    document.write_text(text, encoding="utf-8")


def _preamble(context: dict[str, Any]) -> str:
    return (
        f"{machine_words(context)}\n"
        f"load average {context['load_average_before']:.2f} before, {context['load_average_after']:.2f} after"
        f"; {context['seconds']:.0f} s\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
