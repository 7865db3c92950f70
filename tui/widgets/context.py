"""The conversation: its messages, the answer being written at their end, and how full the context is."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from engine.context import ROLES, Message
from tui.conversation import Conversation
from tui.prompt_spans import message_spans
from tui.state import Phase, ViewState
from tui.widgets import context_messages as ask
from tui.widgets.context_choice import moved_selection
from tui.widgets.context_live import LiveAnswer, is_live
from tui.widgets.context_meter import meter
from tui.widgets.context_rows import Look, body_rows, title_row
from tui.widgets.lines import LineView
from tui.widgets.rows import Piece, Row

_BUSY = {Phase.PREFILL, Phase.RUNNING, Phase.PAUSED, Phase.BASELINE}


def _key(keys: str, action: str, label: str, tooltip: str, *, show: bool = False) -> Binding:
    name = action.partition("(")[2].strip("')") or action
    return Binding(keys, action, label, id=f"context.{name}", tooltip=tooltip, show=show)


class ContextPane(LineView):
    """The messages. It changes none: it posts what is wanted (``tui.widgets.context_messages``)."""

    HELP: ClassVar[str] = (
        "The conversation that the model answers. Up and down choose a message, enter folds and unfolds it. "
        "e edits it, a adds one after it, i inserts one before it, d deletes, y duplicates, J and K move it, "
        "o changes who says it. r writes the answer again from there, c lets the model write on. u undoes, U "
        "does again. s edits the system prompt, t asks the model to think first."
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"context--{role}" for role in ROLES),
        *("context--selected", "context--thinking", "context--fold", "context--chip"),
    }
    DEFAULT_CSS = """
    ContextPane > .context--system { color: $foreground 80%; text-style: bold italic; }
    ContextPane > .context--user { color: $primary; text-style: bold; }
    ContextPane > .context--assistant { color: $secondary; text-style: bold; }
    ContextPane > .context--tool { color: $foreground 80%; text-style: bold; }
    ContextPane > .context--selected { color: $primary; text-style: bold; }
    ContextPane > .context--thinking { color: $foreground 60%; text-style: italic; }
    ContextPane > .context--fold { color: $foreground 70%; text-style: italic; }
    ContextPane > .context--chip { color: $background; background: $foreground 70%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("enter", "fold", "Unfold", "Show all of the message, or only its start"),
        _key("e", "at('edit')", "Edit", "Edit the message", show=True),
        _key("a", "at('add')", "Add", "Write a message after this one", show=True),
        _key("i", "at('insert')", "Insert", "Write a message before this one"),
        _key("d,delete", "at('delete')", "Delete", "Delete the message", show=True),
        _key("y", "at('duplicate')", "Duplicate", "A copy of the message after it"),
        _key("K,shift+up", "at('up')", "Move up", "Move the message up"),
        _key("J,shift+down", "at('down')", "Move down", "Move the message down"),
        _key("o", "role", "Role", "Let another one have said it"),
        _key("r", "at('regenerate')", "Regenerate", "Write the answer again from here", show=True),
        _key("c", "at('continue')", "Continue", "Let the model write on at the end of the answer"),
        _key("u", "undo", "Undo", "Undo the last edit of the conversation", show=True),
        _key("U,ctrl+y", "redo", "Redo", "Do again what was undone"),
        _key("s", "system", "System prompt", "Edit the system prompt"),
        _key("t", "thinking", "Thinking", "Ask the model to think first, or not"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Context"
        self.selected = 0
        """Index of the chosen message."""
        self.conversation = Conversation()
        self._state = ViewState()
        self._unfolded: set[Message] = set()
        self._shown: tuple[Message, ...] = ()
        self._tokens: list[int | None] = []
        self._live_at: int | None = None
        self._bodies: dict[tuple[Message, bool], list[Row]] = {}
        self._rows: list[Row] = []  # of the finished messages
        self._starts: list[int] = []  # first row of each message
        self._live = LiveAnswer()
        self._is_live = False
        self._legend: tuple[Piece, ...] = ()

    # -- the app's side

    def show_conversation(self, conversation: Conversation, *, live_at: int | None = None) -> None:
        """Show these messages.

        Args:
            live_at: how many of them the run in progress answers; while it runs, its answer stands in the
                place of later ones. None where no run is in progress, or what it wrote is in them already.
        """
        before, self.conversation = self.conversation, conversation
        if before.messages == conversation.messages and live_at == self._live_at:
            return
        was_live, self._live_at = self._live_at is not None, live_at
        self.selected = moved_selection(before.messages, conversation.messages, self.selected)
        self._unfolded &= set(conversation.messages)
        self._count_tokens()
        self._lay_out_messages()
        self._show_live()
        if before.messages != conversation.messages and not was_live:
            self._show_selected()

    def show(self, state: ViewState) -> None:
        """Show a state: the live answer and the meter; only what is new is laid out."""
        before, self._state = self._state, state
        if before is state:
            return
        if before.prompt_pieces is not state.prompt_pieces:
            self._count_tokens()
            self._lay_out_messages()
        self._show_live()
        if (legend := self.legend()) != self._legend:
            self._legend = legend
            self.foot_changed()

    def select(self, index: int) -> None:
        """Choose a message."""
        index = max(0, min(index, len(self._shown) - 1))
        before, self.selected = self.selected, index
        for changed in {before, index}:
            first, end = self._extent(changed)
            for y in range(first, end):
                self.repaint_row(y)
        self._scroll_to_selected()

    def _scroll_to_selected(self) -> None:
        first, end = self._extent(self.selected)
        if self.selected == len(self._shown) - 1:
            end = self.row_total()  # with what stands behind it, so that the view follows what comes
        self.show_row(min(end, first + self.page) - 1)
        self.show_row(first)

    def _show_selected(self) -> None:
        """Bring the chosen message on screen; a view that follows its end stays there."""
        at_end = self.follows and self.selected == len(self._shown) - 1
        if self._shown and self.is_laid_out and not at_end:
            self._scroll_to_selected()

    @property
    def locked(self) -> bool:
        """Whether a run reads the conversation, so that an edit has to pause it first."""
        return self._state.phase in _BUSY

    # -- rows

    def row_total(self) -> int:
        return len(self._rows) + (len(self._live) if self._is_live else 0)

    def build_row(self, y: int) -> Row:
        live = y - len(self._rows)
        row = self._live.row(live) if live >= 0 else self._rows[y]
        own = live < 0 and row.pieces and self._message_at(y) == self.selected
        mark = self.glyphs.cursor if own else " "
        return Row((Piece(f"{mark} ", "context--selected", -1, ""), *row.pieces), row.soft)

    def lay_out(self) -> None:
        self._bodies.clear()
        self._live.restart(self._look)
        self._lay_out_messages()
        self._show_live()
        self._show_selected()

    def empty_text(self) -> str:
        return "No messages yet. Write below and press enter, or press a here; s is for the system prompt."

    def legend(self) -> tuple[Piece, ...]:
        return meter(self._state, self.row_width, self.glyphs, locked=self.locked)

    @property
    def _look(self) -> Look:
        return Look(self.row_width, self.glyphs)

    def _count_tokens(self) -> None:
        messages, pieces = self.conversation.messages, self._state.prompt_pieces
        spans = message_spans(messages, pieces) if pieces else [None] * len(messages)
        self._tokens = [None if span is None else len(span) for span in spans]

    def _lay_out_messages(self) -> None:
        self._is_live = self._wants_live()
        messages = self.conversation.messages
        if self._is_live and self._live_at is not None:
            messages = messages[: self._live_at]
        self._shown, look = messages, self._look
        self._rows, self._starts = [], []
        kept: dict[tuple[Message, bool], list[Row]] = {}
        for index, message in enumerate(messages):
            unfolded = message in self._unfolded
            body = self._bodies.get((message, unfolded)) or body_rows(look, message, unfolded=unfolded)
            kept[message, unfolded] = body
            self._starts.append(len(self._rows))
            tokens = self._tokens[index] if index < len(self._tokens) else None
            details = "" if tokens is None else f"{tokens:,} token{'s' * (tokens != 1)}"
            self._rows += [title_row(look, str(index + 1), message.role, details), *body, Row()]
        self._bodies = kept
        self.rows_changed(0)

    def _message_at(self, y: int) -> int:
        return bisect_right(self._starts, y) - 1

    def _extent(self, index: int) -> tuple[int, int]:
        """First row of a message, and the one behind its last."""
        if not 0 <= index < len(self._starts):
            return 0, 0
        return self._starts[index], [*self._starts, len(self._rows)][index + 1] - 1

    def _wants_live(self) -> bool:
        return is_live(self._state, self._live_at)

    def _show_live(self) -> None:
        if self._wants_live() != self._is_live:
            self._live.restart(self._look)
            self._lay_out_messages()
        if not self._is_live:
            return
        start = len(self._rows)
        titles, first = self._live.update(self._state, self._look, str(len(self._shown) + 1))
        for y in range(start, start + titles):
            self.repaint_row(y)
        if first is not None:
            self.rows_changed(start + first)

    # -- keys and mouse

    def move(self, by: int) -> None:
        """Choose the next message, once the end of a long one was seen; whole pages scroll."""
        if abs(by) > 1 or not self._shown:
            super().move(by)
            return
        first, end = self._extent(self.selected)
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.page
        at_end = self.selected == len(self._shown) - 1
        if (by > 0 and (end > bottom or at_end)) or (by < 0 and first < top < end):
            super().move(by)
        else:
            self.select(self.selected + by)

    def to_end(self, *, last: bool) -> None:
        self.select(len(self._shown) - 1 if last else 0)
        super().to_end(last=last)

    def clicked(self, y: int, key: int, column: int) -> None:
        if y >= len(self._rows):
            return
        index = self._message_at(y)
        is_fold = any(piece.style == "context--fold" for piece in self._rows[y].pieces)
        self.select(index)
        if is_fold:
            self.action_fold()

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self._shown:
            self.action_at("edit")
            return
        super().on_click(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in {"fold", "role"} or (action == "at" and parameters != ("add",)):
            return bool(self._shown)
        return super().check_action(action, parameters)

    def action_at(self, what: str) -> None:
        """Ask for something to be done at the chosen message."""
        index = self.selected if self._shown else -1
        self.post_message(ask.REQUESTS[what](index))

    def action_role(self) -> None:
        """The next role for the chosen message."""
        role = self._shown[self.selected].role
        self.post_message(ask.ChangeRole(self.selected, ROLES[(ROLES.index(role) + 1) % len(ROLES)]))

    def action_fold(self) -> None:
        """Show all of the chosen message, or only its start."""
        self._unfolded ^= {self._shown[self.selected]}
        self._lay_out_messages()
        self.show_row(self._extent(self.selected)[0])

    def action_undo(self) -> None:
        self.post_message(ask.UndoEdit())

    def action_redo(self) -> None:
        self.post_message(ask.RedoEdit())

    def action_system(self) -> None:
        self.post_message(ask.EditSystem())

    def action_thinking(self) -> None:
        self.post_message(ask.ToggleThinking())
