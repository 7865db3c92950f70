"""The answer, token by token, each marked by where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.events import Origin
from tui.glyphs import Glyphs
from tui.marks import Mark, mark_of_origin, marked
from tui.state import OutputToken, Phase, Trail, ViewState, visible_output
from tui.widgets.answer_rows import AnswerRows
from tui.widgets.flow import Kind, Run, TokenFlow
from tui.widgets.legend import legend_pieces
from tui.widgets.lines import RECORDED, LineView
from tui.widgets.messages import BranchRequested, TokenSelected
from tui.widgets.painted import BARE
from tui.widgets.rows import Piece, Row

_SPECULATIVE = (Mark.ACCEPTED, Mark.CORRECTION, Mark.BONUS)
_EMPTY = {
    Phase.EMPTY: "No model is loaded yet. Load models, or play a recording: the answer appears here.",
    Phase.LOADING: "The models are being loaded. The answer will appear here, token by token.",
    Phase.PLAIN_RUN: "Plain decoding writes the answer first, for the synthetic drafter to know it.",
    Phase.PREFILL: "The target reads the prompt. The answer will appear here, token by token.",
}
_MORE = 2048
"""Tokens that are laid out more when the view comes to those that are left out."""
_NEAR = 32
"""Tokens in which the beginning of a line is looked for."""
_NO_ANSWER = "No answer yet. Send a message, or start the run: the answer appears here, token by token."


class OutputPane(LineView):
    """The answer as wrapped tokens."""

    HELP: ClassVar[str] = (
        "The answer, token by token. A token's style says where it comes from: the last line explains the "
        "marks, m switches them off. Left and right go from token to token; enter shows the round a token "
        "comes from, b goes on from another token instead of it. t folds and unfolds what the model "
        "thinks before it answers. / searches."
    )
    DEFAULT_CSS = """
    OutputPane > .output--fold { color: $foreground 70%; text-style: italic; }
    OutputPane > .output--chip { text-style: reverse; }
    OutputPane > .output--blank { color: $foreground 45%; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"output--fold", "output--chip", "output--blank"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "token(-1)", "Token", id="output.left", tooltip="To the token before", show=False),
        Binding("right,l", "token(1)", "Token", id="output.right", tooltip="To the next token", show=False),
        Binding(
            "enter", "choose", "Inspect", id="output.choose", tooltip="Look into the token at the cursor"
        ),
        Binding(
            "b", "branch", "Branch", id="output.branch", tooltip="Go on from another token than this one"
        ),
        Binding("m", "marks", "Marks", id="output.marks", tooltip="Marks on or off"),
        Binding("t", "fold", "Thinking", id="output.fold", tooltip="Fold or unfold the thinking"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Output"
        self.marks = True
        self.cursor: int | None = None
        """Index of the token at the cursor."""
        self._state = ViewState()
        self._output: Trail[OutputToken] = Trail()
        self._thinking = 0  # leading tokens that are thinking
        self._finished = False
        self._undrafted = False  # whether a token comes from a round without drafts
        self._rows = AnswerRows(lambda first: TokenFlow(1, first=first))

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Show the answer of a state; only what is new is laid out."""
        before, self._state = self._state, state
        output, finished = visible_output(state), state.finished is not None
        thinking = min(state.thinking.count, len(output))
        if output is self._output and finished == self._finished and before.phase is state.phase:
            return
        goes_on = before.run == state.run and not self._finished and self._goes_on(output, thinking)
        known = len(self._output)
        self._output, self._thinking, self._finished = output, thinking, finished
        if not self.is_laid_out:
            return
        if not goes_on:
            known = self._left_out()
            self._rows = AnswerRows(self._flow, folded=self.folded, start=known)
            self.cursor = self.cursor if self.cursor is not None and self.cursor < len(output) else None
        self.rows_changed(self._add(known))
        if known < thinking:
            self.repaint_row(0)

    def select(self, index: int | None) -> None:
        """Put the cursor on a token; None: on none."""
        before, self.cursor = self.cursor, index
        if before == index:
            return
        for token in (before, index):
            if token is not None and token < len(self._output):
                for y in self._rows.rows_of(token):
                    self.repaint_row(y)
        if index is not None and index < len(self._output):
            self.show_row(self._rows.row_of(index))
        self.foot_changed()
        self.refresh_bindings()

    # -- laying out

    def _goes_on(self, output: Trail[OutputToken], thinking: int) -> bool:
        """Whether what is shown is the beginning of this output."""
        known = len(self._output)
        if len(output) < known or min(thinking, known) != self._thinking:
            return False
        return not known or output.holds(known - 1, self._output[-1])

    def _left_out(self) -> int:
        """Leading tokens that are not laid out at first: what a replay jumped over is in no memory, and a
        screen shows the end."""
        if not self._output.archived:
            return 0
        fold = self._state.fold
        length = max(fold.text / max(fold.tokens, 1), 1.0)  # of a token, in characters
        room = round(self.page * self.row_width / length) + self.page
        return self._line_from(max(len(self._output) - room, 0))

    def _line_from(self, start: int) -> int:
        """A token from ``start`` on that begins a line, if there is one near: there rows are broken as if all
        tokens had been laid out."""
        if not start:
            return 0
        near = self._output[start - 1 : min(start + _NEAR, len(self._output) - 1)]
        return next((start + at for at, token in enumerate(near) if token.piece.endswith(b"\n")), start)

    def _show_more(self) -> None:
        """Lay out some of the tokens that were left out; what is on screen stays where it is."""
        top, y = self._rows.start, self.scroll_offset.y
        start = self._line_from(top - _MORE) if top > _MORE + _NEAR else 0
        came = self._rows.prepend(self._output, start)
        if came is None:
            self._lay_out_from(start)
            self.scroll_to(y=self._rows.row_of(top), animate=False)
            return
        self.rows_changed(0)
        self.scroll_to(y=y + came, animate=False)

    def _flow(self, first: int) -> TokenFlow:
        return TokenFlow(self.row_width, first=first, ascii_only=self.ascii, newline=self.glyphs.newline)

    def _add(self, known: int) -> int:
        """Lay out the tokens from ``known`` on; the first row that changed."""
        new = self._output[known:]
        self._undrafted = (self._undrafted and known > 0) or any(
            self._mark(token) is Mark.PLAIN for token in new if token.origin is Origin.BONUS
        )
        first = self._rows.add(self._output, known, self._thinking)
        return min(first, self._rows.finish()) if self._finished else first

    def lay_out(self) -> None:
        top = None
        if not self.follows and self.row_total():
            top = self._rows.first_token(min(self.scroll_offset.y, self.row_total() - 1))
        start = self._rows.start if self._rows.laid_out else self._left_out()
        self._lay_out_from(min(start, len(self._output)))
        if top is not None:
            self.scroll_to(y=self._rows.row_of(top), animate=False)

    def _lay_out_from(self, start: int) -> None:
        self._rows = AnswerRows(self._flow, folded=self._rows.folded, start=start)
        self._add(start)
        self.rows_changed(0)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._rows.start and round(new_value) == 0 < round(old_value):
            self.call_after_refresh(self._show_more)

    # -- rows

    @property
    def laid_out(self) -> int:
        """Rows laid out so far, in all."""
        return self._rows.laid_out

    @property
    def folded(self) -> bool:
        """Whether the thinking is one line."""
        return self._rows.folded

    def row_total(self) -> int:
        return len(self._rows)

    def build_row(self, y: int) -> Row:
        row = self._rows[y]
        if row is None:
            return self._left_out_row() if self._rows.is_left_out(y) else self._fold_row()
        glyphs = self.glyphs
        return Row(tuple(piece for run in row.runs for piece in self._pieces(run, glyphs)), row.soft)

    def _pieces(self, run: Run, glyphs: Glyphs) -> Iterator[Piece]:
        text, kind = run.text, run.kind
        source = None if text == run.source or kind == Kind.CHIP else run.source
        names = [self._mark(self._output[run.token]).component] if self.marks else []
        if kind == Kind.NEWLINE:
            text, source = text if self.marks or run.token == self.cursor else "", ""
        elif self.marks and kind == Kind.BLANK:
            text, source = glyphs.blank * len(text), run.source
        elif self.marks and kind == Kind.TAB and not glyphs.ascii_only:
            text = glyphs.arrow + text[1:]
        if kind == Kind.CHIP:
            names.append("output--chip")
        elif kind:
            names = ["output--blank"]
        if run.token == self.cursor:
            names.append("lines--cursor")
        style = " ".join(names)
        word = text.lstrip(" ")
        if kind == Kind.TEXT and word != text:
            # No line under the blanks before a word: it would read as an underscore.
            yield Piece(text[: len(text) - len(word)], f"{style} {BARE}".strip(), run.token)
            text = word
        if text or source:
            yield Piece(text, style, run.token, source)

    def _mark(self, token: OutputToken) -> Mark:
        """The mark of a token; where its round drafted nothing it is no bonus to anything."""
        mark = mark_of_origin(token.origin)
        drafted = mark is not Mark.BONUS or token.round < 0 or self._state.rounds[token.round].drafts
        return mark if drafted else Mark.PLAIN

    def _left_out_row(self) -> Row:
        text = f"{self.glyphs.ellipsis} {self._rows.start:,} tokens before"
        return Row((Piece(text, "output--fold", -1, ""),))

    def _fold_row(self) -> Row:
        glyphs, thinking = self.glyphs, self._state.thinking
        sign = glyphs.folded if self.folded else glyphs.unfolded
        text = f"{sign} thinking: {self._thinking} token{'s' if self._thinking != 1 else ''}"
        accepted = thinking.measures.draft_efficiency
        if accepted is not None and self.row_width >= 50:
            text += f", {accepted:.0%} of the drafts accepted"
        if thinking.inside and not self._finished:
            text += glyphs.ellipsis
        return Row((Piece(text, "output--fold", 0, ""),))

    def empty_text(self) -> str:
        if self._state.replay:
            return RECORDED
        return _EMPTY.get(self._state.phase, _NO_ANSWER)

    def searched(self) -> str:
        left_out = self._rows.start
        return f" in the last {len(self._output) - left_out:,} tokens" if left_out else ""

    def legend(self) -> tuple[Piece, ...]:
        if self.cursor is not None and self.cursor < len(self._output):
            return self._cursor_legend(self.cursor)
        if not self._output:
            return ()
        if not self.marks:
            return (Piece("marks off (m)", "lines--dim"),)
        marks: tuple[Mark, ...] = _SPECULATIVE if self._state.mode == "speculative" else (Mark.PLAIN,)
        if self._undrafted and Mark.PLAIN not in marks:
            marks = (*marks, Mark.PLAIN)
        if self._state.given:
            marks = (*marks, Mark.GIVEN)
        return legend_pieces(self.glyphs, self.row_width, marks, signs=False)

    def _cursor_legend(self, index: int) -> tuple[Piece, ...]:
        token = self._output[index]
        shown = marked(token.piece, self._mark(token), self.glyphs)
        where = "" if token.round < 0 else f", round {self._state.rounds[token.round].number}"
        return (
            Piece(f"{index + 1}/{len(self._output)} "),
            Piece(shown.text, shown.component),
            Piece(f" {shown.mark}{where}, id {token.id}", "lines--dim"),
        )

    # -- keys and mouse

    def holds_still(self) -> bool:
        return self.cursor is not None

    def has_cursor(self) -> bool:
        return self.cursor is not None

    def drop_cursor(self) -> None:
        self.select(None)

    def to_end(self, *, last: bool) -> None:
        self.select(None)
        super().to_end(last=last)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "branch" and self._state.replay:
            return False  # the app's own key: a recording is forked
        if action in {"choose", "branch"}:
            return self.cursor is not None
        if action == "fold":
            return self._thinking > 0
        return super().check_action(action, parameters)

    def move(self, by: int) -> None:
        """The cursor goes up or down, to the token above or below; without one the view scrolls."""
        if self.cursor is None:
            super().move(by)
            return
        y = self._rows.row_of(self.cursor)
        column = 0
        for piece in self.build_row(y).pieces:
            if piece.key == self.cursor:
                break
            column += len(piece.text)
        target = min(max(y + by, 0), self.row_total() - 1)
        while 0 < target < self.row_total() - 1 and self._rows[target] is None:
            target += 1 if by > 0 else -1
        key = self.key_at(target, column)
        self.select(key if key >= 0 else min(self._rows.last_token(target), len(self._output) - 1))

    def action_token(self, by: int) -> None:
        if not self._output:
            return
        low = max(self._thinking if self.folded else 0, self._rows.start)
        last = len(self._output) - 1
        at = last if self.cursor is None else self.cursor + by
        self.select(min(max(at, low), last))

    def action_choose(self) -> None:
        if self.cursor is not None:
            self.post_message(TokenSelected(self.cursor))

    def action_branch(self) -> None:
        if self.cursor is not None:
            self.post_message(BranchRequested(self.cursor))

    def action_marks(self) -> None:
        self.marks = not self.marks
        self.repaint()

    def action_fold(self) -> None:
        self._rows.folded = not self.folded
        if self.folded and self.cursor is not None and self.cursor < self._thinking:
            self.select(None)
        self.rows_changed(0)

    def clicked(self, y: int, key: int, column: int) -> None:
        if self._rows.is_left_out(y):
            self._show_more()
        elif self._rows[y] is None:
            self.action_fold()
        elif key >= 0:
            self.select(key)
            self.post_message(TokenSelected(key))
