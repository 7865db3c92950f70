"""One key of the configuration in the form."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Select, Static, Switch

from tui.screens.dialog import Dialog, plain
from tui.settings_form import Field, Kind
from tui.widgets.inputs import SafeInput, SafeSelect


class FieldRow(Vertical):
    """One key: its name, a control, from when on a change counts, its sentence, what is wrong with it."""

    DEFAULT_CSS = """
    FieldRow { height: auto; padding: 0 1; }
    FieldRow > Horizontal { height: 1; }
    FieldRow .name { width: 22; height: 1; }
    FieldRow.-changed .name { text-style: bold; color: $text-warning; }
    FieldRow .control { width: 1fr; max-width: 44; }
    FieldRow Select.control > SelectCurrent { background: $panel; }
    FieldRow Switch.control { width: auto; height: 1; border: none; padding: 0; }
    FieldRow Switch.control:focus { border: none; background-tint: $foreground 20%; }
    FieldRow .reach { width: 12; height: 1; padding-left: 1; color: $text-muted; }
    FieldRow .sentence { height: auto; padding-left: 2; color: $text-muted; }
    FieldRow.-off { opacity: 50%; }
    """

    class Changed(Message):
        """The control says something else."""

    def __init__(self, field: Field, text: str) -> None:
        super().__init__(id="field-" + field.key.replace(".", "-"))
        self.field = field
        self._given = text
        self._shown = ("", "", True)

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield plain(f"  {self.field.name}", "name")
            yield self._control()
            yield plain("", "reach")
        yield plain(self.field.sentence, "sentence")

    def _control(self) -> Widget:
        field = self.field
        if field.kind is Kind.SWITCH:
            return Switch(self._given == "true", animate=False, classes="control")
        if field.kind is Kind.CHOICE:
            options = [(Content(label), value) for label, value in field.choices]
            return SafeSelect(options, value=self._given, allow_blank=False, compact=True, classes="control")
        return SafeInput(
            self._given, placeholder=field.placeholder, compact=True, select_on_focus=False, classes="control"
        )

    @property
    def control(self) -> Widget:
        """What is filled in."""
        return self.query_one(".control")

    @property
    def text(self) -> str:
        """What the control says."""
        control: Any = self.control
        if isinstance(control, Switch):
            return "true" if control.value else "false"
        return str(control.value)

    def show(self, *, reach: str, problem: str, in_use: bool) -> None:
        """Mark what is new and what is wrong; a key that is not in use cannot be filled in.

        Args:
            reach: from when on the change counts; "" where nothing changed.
        """
        if (reach, problem, in_use) == self._shown:
            return
        self._shown = (reach, problem, in_use)
        is_changed = bool(reach)
        self.set_class(is_changed, "-changed")
        self.set_class(not in_use, "-off")
        self.control.disabled = not in_use
        self.query_one(".name", Static).update(Content(f"{'*' if is_changed else ' '} {self.field.name}"))
        self.query_one(".reach", Static).update(Content(reach))
        wrong = (self._safe(f"\nx {problem}"), "$text-error bold") if problem else ""
        self.query_one(".sentence", Static).update(Content.assemble(self.field.sentence, wrong))

    def on_descendant_focus(self) -> None:
        """The sentence belongs on the screen too, once what changed around it is laid out."""
        self.call_after_refresh(self.scroll_visible, animate=False)

    def _safe(self, text: str) -> str:
        assert isinstance(self.screen, Dialog), "the rows belong to the form"
        return self.screen.safe(text)

    @on(Input.Changed)
    @on(Select.Changed)
    @on(Switch.Changed)
    def _told(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Changed())
