"""The recordings: played, compared, checked, exported, renamed, deleted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input, OptionList, Static

from engine.errors import Cancelled, RecordingError, SpeculateError
from engine.recording_summary import summarise
from tui import demo
from tui.atomic_file import user_path
from tui.recording_folder import Entry, RecordingFolder, free_path, name_problem
from tui.recording_work import FORMATS, check, check_text, export
from tui.screens.compare import CompareScreen
from tui.screens.dialog import Dialog, plain
from tui.screens.message import Choice, ChoiceModal, ConfirmModal, ErrorModal, TextModal
from tui.screens.verdict import VerdictModal
from tui.widgets.inputs import SafeInput
from tui.widgets.recording_rows import RecordingRow, RecordingRows, Told, row_text

Known = dict[Entry, Told]
"""Summaries of files that did not change since."""
_TELL_EVERY_S = 0.1


class LibraryScreen(Dialog[Path | None]):
    """The result is the recording to play, or None.

    Args:
        folder: where the recordings are.
        use_of: what a file is used for now, such as "is being recorded"; "" for nothing.
        known: what is known already; what is read is put into it.
        shipped: the recording that comes with the program.
    """

    class Progress(Message):
        """How far a check is."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    HELP: ClassVar[str] = (
        "What was recorded, the newest first. Enter plays a recording. Space marks it; c compares two marked "
        "ones, or the marked one with the one at the cursor. v checks every round again, without models. "
        "Slash filters by name and model. A file that cannot be read says why, and can be deleted."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="library.filter", tooltip="Filter by name or model"),
        Binding("down", "to_list", "List", id="library.list", tooltip="To the list", show=False),
    ]
    KEYS = (("enter", "play"),)
    DEFAULT_CSS = """
    LibraryScreen > .box { width: 96%; max-width: 120; height: 94%; }
    LibraryScreen .title { margin: 0; }
    LibraryScreen .box OptionList { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; }
    LibraryScreen #told { height: auto; max-height: 2; color: $text-muted; }
    LibraryScreen .buttons { margin: 0; }
    LibraryScreen .buttons Button { margin-left: 1; min-width: 8; }
    """

    def __init__(
        self,
        folder: RecordingFolder,
        use_of: Callable[[Path], str] = lambda _: "",
        known: Known | None = None,
        shipped: Path = demo.PATH,
    ) -> None:
        super().__init__()
        self._folder, self._use_of, self._shipped = folder, use_of, shipped
        self._known: Known = {} if known is None else known
        self._rows: dict[Path, RecordingRow] = {}
        self._marked: list[Path] = []
        self._left = Event()
        self._is_reading = self._is_checking = False

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
        self.query_one("#title", Static).update(Content(self.safe(f"Recordings  {self._folder.folder}", "")))
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

    # -- what the user does

    @on(OptionList.OptionSelected)
    def _play(self) -> None:
        chosen = self.query_one(RecordingRows).chosen
        if chosen is not None:
            self.dismiss(chosen)

    @on(RecordingRows.Wanted)
    def _wanted(self, event: RecordingRows.Wanted) -> None:
        self._do(event.what)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.action_to_list()  # the keys act there
        if event.button.id == "close":
            self.dismiss(None)
        else:
            self._do(event.button.id or "")

    def _do(self, what: str) -> None:
        chosen = self.query_one(RecordingRows).chosen
        if chosen is None:
            return
        actions: dict[str, Callable[[RecordingRow], object]] = {
            "mark": self._mark,
            "compare": self._compare,
            "verify": self._verify,
            "export": self._export,
            "rename": self._rename,
            "delete": self._delete,
        }
        actions[what](self._rows[chosen])

    def _mark(self, row: RecordingRow) -> None:
        path = row.entry.path
        if path in self._marked:
            self._marked.remove(path)
        elif len(self._marked) == 2:
            self._say("Two are marked: c compares them, space on one of them takes its mark away.")
            return
        else:
            self._marked.append(path)
        self._say("")
        self.query_one(RecordingRows).update_rows(
            (known, self._text(row)) for known, row in self._rows.items()
        )

    def _compare(self, row: RecordingRow) -> None:
        paths = self._marked if len(self._marked) == 2 else [*self._marked, row.entry.path]
        if len(paths) < 2:
            self._say("Space marks a recording; then c compares it with the one at the cursor.")
            return
        self.app.push_screen(CompareScreen(paths[0], paths[1]))

    def _rename(self, row: RecordingRow) -> None:
        if self._is_kept(row, "renamed"):
            return
        path = row.entry.path

        def problem(title: str) -> str | None:
            taken = path.with_name(f"{title.removesuffix('.jsonl')}.jsonl")
            return name_problem(title) or (
                "A recording has that name." if taken != path and os.path.lexists(taken) else None
            )

        def named(title: str | None) -> None:
            if title:
                self._try(lambda: self._list(follow=self._renamed(path, title)))

        self.app.push_screen(TextModal("Rename the recording", row.entry.title, check=problem), named)

    def _renamed(self, path: Path, title: str) -> Path:
        new = self._folder.rename(path, title)
        self._marked = [new if marked == path else marked for marked in self._marked]
        return new

    def _delete(self, row: RecordingRow) -> None:
        if self._is_kept(row, "deleted"):
            return
        path = row.entry.path

        def delete() -> None:
            if not self._is_kept(row, "deleted"):  # it may be played by now
                self._folder.delete(path)
                self._list()

        question = ConfirmModal(
            f"Delete {self.safe(row.entry.title, '')}?",
            "It cannot be brought back.",
            yes="Delete",
            danger=True,
        )
        self.app.push_screen(question, lambda yes: self._try(delete) if yes else None)

    def _is_kept(self, row: RecordingRow, done: str) -> bool:
        """Whether a file must stay as it is; then it is said why."""
        use = "comes with the program" if row.is_shipped else self._use_of(row.entry.path)
        if use:
            self._say(f"{row.entry.title} {use}: it cannot be {done}.")
        return bool(use)

    # -- long work

    def _export(self, row: RecordingRow) -> None:
        choices = [Choice(form, form.upper(), detail) for form, detail in FORMATS.items()]

        def chosen(form: str | None) -> None:
            if form is not None:
                self._export_as(row, form)

        self.app.push_screen(ChoiceModal("Export to", choices, self.safe(row.entry.title, "")), chosen)

    def _export_as(self, row: RecordingRow, form: str) -> None:
        name = free_path(Path(f"{row.entry.title}.{form}")).name

        def problem(text: str) -> str | None:
            return "There is a file of that name." if os.path.lexists(text) else None

        def named(text: str | None) -> None:
            if text:
                # Of the app: it goes on when this screen is closed.
                self.app.run_worker(self._exported(row.entry.path, form, text), exclusive=False)

        self.app.push_screen(
            TextModal("Export as", name, detail="In the working folder, or a whole path.", check=problem),
            named,
        )

    async def _exported(self, path: Path, form: str, name: str) -> None:
        try:
            await asyncio.to_thread(export, path, form, user_path(name))
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error))
        else:
            self.app.notify(self.safe(f"Wrote {name}", ""), markup=False)

    @work(group="check")
    async def _verify(self, row: RecordingRow) -> None:
        if self._is_checking:
            return  # the line below says how far it is
        self._is_checking = True
        title = row.entry.title

        def tell(done: int, total: int) -> None:
            self.post_message(self.Progress(f"Checking {title}: {done:,} of {total:,} rounds"))

        try:
            checked = await asyncio.to_thread(check, row.entry.path, self._left.is_set, tell)
        except Cancelled:
            return  # the screen is closed
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error))
            return
        finally:
            self._is_checking = False
            self._say("")
        verdict, lines = check_text(checked)
        self.app.push_screen(VerdictModal(f"{title}: {verdict}", lines, sound=checked.is_sound))

    @on(Progress)
    def _progress(self, event: Progress) -> None:
        if self._is_checking:
            self._say(event.text)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error))

    def _say(self, text: str) -> None:
        if not self._left.is_set():
            self.query_one("#told", Static).update(Content(self.safe(text, "")))


def _summary(path: Path, closed: Event) -> Told:
    """What a list says of a file. Runs in a thread."""
    try:
        return summarise(path, closed.is_set)
    except RecordingError as error:
        return error.message
    except Cancelled:
        return None
