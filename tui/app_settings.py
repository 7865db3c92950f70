"""The actions that change settings, models and the choice of the conversation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from engine.config import Config
from engine.errors import ConfigError, DiskError
from tui.app_messages import MessageApp
from tui.changes import MAX_DRAFTS, other_rule, problem_of
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore


class SettingsApp(MessageApp):
    """The part of the app that exchanges what it works with."""

    store: ConversationStore
    config_path: Path | None = None
    _sampled_at: float | None = None
    """The temperature before greedy matching took its place."""

    # -- settings between rounds

    def action_change_more(self) -> None:
        self._drafts(1)

    def action_change_fewer(self) -> None:
        self._drafts(-1)

    def _drafts(self, by: int) -> None:
        count = self.lab.config.draft.num_draft_tokens + by
        if 1 <= count <= MAX_DRAFTS:
            self.change({"draft.num_draft_tokens": count})

    def action_change_temperature(self) -> None:
        from tui.screens.message import TextModal

        config = self.lab.config
        now = config.sampling.temperature
        question = TextModal(
            "Temperature",
            "" if now is None else f"{now:g}",
            placeholder="0 is greedy, 1 is the model's own law",
            detail="From the next round on, as a new segment.",
            check=lambda text: problem_of(config, "sampling.temperature", text),
        )
        self.push_screen(question, self._temperature)

    def _temperature(self, text: str | None) -> None:
        if text:
            self.change({"sampling.temperature": float(text)})

    def action_change_rule(self) -> None:
        now = self.lab.config
        try:
            other = other_rule(now, self._sampled_at)
        except ConfigError as error:
            self.show_error(error)
            return
        if now.sampling.temperature is not None:
            self._sampled_at = now.sampling.temperature
        self.lab.change(other)
        name = other.verify.verify_strategy.replace("_", " ")
        self.say(f"Drafts are judged by {name} from the next round on.")

    def action_change_drafter(self) -> None:
        from tui.screens.message import Choice, ChoiceModal

        choices = [
            Choice("lookup", "Lookup", "Copies from the text; no model is needed."),
            Choice("model", "A model", "Chosen from the list, whatever its tokenizer."),
        ]
        named = self.lab.config.draft.model_name
        self.push_screen(ChoiceModal("Who drafts?", choices, f"now: {named or 'lookup'}"), self._drafter)

    def _drafter(self, choice: str | None) -> None:
        if choice == "lookup":
            self.change({"draft.method": "lookup", "draft.model_name": None})
        elif choice == "model":
            self.action_models_pick()

    # -- models, settings, conversations

    def action_models_load(self) -> None:
        self.load(self.lab.config)

    def action_models_pick(self) -> None:
        from tui.screens.models import ModelPicker

        self.picker = ModelPicker(self.lab.config)
        self.push_screen(self.picker, lambda _: setattr(self, "picker", None))
        self.picker.show(self.lab.state)

    def action_settings_open(self) -> None:
        from tui.screens.settings import SettingsScreen

        def chosen(config: Config | None) -> None:
            if config is not None:
                self.lab.change(config)

        self.push_screen(SettingsScreen(self.lab.config, self.config_path), chosen)

    def action_talk_list(self) -> None:
        from tui.screens.conversations import ConversationsScreen, Delete

        lab = self.lab

        def chosen(result: Conversation | Delete | None) -> None:
            if isinstance(result, Delete):
                lab.when_free(partial(self._delete_open, result.id))
            elif result is not None and result is lab.own:
                lab.go_live()
            elif result is not None:
                lab.when_free(partial(self._open, result))

        self.push_screen(ConversationsScreen(self.store, lambda: lab.own, lab.set_own), chosen)

    def _open(self, talk: Conversation) -> None:
        self.lab.open(talk)
        self.store.opened(talk)

    def _delete_open(self, id_: str) -> None:
        """Once nothing is written into it any more."""
        self.lab.open(Conversation())
        try:
            self.store.delete(id_)
        except DiskError as error:
            self.show_error(error)

    def action_talk_new(self) -> None:
        self.lab.when_free(lambda: self.lab.open(Conversation()))
        self.live.message_line.focus()

    def action_talk_system(self) -> None:
        self.edit_system()

    def action_talk_thinking(self) -> None:
        self.toggle_thinking()
