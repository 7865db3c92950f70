"""The results of a bench as a Markdown document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.bench.trials.cells import Cell, Results
from engine.bench.trials.facts import fact_rows
from engine.bench.trials.tables import grid
from engine.bench.trials.words import sentences

_SIGNS = "\\`*_{}[]<>#|~!"


def markdown(results: Results, facts: Mapping[str, Any]) -> str:
    """Facts, table, sentences, and a table for each category."""
    parts = [
        "# Speculative against plain decoding",
        "\n".join(f"- {name}: {_escaped(value)}" for name, value in fact_rows(facts)),
        _table(results.cells),
        "\n".join(f"- {_escaped(sentence)}" for sentence in sentences(results)),
    ]
    for category in dict.fromkeys(cell.category for cell in results.by_category):
        cells = [cell for cell in results.by_category if cell.category == category]
        parts += [f"## {_escaped(category)}", _table(cells)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(cells: Sequence[Cell]) -> str:
    heading, *rows = grid(cells)
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in [heading, rule, *rows]).replace(
        "\\-", "-"
    )


def _escaped(text: str) -> str:
    """As text, on one line: no markup of its own, no HTML."""
    return "".join(f"\\{sign}" if sign in _SIGNS else sign for sign in " ".join(text.split()))
