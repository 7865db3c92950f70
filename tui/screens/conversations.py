"""The saved conversations: open, rename, delete, begin a new one, import and export context files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from engine.errors import DiskError, SpeculateError
from tui.atomic_file import user_path
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore, Saved, export_context, import_context
from tui.screens.dialog import Dialog, plain
from tui.screens.message import ConfirmModal, ErrorModal, TextModal


@dataclass(frozen=True, slots=True)
class Delete:
    """The open conversation is to be deleted."""

    id: str


class ConversationsScreen(Dialog[Conversation | Delete | None]):
    """The result is the conversation to go on with, what to delete, or None if all stays as it is.

    Args:
        store: what is saved.
        current: gives the open conversation, which may change while the list is shown; it is saved before
            another one is opened.
        change: takes the open conversation with its new name.
        now: seconds since the epoch.
    """

    HELP: ClassVar[str] = (
        "Every conversation is saved after each edit. Enter opens one, r renames it, d deletes it, n begins "
        "a new one. i reads a context file as a new conversation; e writes the open one as one, for "
        "`spec CONFIG CONTEXT`. A damaged file is listed with what is wrong, and left as it is."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "New", id="conversations.new", tooltip="Begin a new conversation"),
        Binding("r", "rename", "Rename", id="conversations.rename", tooltip="Call it something else"),
        Binding("d,delete", "delete", "Delete", id="conversations.delete", tooltip="Delete it for good"),
        Binding("i", "import", "Import", id="conversations.import", tooltip="Read a context file"),
        Binding(
            "e", "export", "Export", id="conversations.export", tooltip="Write the open one as a context file"
        ),
    ]
    DEFAULT_CSS = """
    ConversationsScreen > .box { width: 94%; max-width: 90; height: 90%; }
    ConversationsScreen .box OptionList { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; }
    ConversationsScreen .buttons { margin: 0; }
    ConversationsScreen .buttons Button { margin-left: 1; min-width: 8; }
    """

    def __init__(
        self,
        store: ConversationStore,
        current: Callable[[], Conversation],
        change: Callable[[Conversation], object],
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._store, self._current, self._change, self._now = store, current, change, now
        self._saved: list[Saved] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("Conversations", "title")
            yield OptionList()
            yield plain("", "quiet", id="open")
            with Horizontal(classes="buttons"):
                for name in ("New", "Rename", "Delete", "Import", "Export"):
                    yield Button(name, id=name.lower(), compact=True)
                yield Button("Close", id="close", compact=True)

    def on_mount(self) -> None:
        self._list()
        self.query_one(OptionList).focus()

    def _list(self, follow: str | None = None) -> None:
        """Show what is saved now; the cursor goes to the one with the id ``follow``, or keeps its line."""
        self._saved = self._store.list()
        options = self.query_one(OptionList)
        places = {saved.id: at for at, saved in enumerate(self._saved)}
        at = places.get(follow or "", options.highlighted or 0)
        rows = [Option(self._row(saved)) for saved in self._saved]
        options.set_options(rows or [Option(Content("nothing is saved yet"), disabled=True)])
        options.highlighted = min(at, len(rows) - 1) if rows else None
        self.query_one("#open", Static).update(Content(self.safe(f"open: {self._current().title}", "")))

    def _row(self, saved: Saved) -> Content:
        is_open = saved.id == self._current().id
        title = (f"{'* ' if is_open else '  '}{self.safe(saved.title, '')}", "bold")
        if saved.problem is not None:
            return Content.assemble(title, ("\n  " + self.safe(saved.problem, ""), "$text-error"))
        count = f"{saved.messages} message{'s' * (saved.messages != 1)}"
        return Content.assemble(title, f"\n  {count}, {ago(self._now() - saved.modified)}")

    @property
    def _chosen(self) -> Saved | None:
        at = self.query_one(OptionList).highlighted
        return self._saved[at] if at is not None and at < len(self._saved) else None

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        chosen = self._chosen
        if chosen is None:
            return
        if chosen.id == self._current().id:
            self.dismiss(self._current())
            return

        def open_it() -> None:
            self._keep()
            self.dismiss(self._store.load(chosen.id))

        self._try(open_it)

    def action_new(self) -> None:
        """Close with an empty conversation."""

        def begin() -> None:
            self._keep()
            self.dismiss(Conversation())

        self._try(begin)

    def action_rename(self) -> None:
        """Ask for another name."""
        chosen = self._chosen
        if chosen is None or chosen.problem is not None:
            return

        def rename(name: str | None) -> None:
            if name:
                self._try(lambda: self._rename(chosen, name))

        self.app.push_screen(TextModal("Rename the conversation", chosen.title), rename)

    def _rename(self, chosen: Saved, name: str) -> None:
        if chosen.id == self._current().id:
            self._change(self._store.save(self._current().renamed(name)))
        else:
            self._store.rename(chosen.id, name)
        self._list(follow=chosen.id)

    def action_delete(self) -> None:
        """Delete it, if the user is sure."""
        chosen = self._chosen
        if chosen is None:
            return
        question = ConfirmModal(
            f"Delete {chosen.title}?", "It cannot be brought back.", yes="Delete", danger=True
        )
        self.app.push_screen(question, lambda yes: self._try(lambda: self._delete(chosen)) if yes else None)

    def _delete(self, chosen: Saved) -> None:
        if chosen.id == self._current().id:
            self.dismiss(Delete(chosen.id))
            return
        self._store.delete(chosen.id)
        self._list()

    def action_import(self) -> None:
        """Close with the messages of a context file."""

        def read(name: str | None) -> None:
            if name:
                self._try(lambda: self._import(name))

        detail = 'A JSON list of {"role": ..., "content": ...}'
        self.app.push_screen(
            TextModal("Import a context file", placeholder="context.json", detail=detail), read
        )

    def _import(self, name: str) -> None:
        made = import_context(str(user_path(name)))
        self._keep()
        self.dismiss(made)

    def action_export(self) -> None:
        """Write the open conversation; an existing file is asked about."""

        def write(name: str | None) -> None:
            if name:
                self._try(lambda: self._export_to(user_path(name)))

        self.app.push_screen(TextModal("Export the open conversation as", "context.json"), write)

    def _export_to(self, path: Path) -> None:
        if not path.exists():
            self._export(path)
            return
        question = ConfirmModal(f"Replace {path}?", "The file exists.", yes="Replace", danger=True)
        self.app.push_screen(question, lambda yes: self._try(lambda: self._export(path)) if yes else None)

    def _export(self, path: Path) -> None:
        export_context(self._current(), path)
        self.notify(self.safe(f"Wrote {path}", ""), markup=False)

    def _keep(self) -> None:
        """Nothing of the open conversation is lost when another one takes its place."""
        current = self._current()
        if current.messages:
            self._change(self._store.save(current))

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (SpeculateError, OSError) as error:  # OSError: a name too long to be looked for
            known = error if isinstance(error, SpeculateError) else DiskError(error.strerror or str(error))
            self.app.push_screen(ErrorModal.of(known))

    @on(Button.Pressed)
    async def _pressed(self, event: Button.Pressed) -> None:
        await self.run_action("leave" if event.button.id == "close" else f"{event.button.id}")

    def action_leave(self) -> None:
        """Close; the open conversation stays."""
        self.dismiss(None)


def ago(seconds: float) -> str:
    """A time span for a reader."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' * (count != 1)} ago"
    return "just now"
