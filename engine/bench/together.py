"""``python -m engine.bench.together FILE``: one table of all that several benches kept in a file.

``make bench`` runs the benches of the engine and of the app with ``--keep --no-table``, then this, which
removes the file. A table on stdout, then one JSON line. The exit status says whether there was anything.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.bench.machine import machine_facts, machine_words
from engine.bench.report import Row, json_line, table
from engine.bench.state import Done, read_all


def main(argv: Sequence[str] | None = None) -> int:
    """Print, and remove the file. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine.bench.together", description=__doc__)
    parser.add_argument("state", type=Path, metavar="FILE", help="where the benches kept what they measured")
    parser.add_argument("--keep", action="store_true", help="leave the file there")
    options = parser.parse_args(argv)
    done = read_all(options.state)
    if not done:
        sys.stderr.write(f"{options.state}: nothing is measured\n")
        return 1
    rows = [row for each in done for row in each.rows]
    facts = machine_facts() | {
        "load_average_after": os.getloadavg()[0],
        "first_ended": min(each.ended for each in done),
        "last_ended": max(each.ended for each in done),
        "seconds": round(sum(each.seconds for each in done), 1),
    }
    sys.stdout.write(f"{machine_words(facts)}\n{_when(done)}\n\n{table(rows)}\n\n{_verdict(rows)}\n")
    sys.stdout.write(json_line(rows, facts) + "\n")
    if not options.keep:
        options.state.unlink()
    return 0


def _when(done: Sequence[Done]) -> str:
    first, last = min(each.ended for each in done), max(each.ended for each in done)
    seconds = sum(each.seconds for each in done)
    return f"measured until {last}, the first of it by {first}; {seconds:.0f} s"


def _verdict(rows: Sequence[Row]) -> str:
    """How many limits are met, and which are not."""
    short = [row.name for row in rows if row.status == "SHORT"]
    passed = sum(row.status == "PASS" for row in rows)
    return f"{passed} PASS, {len(short)} SHORT" + (f": {'; '.join(short)}" if short else "")


if __name__ == "__main__":
    sys.exit(main())
