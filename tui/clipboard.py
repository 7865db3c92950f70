"""Copying, and saying what became of it."""

from __future__ import annotations

from textual.widget import Widget


def copy(widget: Widget, text: str) -> None:
    """Put a text on the clipboard, and say so."""
    widget.app.copy_to_clipboard(text)
    say_copied(widget, text)


def say_copied(widget: Widget, text: str) -> None:
    """Say what was copied: only the terminal knows whether it reached the clipboard of the system."""
    count = len(text)
    words = f"{count:,} character{'s' * (count != 1)}"
    widget.notify(f"Copied {words}. Some terminals keep them from other programs.", markup=False)
