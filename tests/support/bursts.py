"""Keys as a terminal delivers them in one read: all of them, before the app looks at any."""

from __future__ import annotations

from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App


def type_at_once(app: App[Any], text: str) -> None:
    """Post the keys for a text; control characters are keys, too."""
    for number, part in enumerate(text.split("\x1b")):
        if number:  # the parser waits for what may follow an escape
            app.post_message(events.Key("escape", "\x1b"))
        for event in XTermParser().feed(part):
            app.post_message(event)
