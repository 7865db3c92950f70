"""The results of a bench as one HTML file: no script, nothing fetched, light or dark as the system is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from engine.bench.bars import Bars, bars_svg
from engine.bench.plot import Panel, Series, svg
from engine.bench.trials.cells import Cell, Results
from engine.bench.trials.facts import fact_rows
from engine.bench.trials.labels import labels_of
from engine.bench.trials.tables import grid
from engine.bench.trials.words import sentences

_TITLE = "Speculative against plain decoding"
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #222; --line: #ddd; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181c; --ink: #e6e6e6; --line: #3a3f47; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.loses td { font-style: italic; }
dl { display: grid; gap: .1rem 1rem; grid-template-columns: max-content 1fr; }
dd { margin: 0; overflow-wrap: anywhere; }
svg { height: auto; max-width: 100%; }
svg, svg[fill="#222"] { fill: var(--ink); }
svg [fill="#fff"] { fill: var(--paper); }
svg [stroke="#ddd"] { stroke: var(--line); }
@media (prefers-color-scheme: dark) {
  svg [stroke="#1f5fa8"] { stroke: #6aa9f0; } svg [fill="#1f5fa8"] { fill: #6aa9f0; }
  svg [stroke="#c2571a"] { stroke: #f0955a; } svg [fill="#c2571a"] { fill: #f0955a; }
  svg [stroke="#3c7d3c"] { stroke: #7cc07c; } svg [fill="#3c7d3c"] { fill: #7cc07c; }
  svg [stroke="#7a4b9a"] { stroke: #bd8fdc; } svg [fill="#7a4b9a"] { fill: #bd8fdc; }
}
"""
_MOST_BARS = 4
"""Arms of the chart by category: as many as there are colours."""


def html_page(results: Results, facts: Mapping[str, Any]) -> str:
    """The whole page."""
    facts_list = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in fact_rows(facts))
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(results))
    body = "\n".join(
        [
            f"<h1>{_TITLE}</h1>",
            _table(results.cells),
            f"<ul>{said}</ul>" if said else "",
            *(f"<figure>{picture}</figure>" for picture in _pictures(results)),
            *_categories(results),
            f"<h2>Measured with</h2>\n<dl>{facts_list}</dl>",
        ]
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_TITLE}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _table(cells: Sequence[Cell]) -> str:
    heading, *rows = grid(cells)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heading)
    lines = []
    for cell, row in zip(cells, rows, strict=True):
        loses = ' class="loses"' if cell.loses else ""
        lines.append(f"<tr{loses}>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>")
    body = "\n".join(lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _categories(results: Results) -> Iterator[str]:
    for category in dict.fromkeys(cell.category for cell in results.by_category):
        cells = [cell for cell in results.by_category if cell.category == category]
        yield f"<h2>{escape(category)}</h2>\n{_table(cells)}"


def _pictures(results: Results) -> Iterator[str]:
    groups: dict[tuple[str, str, float | None], list[Cell]] = {}
    for cell in results.cells:
        if cell.kind == "speculative" and cell.speedup is not None:
            groups.setdefault((cell.configuration, cell.rule, cell.temperature), []).append(cell)
    panels = [_by_k(key, cells) for key, cells in groups.items()]
    if panels:
        yield svg(panels)
    if results.by_category:
        yield bars_svg(_by_category(results))


def _by_k(key: tuple[str, str, float | None], cells: Sequence[Cell]) -> Panel:
    """Speedup against K; K = 0 is plain decoding."""
    configuration, rule, temperature = key
    points = [(float(cell.k), _speedup(cell)) for cell in cells if isinstance(cell.k, int)]
    most = max([k for k, _ in points], default=1.0)
    series = [Series("fixed K", [(0.0, 1.0), *sorted(points)]), Series("plain", [(0.0, 1.0), (most, 1.0)])]
    adaptive = [_speedup(cell) for cell in cells if cell.k == "auto"]
    series += [Series("auto", [(0.0, speedup), (most, speedup)]) for speedup in adaptive]
    law = "" if temperature is None else f", T = {temperature:g}"
    return Panel(f"{configuration}, {rule}{law}", "K", "speedup", series)


def _by_category(results: Results) -> Bars:
    """The fastest arms, and "auto", in each category."""
    ours = [cell for cell in results.cells if cell.kind == "speculative" and cell.speedup is not None]
    chosen = sorted(ours, key=lambda cell: (cell.k != "auto", -_speedup(cell)))[:_MOST_BARS]
    labels = labels_of(results.cells)
    by_place = {(cell.category, cell.arm): cell for cell in results.by_category}
    groups = [
        (category, [_speedup_or_none(by_place[category, cell.arm]) for cell in chosen])
        for category in dict.fromkeys(cell.category for cell in results.by_category)
    ]
    return Bars("Speedup by category", "speedup", [labels[cell.arm] for cell in chosen], groups, line=1.0)


def _speedup(cell: Cell) -> float:
    assert cell.speedup is not None, "it was measured"
    return cell.speedup.value


def _speedup_or_none(cell: Cell) -> float | None:
    return None if cell.speedup is None else cell.speedup.value
