"""A report as data: JSON, and CSV with a line a round."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from engine.event_json import plain
from engine.events import Round
from tui.drafting import synthetic_of
from tui.export.report import Report
from tui.safe_text import visible_bytes
from tui.same_text import divergence_dict, divergence_of

REPORT_FORMAT = "naive-speculate-report"
REPORT_VERSION = 1
COLUMNS = (
    *("run", "round", "settings_id", "context_length", "k", "k_reason", "drafted", "accepted", "emitted"),
    *("target_origin", "cut", "taken_back", "draft_ms", "verify_ms", "host_ms", "drafts", "verdicts"),
    *("target", "text"),
)
"""Of the CSV. Times in milliseconds."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet would take for a formula."""


def as_json(report: Report) -> str:
    """One JSON document: the header, and for each run its measures, settings, text and rounds."""
    runs = [
        {
            "run": run.started.run,
            "mode": run.started.mode,
            "settings": plain(run.facts.settings) if run.facts.settings else None,
            "reason": run.facts.finished.reason.value if run.facts.finished else None,
            "measures": run.measures,
            "synthetic": synthetic_of(run.measures, run.facts.synthetic),
            "divergence": divergence_dict(divergence_of(run.facts.baseline)),
            "text": run.text,
            "notes": run.notes,
            "rounds": [plain(round_) for round_ in run.rounds],
        }
        for run in report.runs
    ]
    document = {
        "format": REPORT_FORMAT,
        "version": REPORT_VERSION,
        "incomplete": report.incomplete,
        "recording": dict(report.header),
        "runs": runs,
    }
    return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=1) + "\n"


def as_csv(report: Report) -> str:
    """A line a round, with a line of names first. No text is a formula to a spreadsheet, or hides any."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in report.runs:
        writer.writerows(_row(run.started.run, round_) for round_ in run.rounds)
    return out.getvalue()


def _row(run: int, round_: Round) -> list[Any]:
    drafts = " ".join(visible_bytes(draft.piece) for draft in round_.drafts)
    return [
        *(run, round_.number, round_.settings_id, round_.context_length, round_.k, _inert(round_.k_reason)),
        *(round_.drafted, round_.accepted, len(round_.tokens), round_.target.origin.value),
        *("" if round_.cut is None else round_.cut.value, round_.taken_back),
        *(round(ms, 3) for ms in (round_.draft_ms, round_.verify_ms, round_.host_ms)),
        _inert(drafts),
        " ".join(draft.verdict.value for draft in round_.drafts),
        _inert(visible_bytes(round_.target.piece)),
        _inert(visible_bytes(round_.text.encode("utf-8", "surrogatepass"))),
    ]


def _inert(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
