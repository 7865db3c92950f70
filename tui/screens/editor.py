"""One message in a large field, or in the user's own editor."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from engine.context import ROLES, Message
from engine.errors import SpeculateError
from tui.external_editor import edit_outside, editor_command
from tui.screens.dialog import Dialog, plain
from tui.widgets.inputs import SafeSelect, SafeTextArea


class EditorModal(Dialog[Message | None]):
    """Edits a message; the result is the new one, or None if it was left.

    Args:
        message: what to begin with.
        title: what is being done: "Edit message 3".
        fixed_role: whether the role stays, as with the system prompt.
        may_be_empty: whether an empty text can be saved, as with the system prompt.
    """

    HELP: ClassVar[str] = (
        "Write the message. Ctrl+S saves it, Escape leaves. "
        "F4 opens it in your own editor, the one that VISUAL or EDITOR names. "
        "The role says who speaks: the model answers as the assistant."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="editor.save", tooltip="Take the message over"),
        Binding(
            "f4",
            "outside",
            "Own editor",
            id="editor.outside",
            tooltip="Edit the text in the program that VISUAL or EDITOR names",
        ),
        Binding(
            "down",
            "app.focus_next",
            "Next",
            id="editor.next",
            tooltip="To the text",
            show=False,
        ),
    ]
    KEYS = (("tab", "next"),)
    DEFAULT_CSS = """
    EditorModal > .box { width: 94%; max-width: 110; height: 90%; }
    EditorModal .head { height: 1; margin-bottom: 1; }
    EditorModal .head .title { width: 1fr; margin: 0; }
    EditorModal .head Select { width: 20; }
    EditorModal .head Select > SelectCurrent { border: none; height: 1; padding: 0 1; background: $panel; }
    EditorModal .box TextArea, EditorModal .box TextArea:focus {
        height: 1fr; border: none; padding: 0 1; background: $boost;
    }
    EditorModal .buttons { margin-top: 0; }
    """

    def __init__(
        self, message: Message, title: str, *, fixed_role: bool = False, may_be_empty: bool = False
    ) -> None:
        super().__init__()
        self._message, self._title = message, title
        self._fixed_role, self._may_be_empty = fixed_role, may_be_empty
        self._shown_text = message.content

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with Horizontal(classes="head"):
                yield plain(self._title, "title")
                yield SafeSelect(
                    [(role, role) for role in ROLES],
                    value=self._message.role,
                    allow_blank=False,
                    disabled=self._fixed_role,
                    compact=True,
                )
            yield SafeTextArea(
                self._message.content, soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False
            )
            yield Static("", id="problem", classes="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Own editor", id="outside", compact=True)
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Save", id="save", variant="primary", compact=True)

    def on_mount(self) -> None:
        field = self._field
        field.move_cursor(field.document.end)
        self._shown_text = field.text  # the field keeps one kind of line ends only
        field.focus()

    @property
    def _field(self) -> SafeTextArea:
        return self.query_one(SafeTextArea)

    @property
    def result(self) -> Message:
        """The message as it stands."""
        text = self._field.text
        role = self.query_one(SafeSelect).value
        assert isinstance(role, str), "the selector allows no blank"
        return Message(role, self._message.content if text == self._shown_text else text)

    @property
    def unsaved(self) -> bool:
        return self.result != self._message

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Close with the message."""
        result = self.result
        if not result.content.strip() and not self._may_be_empty:
            self._say("The message is empty: write something, or leave with Escape.")
            return
        self.dismiss(result)

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_leave()

    @on(Button.Pressed, "#outside")
    def action_outside(self) -> None:
        """Hand the terminal to the user's editor until it ends."""
        before, text, failure = self.result.content, None, None
        try:
            command = editor_command()
            with self.app.suspend():
                # The terminal comes back only if nothing is raised in here.
                try:
                    text = edit_outside(before, command)
                except Exception as error:  # noqa: BLE001  # raised again below
                    failure = error
        except SuspendNotSupported:
            self._say("This terminal cannot be handed to another program.")
            return
        except SpeculateError as error:
            failure = error
        if isinstance(failure, SpeculateError):
            self._say(f"{failure.message}. {failure.hint or ''}")
        elif failure is not None:
            raise failure
        else:
            self._say("")
        if text is not None and text != before:
            self._field.load_text(text)
            self._field.move_cursor(self._field.document.end)
        self._field.focus()

    def _say(self, problem: str) -> None:
        self.query_one("#problem", Static).update(Content(self.safe(problem)))
