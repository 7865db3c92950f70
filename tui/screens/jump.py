"""Jump mode: a letter on every place, and the next key goes there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.widgets.transport import TabBar


class JumpScreen(ModalScreen[str | None]):
    """The result is the letter's place, or None.

    Where the panes are tabs, a pane's letter stands on its tab.

    Args:
        places: by letter: the place's name and where its letter stands on the screen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "leave", "Stay", id="jump.leave", tooltip="Stay where you are"),
    ]
    DEFAULT_CSS = """
    JumpScreen { background: $background 40%; }
    JumpScreen Static {
        position: absolute; width: auto; height: 1; background: $accent; color: $background; text-style: bold;
    }
    """

    def __init__(self, places: Mapping[str, tuple[str, Offset]]) -> None:
        super().__init__()
        self._places = places
        self._labels: list[tuple[str, str, Offset]] = []

    def compose(self) -> ComposeResult:
        self._labels = [self._label(letter, name, at) for letter, (name, at) in self._places.items()]
        for text, _, at in self._labels:
            label = Static(Content(text), markup=False)
            label.styles.offset = (at.x, at.y)
            yield label

    def _label(self, letter: str, name: str, at: Offset) -> tuple[str, str, Offset]:
        """What is shown for a place, its name, and where."""
        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else self
        tab = next((place for bar in below.query(TabBar) if (place := bar.place(name)) is not None), None)
        if tab is None:
            return f" {letter} {name} ", name, at
        return f"{letter:>{tab.width - 1}} ", name, tab.offset

    def on_key(self, event: events.Key) -> None:
        if event.character is not None and event.character in self._places:
            event.stop()
            self.dismiss(self._places[event.character][0])

    def on_click(self, event: events.Click) -> None:
        at = event.screen_offset
        for text, name, place in self._labels:
            if place.y == at.y and place.x <= at.x < place.x + len(text):
                self.dismiss(name)
                return
        self.dismiss(None)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
