"""The cells of a bench as a table for people, as wide as there is room for; torch-free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.bench.trials.bootstrap import Interval
from engine.bench.trials.cells import Cell, Results
from engine.bench.trials.labels import labels_of

_SHORTEST_LABEL = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One measure of the table."""

    heading: str
    value: Callable[[Cell], str]
    rank: int
    """The columns of the highest ranks are left out first where there is no room."""


def times(speedup: float | None) -> str:
    """ "1.25x" """
    return "-" if speedup is None else f"{speedup:.2f}x"


def interval_words(interval: Interval | None) -> str:
    """ "1.10 .. 1.40" """
    if interval is None or interval.low is None or interval.high is None:
        return "-"
    return f"{interval.low:.2f} .. {interval.high:.2f}"


def percent(rate: float | None) -> str:
    """A fraction as a share of 100."""
    return "-" if rate is None else f"{100 * rate:.1f}%"


def number(value: float | None, digits: int = 2) -> str:
    """A measure, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


COLUMNS = (
    Column("speedup", lambda cell: times(cell.speedup.value if cell.speedup else None), 0),
    Column("95 %", lambda cell: "-" if cell.kind == "plain" else interval_words(cell.speedup), 1),
    Column("tau", lambda cell: number(cell.tau), 3),
    Column("alpha-hat", lambda cell: percent(cell.alpha_hat), 7),
    Column("draft efficiency", lambda cell: percent(cell.draft_efficiency), 10),
    Column("tokens/s", lambda cell: number(cell.tokens_per_second, 1), 2),
    Column("predicted", lambda cell: times(cell.predicted_speedup), 4),
    Column("error", lambda cell: percent(cell.prediction_error), 5),
    Column("best K", lambda cell: "-" if cell.best_k is None else str(cell.best_k), 8),
    Column("same text", lambda cell: percent(cell.identical), 6),
    Column("TTFT ms", lambda cell: number(cell.ttft_ms, 0), 9),
)


def grid(cells: Sequence[Cell], columns: Sequence[Column] = COLUMNS) -> list[list[str]]:
    """Headings and rows; the first column names the arm."""
    labels = labels_of(cells)
    rows = [[labels[cell.arm], *(column.value(cell) for column in columns)] for cell in cells]
    return [["", *(column.heading for column in columns)], *rows]


def table_lines(cells: Sequence[Cell], width: int) -> list[str]:
    """The table, no line wider than ``width``; what has no room is left out, the least needed first."""
    columns = list(COLUMNS)
    while len(columns) > 1 and _least_width(grid(cells, columns)) > width:
        columns.remove(max(columns, key=lambda column: column.rank))
    rows = grid(cells, columns)
    widths = _widths(rows)
    first = max(1, min(widths[0], width - sum(widths[1:]) - 2 * len(columns)))
    return [
        "  ".join(
            [_cut(row[0], first), *(cell.rjust(wide) for cell, wide in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    ]


def category_lines(results: Results, width: int) -> list[str]:
    """Speedups by category, an arm a column; in several blocks where they have no room beside each other."""
    labels = labels_of(results.cells)
    arms = [cell.arm for cell in results.cells if cell.kind != "plain"]
    categories = list(dict.fromkeys(cell.category for cell in results.by_category))
    if not categories:
        return []
    speedups = {
        (cell.category, cell.arm): times(cell.speedup.value if cell.speedup else None)
        for cell in results.by_category
    }
    first = min(max(map(len, ["speedup", *categories])), width // 2)
    blocks: list[list[str]] = [[]]
    for arm in arms:
        used = first + sum(2 + max(len(labels[other]), _NARROWEST) for other in [*blocks[-1], arm])
        if used > width and blocks[-1]:
            blocks.append([])
        blocks[-1].append(arm)
    lines = []
    for block in blocks:
        wide = [min(max(len(labels[arm]), _NARROWEST), width - first - 2) for arm in block]
        heads = [_cut(labels[arm], size).rjust(size) for arm, size in zip(block, wide, strict=True)]
        lines += ["", "  ".join(["speedup"[:first].ljust(first), *heads]).rstrip()]
        for category in categories:
            values = [speedups[category, arm].rjust(size) for arm, size in zip(block, wide, strict=True)]
            lines.append("  ".join([_cut(category, first), *values]).rstrip())
    return lines


_NARROWEST = 6
"""Columns of a speedup: "12.34x"."""


def _least_width(rows: Sequence[Sequence[str]]) -> int:
    """With labels cut as short as they may be."""
    label, *others = _widths(rows)
    return min(label, max(_SHORTEST_LABEL, label * 2 // 3)) + sum(others) + 2 * len(others)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _cut(label: str, width: int) -> str:
    return label.ljust(width) if len(label) <= width else label[: max(0, width - 3)] + "..."[: min(3, width)]
