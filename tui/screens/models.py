"""Which model is the target and which one drafts: the models at hand, and what holds memory now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input, OptionList, Static

from engine.config import Config
from engine.errors import ModelError
from engine.events import ModelInfo
from engine.models.memory import free_memory, shown
from tui.model_list import ModelEntry, entry_for, find_models, folders_of, item_bytes
from tui.screens.dialog import Dialog, plain
from tui.screens.message import Choice, ChoiceModal, ConfirmModal
from tui.screens.model_requests import CancelLoad, CheckPair, EjectModel, LoadModel
from tui.screens.model_rows import ModelRows, held_text, load_text
from tui.state import Phase, ViewState
from tui.widgets.inputs import SafeInput

ROLES = ("target", "drafter")


class ModelPicker(Dialog[None]):
    """The models: it only asks, by messages; the app answers with ``show`` and ``show_pair``.

    Args:
        config: names the pair that is wanted now.
        find: lists the models at hand; called in a thread.
        free: bytes of memory that are free.
    """

    HELP: ClassVar[str] = (
        "The models at hand, how much they need, whether that fits into memory. Slash goes to the filter; "
        "what is typed there filters the list, or names another one: a Hub id, a folder, a .gguf file. Down "
        "goes back to the list. On the list, t loads the model as the target, d as the drafter, v checks "
        "whether it can draft, x frees memory. Enter asks what to load it as. Downloads are asked for first."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,f3", "name", "Filter", id="models.name", tooltip="Filter, or name another model"),
        Binding("down", "to_list", "List", id="models.list", tooltip="To the list", show=False),
    ]
    KEYS = (("enter", "load"),)
    DEFAULT_CSS = """
    ModelPicker > .box { width: 96%; max-width: 104; height: 94%; }
    ModelPicker .held { height: 1; }
    ModelPicker .held Static { width: 1fr; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    ModelPicker .held Button { min-width: 9; margin-left: 1; background: $panel; }
    ModelPicker .title { margin: 0; }
    ModelPicker #name { margin-top: 1; }
    ModelPicker .box OptionList { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; }
    ModelPicker #told { height: auto; max-height: 4; }
    ModelPicker .buttons { margin: 0; }
    """

    def __init__(
        self,
        config: Config,
        *,
        find: Callable[[], Sequence[ModelEntry]] | None = None,
        free: Callable[[], int] = free_memory,
    ) -> None:
        super().__init__()
        self._names = {"target": config.verify.model_name, "drafter": config.draft.model_name}
        self._item_bytes = item_bytes(config.run.dtype)
        folders = folders_of(self._names.values())
        self._find = find or (lambda: find_models(folders))
        self._free = free
        self._entries: tuple[ModelEntry, ...] | None = None
        self._state = ViewState()
        self._wanted: tuple[str, str] | None = None  # role and name that wait for the pair's check
        self._told = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("Models", "title", id="title")
            for role in ROLES:
                with Horizontal(classes="held"):
                    yield Static("", id=f"held-{role}", markup=False)
                    yield Button("Eject", id=f"eject-{role}", compact=True)
            yield SafeInput(
                placeholder="/ filter, or a Hub id, folder or .gguf file", id="name", compact=True
            )
            yield ModelRows()
            yield Static("", id="told", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel load", id="cancel", compact=True, variant="warning")
                yield Button("Target", id="as-target", compact=True, variant="primary")
                yield Button("Drafter", id="as-drafter", compact=True, variant="primary")
                yield Button("Close", id="close", compact=True)

    def on_mount(self) -> None:
        self.query_one(ModelRows).focus()
        self._list()
        self._show_held()
        self.look()

    @work(exclusive=True)
    async def look(self) -> None:
        """List the models again."""
        self._entries = tuple(await asyncio.to_thread(self._find))
        self._list()

    # -- what the app tells

    def show(self, state: ViewState) -> None:
        """The models held and the progress of a load; called whenever something changed."""
        before, self._state = self._state, state
        for role in ROLES:
            info = self._held(role)
            self._names[role] = self._names[role] if info is None else info.name
        if not self._is_open:
            return
        held = before.target is not state.target or before.drafter is not state.drafter
        if held or before.load is not state.load or before.phase is not state.phase:
            self._show_held()
        if held and state.load is None:
            self.look()

    @property
    def _is_open(self) -> bool:
        return bool(self.query(ModelRows))

    def show_pair(self, target: str, drafter: str, reason: str | None, fault: str | None = None) -> None:
        """The answer to ``CheckPair``: why the vocabularies differ, None if they do not; or why it is not
        known, which keeps the two apart."""
        if not self._is_open:
            return
        wanted, self._wanted = self._wanted, None
        if wanted is None or wanted[1] not in (target, drafter):
            self._say(_verdict(target, drafter, reason, fault))
            return
        role, name = wanted
        if fault is None:
            fit = "The vocabularies fit." if reason is None else f"Drafts go over as text (slem): {reason}"
            self._say(fit)
            self._ask(LoadModel(role, name, fits=reason is None))
        elif role == "drafter":
            self._say(f"x {name} cannot draft for {target}: {fault}")
        else:
            question = ConfirmModal(
                "The drafter does not fit this target",
                f"{drafter}: {fault}",
                yes="Load it with lookup drafting",
            )
            self.app.push_screen(
                question, lambda yes: self._ask(LoadModel(role, name, alone=True)) if yes else None
            )

    # -- what the user does

    @on(Input.Changed, "#name")
    def _filtered(self) -> None:
        self._list()

    @on(Input.Submitted, "#name")
    @on(OptionList.OptionSelected)
    def _chosen(self) -> None:
        name = self.query_one(ModelRows).chosen
        if name is None:
            return
        choices = [
            Choice("target", "As the target", "The model whose text you want."),
            Choice("drafter", "As the drafter", "It guesses, and the target judges."),
        ]
        self.app.push_screen(
            ChoiceModal("Load the model", choices, name),
            lambda role: self.action_load(role) if role else None,
        )

    def action_load(self, role: str) -> None:
        """Load the highlighted model; what must be fetched is asked for first."""
        entry = None if self._state.phase is Phase.LOADING else self._usable()
        if entry is None:
            return
        if entry.here:
            self._load(role, entry)
            return
        question = ConfirmModal(f"Fetch {entry.name}?", f"{entry.source}.", yes="Fetch", no="Not now")
        self.app.push_screen(question, lambda yes: self._load(role, entry) if yes else None)

    def _load(self, role: str, entry: ModelEntry) -> None:
        names = {**self._names, role: entry.name}
        target, drafter = names["target"], names["drafter"]
        others = {known.name for known in self._entries or () if known.here}
        other = drafter if role == "target" else target
        if entry.here and target and drafter and target != drafter and other in others:
            self._wanted = (role, entry.name)
            self._say("Comparing the two vocabularies ...")
            self._ask(CheckPair(target, drafter))
            return
        self._ask(LoadModel(role, entry.name))

    def action_check(self) -> None:
        """Ask whether the highlighted model can draft for the target."""
        entry, target = self._usable(), self._names["target"]
        if entry is None or target is None:
            return
        if not entry.here:
            self._say(f"x {entry.name} is not here yet: its vocabulary cannot be read.")
            return
        self._wanted = None
        self._say("Comparing the two vocabularies ...")
        self._ask(CheckPair(target, entry.name))

    @on(ModelRows.Wanted)
    def _wanted_by_key(self, event: ModelRows.Wanted) -> None:
        actions = {"check": self.action_check, "eject": self.action_eject}
        actions.get(event.what, lambda: self.action_load(event.what))()

    def action_eject(self) -> None:
        """Free a model; with two of them it is asked which."""
        held = [role for role in ROLES if self._held(role) is not None]
        if len(held) == 1:
            self._ask(EjectModel(held[0]))
        elif held:
            choices = [
                Choice(role, f"The {role}", held_text(self._held(role), self._names[role])) for role in held
            ]
            self.app.push_screen(
                ChoiceModal("Free which model?", choices),
                lambda role: self._ask(EjectModel(role)) if role else None,
            )

    def action_name(self) -> None:
        """To the field for a name."""
        self.query_one("#name").focus()

    def action_to_list(self) -> None:
        """From the field to the list."""
        self.query_one(ModelRows).focus()

    def hints(self) -> Iterable[tuple[str, str]]:
        """The keys; in the field, the one that leads back to the list too."""
        return [*([("down", "list")] if isinstance(self.focused, Input) else []), *super().hints()]

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        what, _, role = (event.button.id or "").partition("-")
        self.action_to_list()  # the keys act there
        if what == "as":
            self.action_load(role)
        elif what == "eject":
            self._ask(EjectModel(role))
        elif what == "cancel":
            self._ask(CancelLoad())
        else:
            self.dismiss(None)

    def _usable(self) -> ModelEntry | None:
        """The highlighted model, unless it cannot be used: then it is said why."""
        name = self.query_one(ModelRows).chosen
        if name is None:
            return None
        try:
            return entry_for(name, self._entries or ())
        except ModelError as error:
            self._say(f"x {error.message}. {error.hint or ''}")
            return None

    def _ask(self, request: Message) -> None:
        self.post_message(request)

    # -- what is shown

    def _held(self, role: str) -> ModelInfo | None:
        return self._state.target if role == "target" else self._state.drafter

    def _show_held(self) -> None:
        loading = self._state.phase is Phase.LOADING
        for role in ROLES:
            text = self.safe(f"{role:<8} {held_text(self._held(role), self._names[role])}", "")
            self.query_one(f"#held-{role}", Static).update(Content(text))
            self.query_one(f"#eject-{role}").display = self._held(role) is not None and not loading
        self.query_one("#cancel").display = loading
        for role in ROLES:
            self.query_one(f"#as-{role}", Button).disabled = loading
        if self._state.load is not None:
            self._say(load_text(self._state.load, ascii_only=self.ascii), remember=False)
        else:
            self._say(self._told)

    def _list(self) -> None:
        """Fill the list with what matches the field."""
        free = self._free()
        self.query_one("#title", Static).update(Content(f"Models        {shown(free)} of memory free"))
        words = self.query_one("#name", Input).value.strip()
        self.query_one(ModelRows).fill(self._entries, words, free, self._item_bytes, ascii_only=self.ascii)

    def _say(self, text: str, *, remember: bool = True) -> None:
        if remember:
            self._told = text
        self.query_one("#told", Static).update(Content(self.safe(text)))


def _verdict(target: str, drafter: str, reason: str | None, fault: str | None) -> str:
    """Whether one can draft for the other, and how."""
    if fault is not None:
        return f"x {drafter} cannot draft for {target}: {fault}"
    if reason is not None:
        return f"{drafter} can draft for {target} over text (slem): {reason}"
    return f"{drafter} can draft for {target}: the vocabularies fit."
