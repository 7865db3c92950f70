"""The list of recordings: what there is, filled in while it is read, and filtered. ``library`` acts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, Static

from engine.errors import Cancelled, RecordingError
from engine.recording_summary import summarise
from tui import playable
from tui.recording_folder import Entry, RecordingFolder, with_name_only
from tui.recording_work import at_work
from tui.screens.dialog import Dialog, plain
from tui.screens.recording_rows import RecordingRow, RecordingRows, Told, row_text
from tui.widgets.inputs import SafeInput

Known = dict[Entry, Told]
"""Summaries of files that did not change since."""
_TELL_EVERY_S = 0.1


class RecordingList(Dialog[Path | None]):
    """Lists the recordings of a folder. Summaries are made in a thread, one after the other.

    Args:
        folder: where the recordings are.
        use_of: what a file is used for now, such as "is being recorded"; "" for nothing.
        known: what is known already; what is read is put into it.
        shipped: the recording that comes with the program.
    """

    DEFAULT_CSS = """
    RecordingList > .box { width: 98%; max-width: 120; height: 94%; }
    RecordingList .title { margin: 0; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    RecordingList.-ascii .title { text-overflow: clip; }
    RecordingList .box OptionList { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; }
    RecordingList #told { height: auto; max-height: 2; color: $text-muted; }
    RecordingList .buttons { margin: 0; }
    RecordingList .buttons Button { margin-left: 1; min-width: 8; }
    """

    def __init__(
        self,
        folder: RecordingFolder,
        use_of: Callable[[Path], str] = lambda _: "",
        known: Known | None = None,
        shipped: Path = playable.PATH,
    ) -> None:
        super().__init__()
        self._folder, self._use_of, self._shipped = folder, use_of, shipped
        self._known: Known = {} if known is None else known
        self._rows: dict[Path, RecordingRow] = {}
        self._marked: list[Path] = []
        self._left = Event()
        self._is_reading = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("Recordings", "title", id="title")
            yield SafeInput(placeholder="/ filters by name or model", id="filter", compact=True)
            yield RecordingRows()
            yield Static("", id="told", markup=False)
            with Horizontal(classes="buttons"):
                for name in ("Compare", "Verify", "Export", "Rename", "Delete"):
                    yield Button(name, id=name.lower(), compact=True)
                yield Button("Close", id="close", compact=True)

    def on_mount(self) -> None:
        self.query_one(RecordingRows).focus()
        self._list()

    def on_unmount(self) -> None:
        self._left.set()

    # -- what there is

    def _list(self, follow: Path | None = None) -> None:
        """Look what files there are now."""
        entries = self._folder.list()
        rows = [RecordingRow(entry, self._known.get(entry)) for entry in entries]
        if self._shipped.is_file():
            status = self._shipped.stat()
            entry = Entry(self._shipped, status.st_size, status.st_mtime_ns)
            rows.append(RecordingRow(entry, self._known.get(entry), is_shipped=True))
        self._rows = {row.entry.path: row for row in rows}
        self._marked = [path for path in self._marked if path in self._rows]
        self.query_one("#title", Static).update(
            Content(self.safe(f"Recordings: enter plays one.  {self._folder.folder}", ""))
        )
        self._fill(follow)
        self._summarise()

    def _fill(self, follow: Path | None = None) -> None:
        words = self.query_one("#filter", Input).value
        rows = [(path, self._text(row)) for path, row in self._rows.items() if row.matches(words)]
        empty = "none has such a name or model" if words else "nothing was recorded yet: R in the app records"
        self.query_one(RecordingRows).fill(rows, empty, follow)

    def _text(self, row: RecordingRow) -> Content:
        path = row.entry.path
        mark = "AB"[self._marked.index(path)] if path in self._marked else " "
        return row_text(row, mark, self._use_of(path), ascii_only=self.ascii)

    @work(group="summaries")
    async def _summarise(self) -> None:
        """Read what is not known yet, one file after the other; rows are filled in as it comes."""
        if self._is_reading:
            return  # it comes to the new ones too
        self._is_reading = True
        fresh: list[Path] = []
        told_at = monotonic()
        while (row := next((row for row in self._rows.values() if row.told is None), None)) is not None:
            path = row.entry.path
            told = await asyncio.to_thread(_summary, path, self._left)
            if self._left.is_set():
                return
            self._known[row.entry] = told
            if self._rows.get(path) == row:  # it is still there, and as it was
                self._rows[path] = replace(row, told=told)
                fresh.append(path)
            if monotonic() - told_at >= _TELL_EVERY_S:
                self._show(fresh)
                fresh, told_at = [], monotonic()
        self._is_reading = False
        self._show(fresh)

    def _show(self, paths: list[Path]) -> None:
        if self.query_one("#filter", Input).value:
            self._fill()  # one of them may match by its model now
        else:
            rows = [(path, self._text(self._rows[path])) for path in paths if path in self._rows]
            self.query_one(RecordingRows).update_rows(rows)

    # -- the filter

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._fill()

    def action_filter(self) -> None:
        """To the field for the filter."""
        self.query_one("#filter").focus()

    @on(Input.Submitted, "#filter")
    def action_to_list(self) -> None:
        """From the field to the list."""
        self.query_one(RecordingRows).focus()

    def _say(self, text: str) -> None:
        if not self._left.is_set():
            self.query_one("#told", Static).update(Content(self.safe(text, "")))


def _summary(path: Path, closed: Event) -> Told:
    """What a list says of a file. Runs in a thread."""
    try:
        with at_work():
            told = summarise(path, closed.is_set)
    except RecordingError as error:
        return with_name_only(error.message, path)
    except Cancelled:
        return None
    return told if told.damage is None else replace(told, damage=with_name_only(told.damage, path))
