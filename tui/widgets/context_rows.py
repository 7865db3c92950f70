"""A message as rows: its title, its thinking, its text, folded where they are long. No widgets."""

from __future__ import annotations

from dataclasses import dataclass

from engine.context import Message
from engine.thinking import split_thinking
from tui.glyphs import Glyphs
from tui.safe_text import visible
from tui.widgets.flow import FlowRow, Kind, TokenFlow
from tui.widgets.rows import Piece, Row, clip_row

FOLD_ROWS = 12
"""Rows of a message that is not unfolded."""
_MOST_SHOWN = 100_000
"""Characters shown of one message even when it is unfolded; the editor has them all."""
GUTTER = 2
"""Columns before the text, for the cursor."""


@dataclass(frozen=True, slots=True)
class Look:
    """How rows are to look."""

    width: int
    """Columns of a row, the gutter counted."""
    glyphs: Glyphs

    @property
    def text_width(self) -> int:
        return max(self.width - GUTTER, 1)

    @property
    def ascii_only(self) -> bool:
        return self.glyphs.ascii_only


def title_row(look: Look, number: str, role: str, details: str) -> Row:
    """The line over a message: its number, who says it, what is known of it."""
    shown = visible(role, "", ascii_only=look.ascii_only)
    pieces = (
        Piece(f"{number} ", "lines--dim"),
        Piece(shown, f"context--{role}"),
        Piece(f"  {details}" if details else "", "lines--dim"),
    )
    return Row(clip_row(pieces, look.text_width, look.glyphs.ellipsis))


def body_rows(look: Look, message: Message, *, unfolded: bool) -> list[Row]:
    """The text of a finished message."""
    thinking, text = split_thinking(message.content) if message.role == "assistant" else ("", message.content)
    rows = (
        thinking_rows(look, thinking, len(thinking.split()), "words", unfolded=unfolded) if thinking else []
    )
    if not text.strip():
        return [*rows, Row((Piece("(empty)", "lines--dim"),))] if not thinking else rows
    return rows + _text_rows(look, text, "", unfolded=unfolded)


def thinking_rows(look: Look, thinking: str, count: int, unit: str, *, unfolded: bool) -> list[Row]:
    """The thinking: one line, and its text if it is unfolded."""
    head = f"thinking, {count:,} {unit}"
    if not unfolded:
        return [fold_row(look, head)]
    return [
        fold_row(look, head, unfolded=True),
        *_text_rows(look, thinking, "context--thinking", unfolded=True),
    ]


def fold_row(look: Look, text: str, *, unfolded: bool = False) -> Row:
    """A line that stands for what is folded; enter or a click folds and unfolds."""
    glyph = look.glyphs.unfolded if unfolded else look.glyphs.folded
    return Row(clip_row((Piece(f"{glyph} {text}", "context--fold"),), look.text_width, look.glyphs.ellipsis))


def _text_rows(look: Look, text: str, style: str, *, unfolded: bool) -> list[Row]:
    limit = _MOST_SHOWN if unfolded else 2 * FOLD_ROWS * look.text_width
    flow = new_flow(look)
    flow.append([text[:limit].encode("utf-8", "surrogatepass")])
    flow.finish()
    rows = [text_row(row, style) for row in flow.rows]
    left = len(text) - limit
    if not unfolded and (len(rows) > FOLD_ROWS + 1 or left > 0):
        rows = rows[:FOLD_ROWS]
        shown = sum(len(run.source) for row in flow.rows[:FOLD_ROWS] for run in row.runs)
        rows.append(fold_row(look, f"{len(text) - shown:,} characters more"))
    elif left > 0:
        rows.append(Row((Piece(f"{left:,} characters more, in the editor", "lines--dim"),)))
    return rows


def new_flow(look: Look) -> TokenFlow:
    """An empty text of the pane's width."""
    return TokenFlow(look.text_width, ascii_only=look.ascii_only, newline="")


def text_row(row: FlowRow, style: str = "") -> Row:
    """A row of wrapped text; copying gives the text as it was."""
    pieces = []
    for run in row.runs:
        if run.kind == Kind.NEWLINE:
            continue
        source = run.source if run.kind in {Kind.CHIP, Kind.TAB} else None
        chip = "context--chip" if run.kind == Kind.CHIP else ""
        pieces.append(Piece(run.text, f"{style} {chip}".strip(), -1, source))
    return Row(tuple(pieces), row.soft)
