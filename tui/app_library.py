"""Recordings in the app: what follows is recorded, and what was recorded is listed and played."""

from __future__ import annotations

from tui.app_commands import CommandApp
from tui.session_recorder import SessionRecorder


class LibraryApp(CommandApp):
    """The part of the app that works with recordings."""

    recorder: SessionRecorder

    def action_record_toggle(self) -> None:
        self.recorder.toggle()
        self.lab.on_change()
