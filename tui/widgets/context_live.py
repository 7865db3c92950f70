"""The answer that is being written, as rows that grow at their end. Knows nothing of Textual."""

from __future__ import annotations

from engine.thinking import split_thinking
from tui.glyphs import UNICODE
from tui.state import Phase, Trail, ViewState, visible_text
from tui.widgets.context_rows import Look, new_flow, text_row, thinking_rows, title_row
from tui.widgets.rows import Piece, Row, clip_row

_ROWS_AT_FIRST = 40
"""Rows, about, that are laid out of an answer whose beginning is in no memory."""


class LiveAnswer:
    """A title, the thinking in one line, and the text as far as it may be shown."""

    def __init__(self) -> None:
        self._head: list[Row] = []
        self._flow = new_flow(Look(1, UNICODE))
        self._chunks: Trail[str] = Trail()  # of the text, as far as it is laid out
        self._left_out = 0  # leading chunks that are not

    def restart(self, look: Look) -> None:
        """Lay out from the beginning: another run, another width."""
        self._head, self._flow, self._chunks, self._left_out = [], new_flow(look), Trail(), 0

    def __len__(self) -> int:
        return len(self._head) + len(self._flow.rows)

    def row(self, y: int) -> Row:
        """One of the rows."""
        head = len(self._head)
        return self._head[y] if y < head else text_row(self._flow.rows[y - head])

    def update(self, state: ViewState, look: Look, number: str) -> tuple[int, int | None]:
        """Follow a state; only new text is laid out.

        Returns:
            How many title rows look different, and the first row from which on all are new (None: none).
        """
        chunks, thinking = visible_text(state), state.thinking
        known = len(self._chunks)
        goes_on = len(chunks) >= known and (not known or chunks.holds(known - 1, self._chunks[-1]))
        if not goes_on or not known:
            self._left_out = max(len(chunks) - _at_first(state, look), 0) if chunks.archived else 0
        head = self._titles(state, look, number)
        if self._left_out and not self._hides_thinking_only(state):
            text = f"{look.glyphs.ellipsis} {self._left_out:,} rounds before"
            head.append(Row(clip_row((Piece(text, "lines--dim"),), look.text_width, look.glyphs.ellipsis)))
        if not goes_on or len(head) != len(self._head):
            self._flow, known = new_flow(look), 0
        known = max(known, self._left_out)
        differs = 0 if head == self._head else len(head)
        all_new = len(head) != len(self._head) or not goes_on
        self._head = head
        new = chunks[known:]
        if thinking.count and thinking.inside:
            new, chunks = [], Trail()
        elif thinking.count and known == self._left_out and self._ends_thinking(state):
            new = [split_thinking("".join(new), opened=True)[1]]
        self._chunks = chunks
        changed = self._flow.append(part.encode("utf-8", "surrogatepass") for part in new) if new else None
        if all_new:
            return differs, 0
        return differs, None if changed is None else len(head) + changed

    def _hides_thinking_only(self, state: ViewState) -> bool:
        return state.thinking.inside or (state.thinking.count > 0 and self._ends_thinking(state))

    def _ends_thinking(self, state: ViewState) -> bool:
        """Whether the thinking ends in the text that is laid out."""
        if not self._left_out:
            return True
        last = state.output[min(state.thinking.count, len(state.output)) - 1]
        return last.round + bool(state.given) >= self._left_out

    @staticmethod
    def _titles(state: ViewState, look: Look, number: str) -> list[Row]:
        written = len(state.output)
        count = f"{written:,} token{'s' * (written != 1)}"
        if state.phase is Phase.PREFILL:
            count = "the prompt is read"
        elif state.finished is None:
            count += ", being written"
        rows = [title_row(look, number, "assistant", count)]
        if state.thinking.count:
            rows += thinking_rows(look, "", state.thinking.count, "tokens", unfolded=False)
        return rows


def _at_first(state: ViewState, look: Look) -> int:
    """Chunks of text that fill the rows at first."""
    length = max(state.fold.text / max(state.fold.steps, 1), 1.0)  # of a chunk, in characters
    return round(_ROWS_AT_FIRST * look.text_width / length) + 1


def is_live(state: ViewState, live_at: int | None) -> bool:
    """Whether the answer stands for itself, and not as a message of the conversation.

    Args:
        live_at: how many messages the run answers; None once what it wrote is one of them. A recording's
            answer never is.
    """
    if not state.run or state.phase in {Phase.EMPTY, Phase.LOADING}:
        return False
    writing = state.running and state.finished is None
    if state.replay:
        return writing or bool(state.text)
    return writing and live_at is not None
