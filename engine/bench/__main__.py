"""``python -m engine.bench``: speed and memory on this machine, against transformers and against the limits.

A table on stdout, then one JSON line. The exit status says whether it ran, not whether the limits were met.
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
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.bench import peers
from engine.bench.report import Row, fenced, json_line, line, table, written_into
from engine.bench.rows import ROWS, Lab, Setup
from engine.models.devices import fast_bfloat16
from engine.models.quiet import quiet

DTYPES = ("float32", "bfloat16")


def main(argv: Sequence[str] | None = None, setup: Setup | None = None) -> int:
    """Measure and print. Returns the exit status."""
    options = _parser().parse_args(argv)
    setup = replace(setup or Setup(), repeats=options.repeats)
    quiet()
    wanted = [
        (name, dtype)
        for dtype in DTYPES
        for name in ROWS
        if not options.only or {name, f"{name}-{dtype}"} & set(options.only)
    ]
    rows: list[Row] = []
    context = _context(setup)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for dtype in DTYPES:
            lab = Lab(setup, dtype, Path(scratch))
            for name in (name for name, its_dtype in wanted if its_dtype == dtype):
                sys.stderr.write(f"[{time.monotonic() - start:4.0f} s] {name}, {dtype}\n")
                for row in ROWS[name](lab):
                    rows.append(row)
                    sys.stderr.write(f"         {line(row)}\n")  # a run that is ended keeps what it measured
            context["k"] |= {f"{name}-{dtype}": k for name, k in lab.chosen.items()}
    context["seconds"] = round(time.monotonic() - start, 1)
    context["load_average_after"] = os.getloadavg()[0]
    text = _preamble(context) + table(rows) + "\n"
    if options.write:
        options.write.write_text(
            written_into(options.write.read_text("utf-8"), fenced(text)), encoding="utf-8"
        )
    if not options.json:
        sys.stdout.write(text)
    sys.stdout.write(json_line(rows, context) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.bench", description=__doc__)
    names = [*ROWS, *(f"{name}-{dtype}" for name in ROWS for dtype in DTYPES)]
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
        "--write", type=Path, metavar="FILE", help="put the table between the marks of this document too"
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    return parser


def _context(setup: Setup) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": peers.VERSION,
        },
        "processor": _processor(),
        "fast_bfloat16": fast_bfloat16(),
        "cores": psutil.cpu_count(logical=False),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "threads": torch.get_num_threads(),
        "load_average_before": os.getloadavg()[0],
        "target": setup.target,
        "drafter_layers": list(setup.layers),
        "repeats": setup.repeats,
        "k": {},
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text("utf-8").splitlines() if information.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _preamble(context: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in context["versions"].items())
    return (
        f"{context['processor']}, {context['threads']} threads, {context['memory_gb']} GB; {versions}\n"
        f"load average {context['load_average_before']:.2f} before, {context['load_average_after']:.2f} after"
        f"; {context['seconds']:.0f} s\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
