"""What all dialogs share: a box in the middle that fits small terminals, and escape to leave."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.safe_text import visible

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """A box over the screen. Its content goes into one container with the class ``box``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", id="dialog.leave", tooltip="Close without changing anything"),
    ]
    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > .box {
        width: 90%; max-width: 84; height: auto; max-height: 95%;
        padding: 0 1; border: round $primary; background: $surface;
    }
    Dialog .title { text-style: bold; height: auto; margin-bottom: 1; }
    Dialog .quiet { color: $text-muted; height: auto; }
    Dialog .problem { color: $text-error; text-style: bold; height: auto; }
    Dialog .buttons { height: auto; align-horizontal: right; margin-top: 1; }
    Dialog .buttons Button { margin-left: 2; min-width: 10; }
    Dialog .buttons Button.-default { background: $panel; }
    Dialog .box OptionList > .option-list--option-highlighted {
        background: $primary 30%; color: $foreground;
    }
    Dialog .box Input, Dialog .box Input:focus { border: none; height: 1; padding: 0 1; background: $panel; }
    """

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)

    def safe(self, text: str, keep: str = "\n") -> str:
        """Text from anywhere, in the character set the app is set to."""
        return visible(text, keep, ascii_only=bool(getattr(self.app, "ascii", False)))


def plain(text: str, classes: str = "", *, id: str | None = None) -> Static:
    """A widget for a text that may come from anywhere: made safe, never markup."""
    return Static(Content(visible(text)), classes=classes, id=id, markup=False)
