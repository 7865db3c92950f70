"""What a check found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button

from tui.clipboard import copy
from tui.safe_text import visible
from tui.screens.dialog import Dialog, plain


class VerdictModal(Dialog[None]):
    """A verdict and the lines it rests on; can be copied.

    Args:
        sound: whether nothing is wrong.
    """

    KEYS = (("enter", "press the button"), ("tab", "other button"))
    DEFAULT_CSS = """
    VerdictModal VerticalScroll { height: auto; max-height: 16; scrollbar-gutter: stable; }
    VerdictModal VerticalScroll Static { height: auto; }
    VerdictModal .sound { color: $text-success; }
    """

    def __init__(self, verdict: str, lines: Sequence[str], *, sound: bool) -> None:
        super().__init__()
        self._verdict, self._lines, self._sound = verdict, tuple(lines), sound

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            sign = "" if self._sound else "x "
            yield plain(sign + self.safe(self._verdict, ""), f"title {'sound' if self._sound else 'problem'}")
            with VerticalScroll():
                for line in self._lines:
                    yield plain(self.safe(line, ""))
            with Horizontal(classes="buttons"):
                yield Button("Copy", id="copy", compact=True)
                yield Button("Close", id="close", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one("#close").focus()

    @on(Button.Pressed, "#copy")
    def _copy(self) -> None:
        copy(self, visible("\n".join([self._verdict, *self._lines])))

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)
