"""The command palette, with a field that is safe to paste into and rests while nothing is typed."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.command import CommandInput, CommandList, CommandPalette, SearchIcon
from textual.containers import Horizontal, Vertical
from textual.widgets import LoadingIndicator

from tui.widgets.inputs import SafeInput

PALETTE_ID = "--command-palette"
"""The one that Textual gives its own."""


class PaletteInput(CommandInput, SafeInput):
    """What is looked for."""


class Palette(CommandPalette):
    """Every action that applies, and the themes."""

    def compose(self) -> ComposeResult:
        with Vertical(id="--container"):
            with Horizontal(id="--input"):
                yield SearchIcon()
                yield PaletteInput(placeholder="Search for commands", select_on_focus=False)
            with Vertical(id="--results"):
                yield CommandList()
                yield LoadingIndicator()
