"""What the bench prints: a table for people, then one JSON line for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.bench.timing import Estimate

MEASURED = "measured"
"""Name of the place in ``docs/measured.md`` for this bench's table."""
_HEADINGS = ("measure", "limit", "measured", "interval", "", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One measure and the limit it is held to."""

    name: str
    value: float | None
    """None where this machine cannot tell."""
    unit: str
    """"x", "MB" or "%"."""
    at_least: float | None = None
    at_most: float | None = None
    low: float | None = None
    """95 % interval, where there are several measurements."""
    high: float | None = None
    note: str = ""
    k: int | None = None
    """Draft tokens a round, where it is about rounds."""
    points: tuple[Mapping[str, float], ...] = ()
    """The measurements behind it, where it stands for a curve."""

    @property
    def status(self) -> str:
        """PASS or SHORT; REPORT for a measure without a limit or without a value."""
        if self.value is None or (self.at_least is None and self.at_most is None):
            return "REPORT"
        good = (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )
        return "PASS" if good else "SHORT"


def ratio_row(name: str, estimate: Estimate, at_least: float | None, note: str, k: int | None = None) -> Row:
    """A row for how many times as fast something is."""
    return Row(
        *(name, estimate.value, "x"),
        at_least=at_least,
        low=estimate.low,
        high=estimate.high,
        note=note,
        k=k,
    )


def table(rows: Sequence[Row]) -> str:
    """The rows in columns."""
    cells = [_HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def line(row: Row) -> str:
    """One row by itself."""
    return "  ".join(filter(None, _cells(row)))


def json_line(rows: Sequence[Row], context: Mapping[str, Any]) -> str:
    """Everything in one line of JSON."""
    told = [
        {name: round(entry, 4) if isinstance(entry, float) else entry for name, entry in asdict(row).items()}
        | {"status": row.status}
        for row in rows
    ]
    return json.dumps({**context, "rows": told}, allow_nan=False)


def written_into(document: str, block: str, name: str = MEASURED) -> str:
    """The document with the text between the two marks of a name replaced."""
    begin, end = (f"<!-- {name}: {which} -->" for which in ("begin", "end"))
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    assert rest and after, f"the document lacks the marks {begin} and {end}"
    return f"{before}{begin}\n{block.strip()}\n{end}{after}"


def fenced(text: str) -> str:
    """A table as it is printed, for a Markdown document."""
    return f"```\n{text.rstrip()}\n```"


def _cells(row: Row) -> tuple[str, ...]:
    limit = ""
    if row.at_least is not None:
        limit = f">= {_number(row.at_least, row.unit)}"
    elif row.at_most is not None:
        limit = f"<= {_number(row.at_most, row.unit)}"
    value = "not known" if row.value is None else _number(row.value, row.unit)
    interval = ""
    if row.low is not None and row.high is not None:
        interval = f"{_number(row.low, row.unit)} .. {_number(row.high, row.unit)}"
    return row.name, limit, value, interval, row.status, row.note


def _number(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "MB" else f"{value:.2f} {unit}"
