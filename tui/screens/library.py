"""The recordings: played, compared, checked, exported, renamed, deleted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Button, OptionList

from engine.errors import Cancelled, SpeculateError
from tui.atomic_file import user_path
from tui.export.forms import FORMS
from tui.recording_folder import SUFFIX, free_path, name_problem
from tui.recording_work import check, check_text, export
from tui.screens.compare import CompareScreen
from tui.screens.message import Choice, ChoiceModal, ConfirmModal, ErrorModal, TextModal
from tui.screens.recording_list import RecordingList
from tui.screens.recording_rows import RecordingRow, RecordingRows
from tui.screens.verdict import VerdictModal


class LibraryScreen(RecordingList):
    """The result is the recording to play, or None."""

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
        Binding(
            "slash", "filter", "Filter", id="library.filter", tooltip="Filter by name or model", show=False
        ),
        Binding("down", "to_list", "List", id="library.list", tooltip="To the list", show=False),
    ]
    _is_checking = False

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
            if wrong := name_problem(title):
                return wrong
            taken = path.with_name(f"{title.removesuffix(SUFFIX)}{SUFFIX}")
            return "A recording has that name." if taken != path and os.path.lexists(taken) else None

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
        choices = [Choice(form, form.upper(), detail) for form, detail in FORMS.items()]

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
            self.app.notify(self.safe(f"Wrote {user_path(name).absolute()}", ""), markup=False)

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
