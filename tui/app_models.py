"""The part of the app that deals with models: loading, fetching, asking the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on, work

from engine.config import Config
from engine.errors import ConfigError, SpeculateError
from engine.registry import DRAFTERS
from engine.session import Session
from tui.changes import with_values
from tui.lab import Lab
from tui.lab_runs import told_error
from tui.safe_text import visible
from tui.screens.live import LiveScreen
from tui.screens.model_requests import CancelLoad, CheckPair, EjectModel, LoadModel
from tui.themes import ThemedApp

if TYPE_CHECKING:
    from tui.screens.models import ModelPicker


class ModelApp(ThemedApp[int]):
    """Loads models and changes settings."""

    lab: Lab
    ascii: bool
    picker: ModelPicker | None = None
    _wanting: list[Callable[[], object]]
    """What is to be done when models are there."""

    @property
    def live(self) -> LiveScreen:
        """The live screen, which is always there."""
        screen = self.screen_stack[0]
        assert isinstance(screen, LiveScreen), f"{screen} is the bottom of the stack"
        return screen

    def say(self, text: str, severity: str = "information") -> None:
        """A toast: something good to know."""
        safe = visible(text, ascii_only=self.ascii)
        self.notify(safe, severity="warning" if severity == "warning" else "information", markup=False)

    def show_error(self, error: SpeculateError) -> None:
        """What went wrong, in a dialog."""
        from tui.screens.message import ErrorModal

        self.push_screen(ErrorModal.of(error))

    # -- models

    def ask_engine(self, function: Callable[[Session], object], reply: Callable[[object], None]) -> None:
        """Run a function on the engine's thread; the reply comes here."""

        def send(value: object) -> None:
            self.call_later(reply, value)

        self.lab.ask(function, send)

    def with_models(self, action: Callable[[], object]) -> None:
        """Do something that needs models: at once, or when they are loaded. If that fails it is dropped."""
        if self.lab.loaded:
            action()
            return
        self._wanting.append(action)
        if self.lab.loading and self.lab.replay is None:
            self.lab.then("Load", self._models_came)
        else:
            self.load(self.lab.config)

    def _models_came(self) -> None:
        wanting, self._wanting = self._wanting, []
        if self.lab.loaded and self.lab.load_worked:
            for action in wanting:
                action()

    @work(exclusive=True, group="load")
    async def load(self, config: Config) -> None:
        """Load a pair; what has to be fetched is asked for first."""
        from tui.fetching import to_fetch

        missing = await asyncio.to_thread(to_fetch, config)
        if not missing:
            self.lab.load(config, self._models_came)
            return
        from tui.screens.message import ConfirmModal

        names = " and ".join(entry.name for entry in missing)
        detail = "\n".join(f"{entry.source}." for entry in missing)
        question = ConfirmModal(f"Fetch {names}?", detail, yes="Fetch", no="Not now")

        def answered(yes: bool | None) -> None:
            if yes:
                self.lab.load(config, self._models_came)
            else:
                self._wanting.clear()

        self.push_screen(question, answered)

    def change(self, values: dict[str, object]) -> bool:
        """Other settings, from the next round on; whether they are possible."""
        try:
            self.lab.change(with_values(self.lab.config, values))
        except ConfigError as error:
            self.show_error(error)
            return False
        return True

    @on(CheckPair)
    def _check_pair(self, event: CheckPair) -> None:
        from engine.models.check_pair import why_not_a_pair

        def show(value: object) -> None:
            error = told_error(value)
            reason = value if isinstance(value, str) else None
            if self.picker is not None:
                self.picker.show_pair(event.target, event.drafter, reason, error.message if error else None)

        self.ask_engine(lambda _: why_not_a_pair(event.target, event.drafter), show)

    @on(LoadModel)
    def _load_model(self, event: LoadModel) -> None:
        key = "verify.model_name" if event.role == "target" else "draft.model_name"
        values: dict[str, object] = {key: event.name, "draft.method": self._method(event)}
        if event.alone:
            values |= {"draft.method": "lookup", "draft.model_name": None}
        try:
            config = with_values(self.lab.config, values)
        except ConfigError as error:
            self.show_error(error)
            return
        if self.lab.running:
            self.lab.change(config)
        else:
            self.lab.load(config)

    def _method(self, event: LoadModel) -> str:
        """How the pair is to draft: a drafter with another tokenizer can do so by few methods only."""
        now = self.lab.config.draft.method
        entry = DRAFTERS[now]
        if event.fits is False:
            return now if entry.any_tokenizer else "slem"
        if event.role == "target" and event.fits is None:
            return now
        return now if entry.loads_model and not entry.any_tokenizer else "model"

    @on(EjectModel)
    def _eject(self, event: EjectModel) -> None:
        if event.role == "target":
            self.lab.eject()
        else:
            self.change({"draft.method": "lookup", "draft.model_name": None})

    @on(CancelLoad)
    def _cancel_load(self) -> None:
        self.lab.cancel()
