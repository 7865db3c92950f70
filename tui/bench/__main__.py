"""``python -m tui.bench``: how fast the app is here, on a terminal of its own, with the real model.

A table on stdout, then one JSON line, as ``python -m engine.bench`` prints them. The exit status says whether
it ran, not whether the limits were met.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine.bench.report import Row, fenced, json_line, line, table, written_into
from tui.bench.rows import ROWS, Setup
from tui.bench.terminal import SIZE


def main(argv: Sequence[str] | None = None, setup: Setup | None = None) -> int:
    """Measure and print. Returns the exit status."""
    options = _parser().parse_args(argv)
    began, load = time.monotonic(), os.getloadavg()[0]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        setup = replace(setup or Setup(Path(scratch)), scratch=Path(scratch))
        if options.blocks is not None:
            setup = replace(setup, blocks=options.blocks)
        if options.tokens is not None:
            setup = replace(setup, tokens=options.tokens)
        for name in options.only or ROWS:
            sys.stderr.write(f"[{time.monotonic() - began:4.0f} s] {name}\n")
            for row in ROWS[name](setup):
                rows.append(row)
                sys.stderr.write(f"         {line(row)}\n")
    context = _context(load) | {"seconds": round(time.monotonic() - began, 1)}
    text = _preamble(context) + table(rows) + "\n"
    if options.write:
        document = options.write.read_text("utf-8")
        options.write.write_text(written_into(document, fenced(text), "app"), encoding="utf-8")
    if not options.json:
        sys.stdout.write(text)
    sys.stdout.write(json_line(rows, context) + "\n")
    return 0


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
    return parser


def _context(load: float) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "versions": {
            "python": platform.python_version(),
            "textual": version("textual"),
            "torch": version("torch"),
        },
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "size": SIZE,
        "load_average_before": load,
        "load_average_after": os.getloadavg()[0],
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
