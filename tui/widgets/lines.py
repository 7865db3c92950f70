"""The base of the panes: a painted view with keys, search, selection, and a question in its last line."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.selection import Selection

from tui.safe_text import visible
from tui.widgets.painted import PaintedView
from tui.widgets.rows import Piece

RECORDED = "Nothing yet at this place of the recording. Space plays it, a full stop goes a round on."
"""What an empty pane says of a recording."""


class LineView(PaintedView, inherit_bindings=False):
    """A painted view that is used by keyboard and mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "line(1)", "Down", id="lines.down", tooltip="One line down", show=False),
        Binding("up,k", "line(-1)", "Up", id="lines.up", tooltip="One line up", show=False),
        Binding(
            "ctrl+d", "half(1)", "Half down", id="lines.half_down", tooltip="Half a page down", show=False
        ),
        Binding("ctrl+u", "half(-1)", "Half up", id="lines.half_up", tooltip="Half a page up", show=False),
        Binding("pagedown", "half(2)", "Page down", id="lines.page_down", tooltip="A page down", show=False),
        Binding("pageup", "half(-2)", "Page up", id="lines.page_up", tooltip="A page up", show=False),
        Binding("home,g", "first", "First", id="lines.first", tooltip="To the beginning", show=False),
        Binding("end,G", "last", "Last", id="lines.last", tooltip="To the end, and follow it", show=False),
        Binding("slash", "search", "Search", id="lines.search", tooltip="Find text in this pane", show=False),
        Binding("n", "match(1)", "Next match", id="lines.next", tooltip="To the next match", show=False),
        Binding(
            "N", "match(-1)", "Previous match", id="lines.previous", tooltip="To the match before", show=False
        ),
        Binding(
            "escape", "leave", "Back", id="lines.leave", tooltip="End the search, drop the cursor", show=False
        ),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._question = ""
        self._reply: Callable[[str], None] | None = None  # while a text is typed
        self._typed = ""

    # -- what a pane may say

    def legend(self) -> tuple[Piece, ...]:
        """The last line while nothing is typed or looked for; empty: none."""
        return ()

    def searched(self) -> str:
        """What part of it is searched, beginning with a blank; "" for all of it."""
        return ""

    def move(self, by: int) -> None:
        """Up or down by so many lines."""
        self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def to_end(self, *, last: bool) -> None:
        """To the first row, or to the last one and follow it."""
        self.scroll_to(y=self.max_scroll_y if last else 0, animate=False)

    def drop_cursor(self) -> None:
        """Leave the cursor, if there is one."""

    def has_cursor(self) -> bool:
        """Whether there is a cursor to drop."""
        return False

    def clicked(self, y: int, key: int, column: int) -> None:
        """Row ``y`` was clicked on; ``key`` is that of the piece there."""

    # -- keys

    def action_line(self, by: int) -> None:
        self.move(by)

    def action_half(self, halves: int) -> None:
        self.move(halves * max(self.page // 2, 1))

    def action_first(self) -> None:
        self.to_end(last=False)

    def action_last(self) -> None:
        self.to_end(last=True)

    def action_search(self) -> None:
        self.ask("/", self._search)

    def action_match(self, by: int) -> None:
        place = self.finder.step(self.scroll_offset.y, by)
        if place is not None:
            self.show_row(place[0])
        self.repaint()

    def action_leave(self) -> None:
        if self.finder.needle:
            self._search("")
        else:
            self.drop_cursor()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "match":
            return bool(self.finder.needle)
        if action == "leave":
            return bool(self.finder.needle) or self.has_cursor()
        return super().check_action(action, parameters)

    def _search(self, needle: str) -> None:
        self.finder.search(needle, self.row_total())
        if self.finder.places:
            self.action_match(1)
        self.repaint()
        self.foot_changed()
        self.refresh_bindings()

    # -- a question in the last line

    def ask(self, question: str, answer: Callable[[str], None], typed: str = "") -> None:
        """Have a text typed into the last line; enter gives it to ``answer``, escape gives it up."""
        self._question, self._reply, self._typed = question, answer, typed
        self.foot_changed()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self._reply is not None and character is not None and character.isprintable()

    def on_key(self, event: events.Key) -> None:
        answer = self._reply
        if answer is None:
            return
        if event.key in {"enter", "escape"}:
            self._reply = None
            if event.key == "enter":
                answer(self._typed)
        elif event.key == "backspace":
            self._typed = self._typed[:-1]
        elif event.key == "ctrl+u":
            self._typed = ""
        elif event.is_printable and event.character is not None:
            self._typed += event.character
        elif event.key.startswith(("ctrl+", "f", "alt+")) or event.key in {"tab", "shift+tab"}:
            return
        event.stop()
        event.prevent_default()
        self.foot_changed()

    def on_paste(self, event: events.Paste) -> None:
        if self._reply is not None:
            self._typed += " ".join(event.text.split())
            event.stop()
            self.foot_changed()

    def on_blur(self) -> None:
        if self._reply is not None:
            self._reply = None
            self.foot_changed()

    def foot(self) -> tuple[Piece, ...]:
        if self._reply is not None:
            room = max(self.row_width - len(self._question) - 1, 1)
            typed = Piece(visible(self._typed, "", ascii_only=self.ascii)[-room:])
            return (Piece(self._question, "lines--strong"), typed, Piece(" ", "lines--cursor"))
        if self.finder.needle:
            return (Piece(f"/{visible(self.finder.needle, '')}  ", "lines--strong"), Piece(self._found()))
        return self.legend()

    def _found(self) -> str:
        count, current = len(self.finder.places), self.finder.current
        if not count:
            return f"no match{self.searched()}"
        where = f"{current + 1} of {count}" if current is not None else f"{count} matches"
        return f"{where}{self.searched()}   n next, N previous, esc ends"

    # -- mouse

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or event.chain > 1 or self.text_selection is not None:
            return
        y = self.scroll_offset.y + offset.y
        if offset.y < self.page and y < self.row_total():
            self.clicked(y, self.key_at(y, offset.x), offset.x)

    # -- copying

    @property
    def allow_select(self) -> bool:
        return True

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        parts: list[str] = []
        for y in range(self.row_total()):
            span = selection.get_span(y)
            if span is not None:
                row = self.build_row(y)
                start, end = span
                parts += [row.copied(start, len(row.text) + 1 if end < 0 else end), "" if row.soft else "\n"]
        return "".join(parts[:-1]), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.repaint()
