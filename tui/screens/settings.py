"""A form over the configuration: every key with its sentence, checked while it is filled in."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Static

from engine.config import Config
from engine.errors import SpeculateError
from tui.atomic_file import user_path
from tui.config_file import save_config
from tui.screens.dialog import Dialog, plain
from tui.screens.message import ErrorModal, TextModal
from tui.screens.settings_row import FieldRow
from tui.settings_form import Checked, Reach, changed, check, fields, in_use, matching, tables, texts_of
from tui.widgets.inputs import SafeInput


class _Fields(VerticalScroll, can_focus=False, inherit_bindings=False):
    """All fields. Up and down are not for scrolling here: the next field comes into sight by itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "page_down", "Page down", tooltip="A page down", show=False),
        Binding("pageup", "page_up", "Page up", tooltip="A page up", show=False),
    ]


class SettingsScreen(Dialog[Config | None]):
    """The settings; the result is the new configuration, or None if it was left.

    Args:
        config: what holds now.
        path: the file it came from; None for a preset, then saving asks for one.
    """

    HELP: ClassVar[str] = (
        "Every key of the configuration, with what it means. Changed ones carry a star and say from when on "
        "they count. Apply uses the settings without writing a file; Save writes the file too, and keeps its "
        "comments. An empty field has its default. Up and down go from field to field, Enter or Space opens "
        "a list of choices, F3 goes to the filter."
    )
    LEAVE_QUESTION = "Leave the settings?"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", id="settings.save", tooltip="Write the file and use it"),
        Binding("f2", "apply", "Apply", id="settings.apply", tooltip="Use the settings, write no file"),
        Binding(
            "f3,slash", "filter", "Filter", id="settings.filter", tooltip="Show the keys with a word only"
        ),
        Binding("down", "app.focus_next", "Next field", id="settings.next", tooltip="Next field", show=False),
        Binding(
            "up",
            "app.focus_previous",
            "Field before",
            id="settings.previous",
            tooltip="Field before",
            show=False,
        ),
    ]
    KEYS = (("up down", "field"),)
    DEFAULT_CSS = """
    SettingsScreen > .box { width: 96%; max-width: 104; height: 94%; }
    SettingsScreen .head { height: 1; margin-bottom: 1; }
    SettingsScreen .head .title { width: auto; margin: 0 2 0 0; }
    SettingsScreen .head #filter { width: 1fr; max-width: 40; }
    SettingsScreen VerticalScroll { height: 1fr; scrollbar-gutter: stable; scrollbar-size-vertical: 1; }
    SettingsScreen .table { height: auto; text-style: bold; color: $text-primary; margin-top: 1; }
    SettingsScreen .foot { height: 1; }
    SettingsScreen .foot #summary { width: 1fr; height: 1; color: $text-muted; }
    SettingsScreen .foot Button { margin-left: 1; min-width: 8; }
    SettingsScreen .foot Button.-default { background: $panel; }
    """

    def __init__(self, config: Config, path: Path | None = None) -> None:
        super().__init__()
        self._config = config
        self._form = fields()
        self._before = texts_of(config)
        self._checked = Checked(config, {})
        self.path = path
        """The file that was saved last, or would be."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with Horizontal(classes="head"):
                yield plain("Settings", "title")
                yield SafeInput(placeholder="filter", id="filter", compact=True)
            with _Fields():
                for table, about in tables().items():
                    yield plain(f"[{table}]  {about}", f"table {table}")
                    for field in self._form:
                        if field.table == table:
                            yield FieldRow(field, self._before[field.key])
            with Horizontal(classes="foot"):
                yield Static("", id="summary", markup=False)
                yield Button("Cancel", id="cancel", compact=True)
                yield Button("Apply", id="apply", compact=True)
                yield Button("Save", id="save", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query(FieldRow).first().control.focus()
        self._check()

    @property
    def texts(self) -> dict[str, str]:
        """What the form says, by dotted key."""
        return {row.field.key: row.text for row in self.query(FieldRow)}

    @property
    def unsaved(self) -> bool:
        return bool(changed(self._before, self.texts, self._form))

    @on(FieldRow.Changed)
    def _check(self) -> None:
        texts = self.texts
        self._checked = check(texts, self._form)
        new = {field.key for field in changed(self._before, texts, self._form)}
        for row in self.query(FieldRow):
            key = row.field.key
            used = in_use(key, texts["draft.method"])
            reach = self._reach(row.field.reach) if key in new else ""
            row.show(reach=reach, problem=self._checked.problems.get(key, ""), in_use=used)
        self.query_one("#summary", Static).update(Content(self.safe(self._summary())))

    def _summary(self) -> str:
        if self._checked.problems:
            count = len(self._checked.problems)
            return f"x {count} field{'s' * (count > 1)} to put right"
        new = changed(self._before, self.texts, self._form)
        if not new:
            return "nothing changed"
        reload = any(self._reach(field.reach) is Reach.RELOAD for field in new)
        return f"{len(new)} changed{'; models are loaded again' if reload else ''}"

    def _reach(self, reach: Reach) -> Reach:
        """Where no model is loaded, none is loaded again."""
        lab = getattr(self.app, "lab", None)
        return Reach.RUN if reach is Reach.RELOAD and lab is not None and not lab.loaded else reach

    @on(Input.Changed, "#filter")
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._show_matching(event.value)

    def _show_matching(self, words: str) -> None:
        shown = matching(self._form, words)
        for row in self.query(FieldRow):
            row.display = row.field.key in shown
        for table in tables():
            self.query_one(f".table.{table}").display = any(key.startswith(f"{table}.") for key in shown)

    def action_filter(self) -> None:
        """To the filter box."""
        self.query_one("#filter").focus()

    @on(Button.Pressed, "#apply")
    def action_apply(self) -> None:
        """Close with the new configuration."""
        config = self._valid()
        if config is not None:
            self.dismiss(config)

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Write the file, asking for one if there is none yet, and close with the new configuration."""
        config = self._valid()
        if config is None:
            return
        if self.path is not None:
            self._save(config, str(self.path))
            return
        ask = TextModal(
            "Save the settings as", "config.toml", detail="A file that exists keeps its comments."
        )
        self.app.push_screen(ask, lambda name: self._save(config, name) if name else None)

    def _save(self, config: Config, name: str) -> None:
        try:
            path = user_path(name)
            save_config(config, path)
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error))
            return
        self.path = path
        self.notify(f"Saved {self.safe(str(path))}", markup=False)
        self.dismiss(config)

    def _valid(self) -> Config | None:
        """The configuration; where something is wrong, the focus goes there."""
        if self._checked.config is None:
            wrong = next(
                (row for row in self.query(FieldRow) if row.field.key in self._checked.problems), None
            )
            if wrong is not None:
                with self.prevent(Input.Changed):
                    self.query_one("#filter", Input).value = ""
                self._show_matching("")
                wrong.control.focus()
        return self._checked.config

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.action_leave()
