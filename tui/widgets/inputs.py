"""Text fields that show nothing a terminal could obey, and the line the user goes on chatting with.

Textual draws the text of a field as it is, so an escape sequence in a message being edited would reach the
terminal. These fields keep the text unchanged and draw each such character as ONE visible one, so that cursor
and selection stay where they belong.

Textual lets the app carry out a key that does not print, while those that print wait in the field: where keys
come fast, an enter would overtake letters, or letters a backspace. These fields carry out their own keys
themselves, one after the other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Select, Static, TextArea

from tui.clipboard import say_copied
from tui.safe_text import visible

_UNKNOWN = "\ufffd"
_JOINERS = frozenset("\u200c\u200d")
"""Typed inside an emoji or a word; Textual takes them for keys that do not print."""


@lru_cache(maxsize=512)
def _char(char: str, keep: str) -> str:
    form = visible(char, keep)
    return form if len(form) == 1 else _UNKNOWN


def same_length(text: str, keep: str = "") -> str:
    """``text`` made safe character by character, so that every position stays the same."""
    if visible(text, keep) == text:
        return text
    return "".join(_char(char, keep) for char in text)


async def carry_out(field: Widget, event: events.Key) -> None:
    """Carry out a key that the field itself has an action for, before the next one is looked at."""
    if event.is_printable:
        return
    bindings = field._bindings.copy()
    bindings.apply_keymap(field.app._keymap)
    for binding in bindings.key_to_bindings.get(event.key, ()):
        if await field.app.run_action(binding.action, field):
            event.stop()
            event.prevent_default()
            return


class SafeInput(Input):
    """A one-line field for text from anywhere."""

    def on_mount(self) -> None:
        self.cursor_blink = False  # nothing moves that the user did not move

    async def _on_key(self, event: events.Key) -> None:
        # The base class's own handler comes after this one, unless it is prevented.
        if event.character in _JOINERS:
            self.replace(event.character or "", *self.selection)
            event.stop()
            event.prevent_default()
        else:
            await carry_out(self, event)

    def action_copy(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy()
        say_copied(self, self.selected_text)

    def action_cut(self) -> None:
        """Cut what is selected, and say so."""
        text = self.selected_text
        super().action_cut()
        say_copied(self, text)

    @property
    def _value(self) -> Text:
        text = super()._value
        return Text(same_length(text.plain), no_wrap=True, overflow="ignore", end="")


class SafeTextArea(TextArea):
    """A field of several lines for text from anywhere."""

    def on_mount(self) -> None:
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        # The base class's own handler comes after this one, unless it is prevented.
        if event.character in _JOINERS and not self.read_only:
            self._replace_via_keyboard(event.character or "", *self.selection)
            event.stop()
            event.prevent_default()
        else:
            await carry_out(self, event)

    def action_copy(self) -> None:
        """Copy what is selected, and say so."""
        super().action_copy()
        say_copied(self, self.selected_text)

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn."""
        return Text(same_length(self.document.get_line(line_index), "\t"), end="", no_wrap=True)


class SafeSelect(Select[str], inherit_bindings=False):
    """A choice in a form: up and down are left to the form, which goes to another field with them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "show_overlay", "Choose", id="select.open", tooltip="Show the choices"),
    ]

    def on_mount(self) -> None:
        if getattr(self.app, "ascii", False):
            for name, sign in (("down", "v"), ("up", "^")):
                self.query_one(f".{name}-arrow", Static).update(sign)


class ChatInput(SafeTextArea):
    """Where the user goes on chatting: enter sends, a new line needs a modifier; it grows with the text."""

    HELP: ClassVar[str] = (
        "Write what you say next. Enter sends it and starts the answer. "
        "Ctrl+J, Shift+Enter or Alt+Enter begin a new line, where the terminal tells them apart. "
        "Up and down in the first and last line bring back what you sent before. "
        "Escape leaves the line."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="chat.send", tooltip="Send the message"),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "newline",
            "New line",
            id="chat.newline",
            tooltip="Begin a new line in the message",
            show=False,
        ),
        Binding("escape", "leave", "To the panes", id="chat.leave", tooltip="Leave the line", show=False),
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape ends an answer on its way first, as everywhere."""
        if action == "leave" and hasattr(self.app, "action_run_cancel"):
            return not self.app.check_action("run_cancel", ())
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        """To the output; where there is none, to nowhere."""
        go_to = getattr(self.screen, "go_to", None)
        if go_to is not None:
            go_to("output")
        else:
            self.screen.set_focus(None)

    def put_back(self, text: str) -> None:
        """Show a text again that could not be sent, before what was written meanwhile."""
        self.load_text(text + (f"\n{self.text}" if self.text else ""))
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        # The handlers of the base classes come after this one, unless they are prevented.
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
