"""Every name of a figure that is shown or written, gathered from the code that shows it.

A new place that shows names is one more line of ``SOURCES``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

from support.calibrated import calibrated
from support.doctor import FACTS
from support.panes import finished, fold, run, shown, started, with_rounds
from support.scripted import TARGET, make_round
from support.story import DRAFTER, baseline, settings
from support.story import finished as ended

from engine.bench.trials.cells import Cell, Choice
from engine.bench.trials.tables import COLUMNS as BENCH_COLUMNS
from engine.costs import Costs, DraftCost, RoundCost
from engine.doctor.expectation import Expectation
from engine.explained import explained
from engine.stats import Statistics
from tui.compare_text import LABELS
from tui.doctor_text import sections
from tui.explain_lines import explain_lines
from tui.export.tables import COLUMNS
from tui.glyphs import glyph_set
from tui.summary import GLOSSARY, RunFacts, json_line, summary_rows
from tui.tune_rows import heading
from tui.widgets.gauge import GaugePane
from tui.widgets.inspector import InspectorPane
from tui.widgets.rows import Row
from tui.widgets.why import WhyPane

COSTS = Costs(
    700,
    17.9,
    1.2,
    (RoundCost(1, 17.9, 1.4), RoundCost(9, 21.6, 1.6)),
    (DraftCost("", 1, 0.1),),
    900.0,
    12.0,
    15.0,
)
_LABELS = ("lines--dim", "lines--strong")
"""Styles of the gauge's labels and headings."""
_A_NAME = re.compile(r"[A-Za-z]")
_NO_FIGURES = ("program", "models on this machine", "what to change")
"""Sections of the doctor without names of figures."""
_LABELLED = re.compile(r"  (\S.*?)  ")
_BEFORE_A_NUMBER = re.compile(r"(?<![\w/])([A-Za-z/]+) +\d")
_COLUMN_HEADS = re.compile(r"\s{2,}")


def _summary() -> Iterator[str]:
    """Of a run with everything there is to tell, and of one without."""
    facts = RunFacts(TARGET, DRAFTER, settings(), None, ended(8), threads=2)
    statistics = Statistics()
    statistics.set_costs(COSTS)
    for number in range(1, 5):
        statistics.add(make_round(number, 3, number % 4))
    statistics.set_run(ended(statistics.tokens))
    facts.baseline = replace(baseline(statistics.tokens, 400.0), identical=True)
    statistics.set_baseline(facts.baseline)
    for each, measures in ((facts, statistics.as_dict()), (RunFacts(), Statistics().as_dict())):
        yield from (name for name, _ in summary_rows(each, measures))


def _gauge() -> list[str]:
    """Of the gauge in full and in its one line."""
    found: list[str] = []

    async def scenario() -> None:
        async with shown(GaugePane(), (140, 40)) as (pane, pilot, _):
            pane.show(finished(with_rounds(make_round(n, 3, n % 4) for n in range(1, 9))))
            await pilot.pause()
            whole = pane.make_rows()
            found.extend(_labels(whole))
            times = (row.text for row in whole if " ms" in row.text)
            found.extend(name for text in times for name in _BEFORE_A_NUMBER.findall(text))
            pane.compact = True
            found.extend(_labels(pane.make_rows()))

    run(scenario)
    return found


def _inspector() -> list[str]:
    """Of what stands before a number in the inspector."""
    found: list[str] = []

    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 40)) as (pane, pilot, _):
            round_ = make_round(1, 3, 1)
            drafts = tuple(replace(draft, h=0.5, q_top=()) for draft in round_.drafts)
            pane.show(with_rounds([replace(round_, drafts=drafts, p_top=())]))
            await pilot.pause()
            title, *rows = (row.text for row in pane.make_rows())
            numbers = [each.startswith("q ") for each in rows].index(True)  # below the sentence
            for text in (title, *rows[numbers:]):
                found.extend(_BEFORE_A_NUMBER.findall(text))

    run(scenario)
    return found


def _why_pane() -> list[str]:
    """Of the pane that explains a run that has ended."""
    found: list[str] = []

    async def scenario() -> None:
        async with shown(WhyPane(), (60, 60)) as (pane, pilot, _):
            rounds = [make_round(n, 3, n % 4) for n in range(1, 9)]
            state = finished(with_rounds(rounds, fold(started(), [calibrated(COSTS)])))
            pane.show(fold(state, [baseline(state.total.tokens, 400.0)]))
            await pilot.pause()
            heads = [row.pieces[0] for row in pane.make_rows() if row.pieces]
            found.extend(
                re.split("[:,;]", head.text)[0].strip()
                for head in heads
                if head.key == -1 and head.style in _LABELS and _A_NAME.match(head.text)
            )

    run(scenario)
    return found


def _labels(rows: Iterable[Row]) -> Iterator[str]:
    for piece in (piece for row in rows for piece in row.pieces if piece.style in _LABELS):
        for text in _COLUMN_HEADS.split(piece.text.strip()):
            name = text.partition(" (")[0].removesuffix(" --").strip()
            if _A_NAME.search(name) and not re.fullmatch(r"[\d.]+x", name):
                yield name


def _names_of(*classes: Any) -> Iterator[str]:
    for each in classes:
        yield from (field.name for field in fields(each))


def _explain() -> Iterator[str]:
    """Of an explained run of which everything is known."""
    rounds = [replace(make_round(number, 3, number % 4), k=3) for number in range(1, 9)]
    statistics = Statistics()
    statistics.set_costs(COSTS)
    for round_ in rounds:
        statistics.add(round_)
    statistics.set_run(ended(statistics.tokens, decode_ms=statistics.decode_ms))
    statistics.set_baseline(baseline(statistics.tokens, 400.0))
    told = explained(statistics, (1, 2, 3), rounds, "model", k=2)
    lines = explain_lines(told, 3, glyph_set(ascii_only=True), 80)
    sentence = len(lines) - lines[::-1].index("")  # the last part
    for line in filter(None, lines[:sentence]):
        if not line.startswith(" "):
            yield re.split("[:,;]", line)[0]
        elif (match := _LABELLED.match(line)) and _A_NAME.match(match[1]):
            yield match[1]


def _doctor() -> Iterator[str]:
    """Of what the doctor says of the machine, its speed and a pair."""
    for title, lines in sections(FACTS, (), "", 80, str):
        if title not in _NO_FIGURES:
            yield from (match[1] for line in lines if (match := _LABELLED.match(line)))


SOURCES: dict[str, Callable[[], Iterable[str]]] = {
    "measures of --json and recordings": lambda: Statistics().as_dict(),
    "the line of --json": lambda: json.loads(json_line(RunFacts(), Statistics().as_dict())),
    "the glossary": lambda: GLOSSARY,
    "the pane Why": _why_pane,
    "the summary": _summary,
    "the gauge": _gauge,
    "the inspector": _inspector,
    "a comparison": lambda: (*LABELS.values(), "drafts", "difference is"),
    "columns of a CSV": lambda: COLUMNS,
    "costs in a recording": lambda: _names_of(Costs, RoundCost, DraftCost),
    "costs in --json": COSTS.as_dict,
    "the table of spec bench": lambda: (column.heading for column in BENCH_COLUMNS),
    "the bench's --json": lambda: _names_of(Cell, Choice),
    "a tuned context": lambda: _COLUMN_HEADS.split(heading(80)),
    "spec explain": _explain,
    "the doctor": _doctor,
    "the doctor's --json": lambda: _names_of(Expectation),
}
"""What shows names, and the names."""
