"""Text fields that show nothing a terminal could obey, and the line the user goes on chatting with.

Textual draws the text of a field as it is, so an escape sequence in a message being edited would reach the
terminal. These fields keep the text unchanged and draw each such character as ONE visible one, so that cursor
and selection stay where they belong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, TextArea

from tui.safe_text import visible

_UNKNOWN = "\ufffd"


@lru_cache(maxsize=512)
def _char(char: str, keep: str) -> str:
    form = visible(char, keep)
    return form if len(form) == 1 else _UNKNOWN


def same_length(text: str, keep: str = "") -> str:
    """``text`` made safe character by character, so that every position stays the same."""
    if visible(text, keep) == text:
        return text
    return "".join(_char(char, keep) for char in text)


class SafeInput(Input):
    """A one-line field for text from anywhere."""

    def on_mount(self) -> None:
        self.cursor_blink = False  # nothing moves that the user did not move

    @property
    def _value(self) -> Text:
        text = super()._value
        return Text(same_length(text.plain), no_wrap=True, overflow="ignore", end="")


class SafeTextArea(TextArea):
    """A field of several lines for text from anywhere."""

    def on_mount(self) -> None:
        self.cursor_blink = False

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn."""
        return Text(same_length(self.document.get_line(line_index), "\t"), end="", no_wrap=True)


class ChatInput(SafeTextArea):
    """Where the user goes on chatting: enter sends, a new line needs a modifier; it grows with the text."""

    HELP: ClassVar[str] = (
        "Write what you say next. Enter sends it and starts the answer. "
        "Ctrl+J, Shift+Enter or Alt+Enter begin a new line, where the terminal tells them apart. "
        "Up and down in the first and last line bring back what you sent before."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="chat.send", tooltip="Send the message", priority=True),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "newline",
            "New line",
            id="chat.newline",
            tooltip="Begin a new line in the message",
            show=False,
            priority=True,
        ),
    ]
    DEFAULT_CSS = """
    ChatInput { height: auto; min-height: 1; max-height: 6; padding: 0 1; border: none; }
    ChatInput:focus { border: none; }
    """
    SENT_LIMIT = 100

    class Submitted(Message):
        """The user sent a text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, placeholder: str = "Write a message", *, id: str | None = None) -> None:
        super().__init__(
            soft_wrap=True,
            compact=True,
            tab_behavior="focus",
            show_line_numbers=False,
            placeholder=placeholder,
            highlight_cursor_line=False,
            id=id,
        )
        self._sent: list[str] = []
        self._at = 0
        self._draft = ""

    def action_submit(self) -> None:
        """Send, unless there is nothing but blanks."""
        text = self.text
        if not text.strip():
            return
        if not self._sent or self._sent[-1] != text:
            self._sent = [*self._sent, text][-self.SENT_LIMIT :]
        self._at = len(self._sent)
        self.load_text("")
        self.post_message(self.Submitted(text))

    def action_newline(self) -> None:
        """A line end at the cursor."""
        self._replace_via_keyboard("\n", *self.selection)

    def put_back(self, text: str) -> None:
        """Show a text again that could not be sent, before what was written meanwhile."""
        self.load_text(text + (f"\n{self.text}" if self.text else ""))
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        # The base class's own handler comes after this one, unless it is prevented.
        step = {"up": -1, "down": 1}.get(event.key)
        edge = 0 if step == -1 else self.document.line_count - 1
        if step is not None and self.cursor_location[0] == edge and self._recall(step):
            event.stop()
            event.prevent_default()

    def _recall(self, step: int) -> bool:
        at = self._at + step
        if not 0 <= at <= len(self._sent):
            return False
        if self._at == len(self._sent):
            self._draft = self.text
        self._at = at
        self.load_text(self._draft if at == len(self._sent) else self._sent[at])
        self.move_cursor(self.document.end)
        return True
