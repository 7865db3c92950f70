"""A round in words, for --verbose: every drafted piece with its verdict."""

from __future__ import annotations

import textwrap

from engine.events import Origin, Round, Verdict
from tui.safe_text import visible, visible_bytes
from tui.terminal import Output, cell_width, clipped

ORIGIN_STYLES: dict[Origin, str] = {
    Origin.ACCEPTED: "32",
    Origin.CORRECTION: "1;4",
    Origin.BONUS: "1",
    Origin.PLAIN: "",
}
"""SGR parameters of the text, by origin."""
VERDICT_STYLES: dict[Verdict, str] = {
    Verdict.ACCEPTED: "32",
    Verdict.REJECTED: "9;31",
    Verdict.IGNORED: "2",
}
VERDICT_MARKS: dict[Verdict, str] = {Verdict.ACCEPTED: "", Verdict.REJECTED: "x ", Verdict.IGNORED: ". "}
ORIGIN_MARKS: dict[Origin, str] = {Origin.CORRECTION: "> ", Origin.BONUS: "+ "}

LEGEND = "marks: accepted   x rejected   . ignored   > correction   + bonus"
_INDENT = "  "
_WIDEST = 30
"""Columns of one piece; longer ones are cut."""


def round_lines(round_: Round, output: Output) -> list[str]:
    """The lines of one round, each at most ``output.width`` columns wide."""
    head = textwrap.wrap(visible(_head(round_), ""), output.width, subsequent_indent="    ")
    return [*head, *_wrapped(_cells(round_, output), output.width)]


def _head(round_: Round) -> str:
    judged = f"{round_.n_accepted}/{len(round_.drafts)} accepted" if round_.drafts else "no draft"
    parts = f"draft {round_.draft_ms:.1f} + verify {round_.verify_ms:.1f} + host {round_.host_ms:.1f} ms"
    source = f" ({round_.source})" if round_.source else ""
    head = f"round {round_.number}{source}: {judged}, {parts}"
    if round_.k_reason != "fixed":
        head += f", K {round_.k} ({round_.k_reason})"
    if round_.cut is not None:
        head += f", ends: {round_.cut}"
    if round_.was_cut:
        head += f", {len(round_.tokens)} kept"
    return head


def _cells(round_: Round, output: Output) -> list[tuple[str, int]]:
    """Each token as styled text and its width in columns."""
    cells = [
        _cell(VERDICT_MARKS[draft.verdict], draft.piece, VERDICT_STYLES[draft.verdict], output)
        for draft in round_.drafts
    ]
    target = round_.target
    cells.append(_cell(ORIGIN_MARKS[target.origin], target.piece, ORIGIN_STYLES[target.origin], output))
    return cells


def _cell(mark: str, piece: bytes, style: str, output: Output) -> tuple[str, int]:
    shown = visible_bytes(piece, ascii_only=output.ascii_only) or "(nothing)"
    shown = clipped(shown, _WIDEST)
    return mark + output.styled(shown, style), len(mark) + cell_width(shown)


def _wrapped(cells: list[tuple[str, int]], width: int) -> list[str]:
    lines: list[str] = []
    used = width
    for text, cells_wide in cells:
        if used + 2 + cells_wide > width:
            lines.append(_INDENT + text)
            used = len(_INDENT) + cells_wide
        else:
            lines[-1] += "  " + text
            used += 2 + cells_wide
    return lines
