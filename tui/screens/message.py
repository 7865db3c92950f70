"""Small dialogs: an error, a question, a choice, one line of text; another token is in ``branch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.button import ButtonVariant
from textual.widgets.option_list import Option

from engine.errors import SpeculateError
from engine.events import Failed
from tui.clipboard import copy
from tui.safe_text import visible
from tui.screens.dialog import Dialog, plain
from tui.widgets.inputs import SafeInput


class ErrorModal(Dialog[None]):
    """What happened, and what to do about it; can be copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "Copy", id="error.copy", tooltip="Copy the message to the clipboard"),
        Binding("enter", "leave", "Close", id="error.close", tooltip="Close the message", show=False),
    ]
    KEYS = (("enter", "press the button"), ("tab", "other button"))
    DEFAULT_CSS = """
    ErrorModal > .box { border: heavy $error; }
    ErrorModal VerticalScroll { height: auto; max-height: 16; scrollbar-gutter: stable; }
    ErrorModal VerticalScroll Static { height: auto; }
    ErrorModal .hint { margin-top: 1; }
    """

    def __init__(self, title: str, message: str, hint: str | None = None, details: str = "") -> None:
        super().__init__()
        self._title, self._message, self._hint, self._details = title, message, hint, details

    @classmethod
    def of(cls, error: SpeculateError | Failed) -> ErrorModal:
        """For an error of the engine, raised or told."""
        name = error.error if isinstance(error, Failed) else type(error).__name__
        return cls(_TITLES.get(name, "That did not work"), error.message, error.hint, name)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(f"x {self._title}", "title problem")
            with VerticalScroll(can_focus=False):
                yield plain(self._message)
                if self._hint:
                    yield plain(f"What to do: {self._hint}", "hint")
                if self._details:
                    yield plain(self._details, "quiet hint")
            with Horizontal(classes="buttons"):
                yield Button("Copy", id="copy", compact=True)
                yield Button("Close", id="close", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one("#close").focus()

    @property
    def text(self) -> str:
        """What is copied."""
        parts = (self._title, self._message, self._hint, self._details)
        return visible("\n".join(part for part in parts if part))

    @on(Button.Pressed, "#copy")
    def action_copy(self) -> None:
        """Put the message on the clipboard."""
        copy(self, self.text)

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.dismiss(None)


_TITLES = {
    "ConfigError": "The settings cannot be used",
    "ContextError": "The conversation cannot be used",
    "PromptTooLong": "The prompt is too long",
    "RecordingError": "The recording cannot be used",
    "ModelNotFound": "The model was not found",
    "ModelUnsupported": "The model cannot be run here",
    "VocabularyMismatch": "Drafter and target do not fit each other",
    "DoesNotFit": "Not enough memory",
    "OutOfMemory": "Memory ran out",
    "DownloadError": "The download failed",
    "DiskError": "A file could not be read or written",
    "NumericalError": "The model computed nonsense",
    "InvariantError": "A mistake in this program",
}


class ConfirmModal(Dialog[bool]):
    """A question with yes and no. The safe answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes", tooltip="Yes"),
        Binding("n", "answer(False)", "No", id="confirm.no", tooltip="No"),
    ]
    KEYS = (("enter", "press the button"), ("tab", "other button"))

    def __init__(
        self, question: str, detail: str = "", *, yes: str = "Yes", no: str = "No", danger: bool = False
    ) -> None:
        super().__init__()
        self._question, self._detail, self._yes, self._no, self._danger = question, detail, yes, no, danger

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(self._question, "title")
            if self._detail:
                yield plain(self._detail, "quiet")
            with Horizontal(classes="buttons"):
                yield Button(Content(visible(self._no)), id="no", compact=True)
                variant: ButtonVariant = "error" if self._danger else "primary"
                yield Button(Content(visible(self._yes)), id="yes", variant=variant, compact=True)

    def on_mount(self) -> None:
        self.query_one("#no" if self._danger else "#yes").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, yes: bool) -> None:
        """Close with an answer."""
        self.dismiss(yes)

    def action_leave(self) -> None:
        """Leaving means no."""
        self.dismiss(False)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several ways to go on."""

    id: str
    label: str
    detail: str = ""


class ChoiceModal(Dialog[str | None]):
    """A question with several answers: the id of the chosen one, or None."""

    KEYS = (("up down", "choose"), ("enter", "take it"))
    DEFAULT_CSS = """
    ChoiceModal .box OptionList { height: auto; max-height: 14; border: none; padding: 0; }
    """

    def __init__(self, question: str, choices: Sequence[Choice], detail: str = "") -> None:
        super().__init__()
        self._question, self._choices, self._detail = question, tuple(choices), detail

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(self._question, "title")
            if self._detail:
                yield plain(self._detail, "quiet")
            yield OptionList(*(Option(_choice(choice), id=choice.id) for choice in self._choices))
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)


def _choice(choice: Choice) -> Content:
    label = Content(visible(choice.label, "")).stylize("bold")
    return Content.assemble(label, "\n  ", visible(choice.detail, "")) if choice.detail else label


class TextModal(Dialog[str | None]):
    """One line of text, checked while it is typed.

    Args:
        check: says what is wrong with a text; None for nothing.
    """

    KEYS = (("enter", "OK"),)

    def __init__(
        self,
        question: str,
        value: str = "",
        *,
        placeholder: str = "",
        detail: str = "",
        check: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._question, self._value, self._detail = question, value, detail
        self._placeholder, self._check = placeholder, check

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(self._question, "title")
            if self._detail:
                yield plain(self._detail, "quiet")
            yield SafeInput(self._value, placeholder=self._placeholder, select_on_focus=False)
            yield Static("", id="problem", classes="problem", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("OK", id="ok", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._problem(event.value)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        self._accept(event.value)  # what was typed after the enter does not count

    @on(Button.Pressed, "#ok")
    def _pressed(self) -> None:
        self._accept(self.query_one(Input).value)

    def _accept(self, text: str) -> None:
        if not self._problem(text):
            self.dismiss(text.strip())

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)

    def _problem(self, given: str) -> bool:
        text = given.strip()
        problem = (self._check(text) or "") if text else "Type something, or press Escape."
        self.query_one("#problem", Static).update(Content(self.safe(problem)))
        return bool(problem)
