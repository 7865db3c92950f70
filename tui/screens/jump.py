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


class JumpScreen(ModalScreen[str | None]):
    """The result is the letter's place, or None.

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

    def compose(self) -> ComposeResult:
        for letter, (name, at) in self._places.items():
            label = Static(Content(f" {letter} {name} "), markup=False)
            label.styles.offset = (at.x, at.y)
            yield label

    def on_key(self, event: events.Key) -> None:
        if event.character is not None and event.character in self._places:
            event.stop()
            self.dismiss(self._places[event.character][0])

    def on_click(self, event: events.Click) -> None:
        at = event.screen_offset
        for name, place in self._places.values():
            if place.y == at.y and place.x <= at.x < place.x + len(name) + 4:
                self.dismiss(name)
                return
        self.dismiss(None)

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)
