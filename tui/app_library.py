"""Recordings in the app: what follows is recorded, and what was recorded is listed and played."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work

from engine.errors import SpeculateError
from tui.app_commands import CommandApp
from tui.launch import Launch
from tui.recording_work import checked_playable
from tui.session_recorder import SessionRecorder

if TYPE_CHECKING:
    from tui.screens.recording_list import Known


class LibraryApp(CommandApp):
    """The part of the app that works with recordings."""

    launch: Launch
    recorder: SessionRecorder
    _known: Known | None = None

    def action_record_toggle(self) -> None:
        self.recorder.toggle()
        self.lab.on_change()

    def action_library_open(self) -> None:
        from tui.screens.library import LibraryScreen

        if self._known is None:
            self._known = {}

        def chosen(path: Path | None) -> None:
            if path is not None:
                self.open_recording(path)

        self.push_screen(LibraryScreen(self.launch.recordings, self.use_of_recording, self._known), chosen)

    def use_of_recording(self, path: Path) -> str:
        """What a file is used for now; "" for nothing."""
        if _is_same_file(path, self.recorder.path):
            return "is being recorded"
        playing = self.played.path if self.played is not None and self.lab.replay is not None else None
        return "is being played" if _is_same_file(path, playing) else ""

    @work(exclusive=True, group="recording")
    async def open_recording(self, path: Path) -> None:
        """Play a recording; what of it cannot be read is told."""
        self.say(f"Reading {path.name} ...")
        try:
            demo, problem = await asyncio.to_thread(checked_playable, path)
        except SpeculateError as error:
            self.show_error(error)
            return
        self.clear_notifications()
        if problem:
            self.say(problem, "warning")
        self.play(demo)


def _is_same_file(one: Path, other: Path | None) -> bool:
    """Whether two paths lead to one file, however they are written."""
    try:
        return other is not None and one.samefile(other)
    except OSError:
        return False
