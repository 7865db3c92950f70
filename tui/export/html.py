"""A report as one HTML file: no script, nothing loaded, readable without colour."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engine.events import DraftToken, Origin, Round, TargetToken
from tui.drafting import SYNTHETIC
from tui.export.report import Report, RunReport
from tui.round_text import ORIGIN_MARKS, VERDICT_MARKS
from tui.safe_text import visible, visible_bytes

_TEMPLATE = Path(__file__).with_name("report.html.jinja")
_ORIGIN_CLASSES = {origin: origin.value for origin in Origin}


def as_html(report: Report) -> str:
    """The whole page."""
    return "".join(html_parts(report))


def html_parts(report: Report) -> Iterator[str]:
    """The page bit by bit: a long recording need not be held twice."""
    yield from _template().generate(report=report, runs=[_run(run) for run in report.runs])


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    return environment.from_string(_TEMPLATE.read_text("utf-8"))


def _run(run: RunReport) -> dict[str, Any]:
    return {
        "number": run.started.run,
        "title": "Plain decoding" if run.started.mode == "plain" else "Speculative decoding",
        "summary": run.summary,
        "notes": run.notes,
        "answer": [(text, _ORIGIN_CLASSES[origin] if origin else "unknown") for text, origin in run.answer],
        "rounds": (_round(round_) for round_ in run.rounds),
        "has_rounds": bool(run.rounds),
        "speedup": run.statistics.speedup,
        "label": f" {SYNTHETIC}" if run.facts.synthetic else "",
    }


def _round(round_: Round) -> dict[str, Any]:
    return {
        "number": f"{round_.number} ({round_.source})" if round_.source else str(round_.number),
        "count": f"{round_.n_accepted}/{len(round_.drafts)}",
        "ms": f"{round_.ms:.1f}",
        "cut": round_.cut.value if round_.cut else "",
        "tokens": [*map(_draft, round_.drafts), _target(round_.target)],
    }


def _draft(draft: DraftToken) -> dict[str, str]:
    drawn = "" if draft.u is None else f", u {draft.u:.4f}"
    drawn += "" if draft.h is None else f", h {draft.h:.4f}"
    return {
        "kind": draft.verdict.value,
        "mark": VERDICT_MARKS[draft.verdict].strip(),
        "piece": visible_bytes(draft.piece) or "(nothing)",
        "told": f"{draft.verdict.value}: id {draft.id}, q {draft.q:.4f}, p {draft.p:.4f}{drawn}",
    }


def _target(target: TargetToken) -> dict[str, str]:
    known = "" if target.q is None else f", q {target.q:.4f}"
    return {
        "kind": target.origin.value,
        "mark": ORIGIN_MARKS.get(target.origin, "").strip(),
        "piece": visible_bytes(target.piece) or "(nothing)",
        "told": f"{target.origin.value}: id {target.id}, p {target.p:.4f}{known}",
    }
