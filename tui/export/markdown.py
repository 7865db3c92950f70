"""A report as Markdown, for an issue or a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engine.events import Round, Verdict
from tui.export.report import Report, RunReport
from tui.round_text import ORIGIN_MARKS, VERDICT_MARKS
from tui.safe_text import visible, visible_bytes

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#@])")
_LEGEND = "Marks: accepted as it is, `x` rejected, `.` ignored, `>` correction, `+` bonus."


def as_markdown(report: Report) -> str:
    """The whole report. What comes from models and files can be neither markup nor HTML in it."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield from ("# A run of speculative decoding", "")
    if report.incomplete:
        yield from ("*The recording ends in the middle of something; this is what was read.*", "")
    if report.machine:
        yield from (*_table(("", ""), report.machine), "")
    for role, content in report.context:
        yield from (f"**{_text(role)}**", "", *_fenced(content), "")
    for run in report.runs:
        yield from _run(run)


def _run(run: RunReport) -> Iterator[str]:
    yield from (f"## Run {run.started.run}", "")
    yield from (*_table(("measure", "value"), run.summary), "")
    for note in run.notes:
        yield f"- {_text(note)}"
    if run.notes:
        yield ""
    yield from ("### Answer", "", *_fenced(run.text), "")
    if run.rounds:
        yield from ("### Rounds", "", _LEGEND, "")
        rows = (
            (_number(each), f"{each.n_accepted}/{len(each.drafts)}", f"{each.ms:.1f}", _tokens(each))
            for each in run.rounds
        )
        yield from (*_table(("round", "accepted", "ms", "tokens"), rows, escaped=True), "")


def _number(round_: Round) -> str:
    return f"{round_.number} ({round_.source})" if round_.source else str(round_.number)


def _tokens(round_: Round) -> str:
    drafts = [_code(VERDICT_MARKS[draft.verdict], draft.piece) for draft in round_.drafts]
    struck = [
        f"~~{cell}~~" if draft.verdict is Verdict.REJECTED else cell
        for draft, cell in zip(round_.drafts, drafts, strict=True)
    ]
    target = round_.target
    return " ".join([*struck, f"**{_code(ORIGIN_MARKS[target.origin], target.piece)}**"])


def _code(mark: str, piece: bytes) -> str:
    return _text(f"{mark}{visible_bytes(piece) or '(nothing)'}")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, escaped: bool = False) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        last = row[-1] if escaped else _text(row[-1])
        yield "| " + " | ".join([*map(_text, row[:-1]), last]) + " |"


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", visible(text, ""))


def _fenced(text: str) -> list[str]:
    """A code block that no text in it can end."""
    safe = visible(text)
    longest = max((len(run) for run in re.findall("`+", safe)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, safe, fence]
