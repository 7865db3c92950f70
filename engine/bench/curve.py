"""The cost of a token against the length of the context, as a table and as a picture for a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.bench.long_context import parts
from engine.bench.plot import Panel, Series, svg
from engine.bench.report import Row, fenced, table

NAME = "context"
"""Of its place in ``docs/measured.md``."""
PICTURE = "context.svg"
"""Its name, beside the document."""


def markdown(rows: Sequence[Row], document: Path, preamble: str) -> str:
    """Rows and tables of their points for a document, with the picture, which is written beside it."""
    curves = [row for row in rows if row.points]
    document.with_name(PICTURE).write_text(svg([panel for row in curves for panel in panels(row)]), "utf-8")
    judged = fenced(f"{preamble}{table(rows)}")
    picture = f"![Milliseconds of a plain step and of a round against tokens of context]({PICTURE})"
    return "\n\n".join([judged, *map(points_table, curves), picture])


def points_table(row: Row) -> str:
    """One line a context length; milliseconds."""
    wide = _wide(row)
    columns = {
        "plain step": "step",
        "its host": "step_host",
        "host with a penalty": "step_host_penalised",
        "attention alone": "attention_1",
        f"pass of {wide} rows": "round",
        "its host ": "round_host",
        "lookup": "lookup",
        "attention alone ": f"attention_{wide}",
        "prefill, a token": "prefill",
    }
    lines = [f"| context, {_dtype(row)} | {' | '.join(columns)} |", "|---:|" + "---:|" * len(columns)]
    for point in row.points:
        cells = " | ".join(f"{point[name]:.2f}" for name in columns.values())
        lines.append(f"| {point['context']:,.0f} | {cells} |")
    return "\n".join(lines)


def panels(row: Row) -> list[Panel]:
    """Plain step and round: the whole, attention alone, the host."""
    wide, dtype = _wide(row), _dtype(row)
    return [
        _panel(f"A plain step, {dtype}", row.points, "step", "attention_1"),
        _panel(f"A round of {wide} rows, {dtype}", row.points, "round", f"attention_{wide}"),
    ]


def _panel(title: str, points: Sequence[Mapping[str, float]], prefix: str, attention: str) -> Panel:
    def series(name: str, *summed: str) -> Series:
        return Series(name, [(point["context"], sum(point[part] for part in summed)) for point in points])

    return Panel(
        title,
        "tokens of context",
        "ms",
        [
            series("all of it", *parts(prefix)),
            series("attention alone", attention),
            series("host", f"{prefix}_host"),
        ],
    )


def _wide(row: Row) -> int:
    """Rows of the pass that verifies."""
    return max(
        int(name.removeprefix("attention_")) for name in row.points[0] if name.startswith("attention_")
    )


def _dtype(row: Row) -> str:
    return row.name.rpartition(", ")[2]
