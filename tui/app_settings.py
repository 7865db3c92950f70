"""The actions that change settings, models and the choice of the conversation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from textual import on

from engine.config import Config
from engine.config_tables import AUTO, MOST_FIXED_DRAFTS
from engine.errors import ConfigError, DiskError
from engine.registry import DRAFTERS, RULES
from tui.app_messages import MessageApp
from tui.changes import problem_of, with_drafter, with_rule
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.drafting import drafter_words, is_synthetic, rule_words
from tui.settings_form import fields
from tui.widgets.messages import DraftsChosen


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
        now = self.lab.config.draft.num_draft_tokens
        if now == AUTO:  # from what was chosen last on it is the user's again
            rounds = self.lab.state.rounds
            now = rounds[-1].k if rounds else 0
        count = now + by
        if 1 <= count <= MOST_FIXED_DRAFTS:
            self.change({"draft.num_draft_tokens": count})

    def action_change_auto(self) -> None:
        if self.lab.config.draft.num_draft_tokens != AUTO:
            self.change({"draft.num_draft_tokens": AUTO})

    @on(DraftsChosen)
    def _drafts_chosen(self, event: DraftsChosen) -> None:
        """A K of the prediction becomes the setting."""
        if self.lab.replay is not None:
            self.say(f"A recording stays as it was. Fork it with b to go on with K = {event.k}.")
        elif event.k == 0:
            self.say("K = 0 is plain decoding. An automatic K drafts only where that pays.")
        elif event.k == self.lab.config.draft.num_draft_tokens:
            self.say(f"K is {event.k} already.")
        elif self.change({"draft.num_draft_tokens": event.k}):
            self.say(f"K is {event.k} from the next round on.")

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
        from tui.screens.message import Choice, ChoiceModal

        now = self.lab.config.verify.verify_strategy
        choices = [
            Choice(name, rule_words(name).capitalize(), entry.summary) for name, entry in RULES.items()
        ]
        self.push_screen(
            ChoiceModal("How are drafts judged?", choices, f"now: {rule_words(now)}"), self._rule
        )

    def _rule(self, rule: str | None) -> None:
        now = self.lab.config
        if rule is None or rule == now.verify.verify_strategy:
            return
        try:
            other = with_rule(now, rule, self._sampled_at)
        except ConfigError as error:
            self.show_error(error)
            return
        if now.sampling.temperature is not None:
            self._sampled_at = now.sampling.temperature
        self.lab.change(other)
        self.say(f"Drafts are judged by {rule.replace('_', ' ')} from the next round on.")

    def action_change_drafter(self) -> None:
        from tui.screens.message import Choice, ChoiceModal

        choices = [
            Choice(name, name.replace("_", " ").capitalize(), entry.summary)
            for name, entry in DRAFTERS.items()
        ]
        draft = self.lab.config.draft
        now = drafter_words(draft.method, draft.model_name)
        self.push_screen(ChoiceModal("Who drafts?", choices, f"now: {now}"), self._drafter)

    def _drafter(self, method: str | None) -> None:
        if method is None:
            return
        entry = DRAFTERS[method]
        if is_synthetic(method):
            self._ask_acceptance(method)
        elif method == "model" or (entry.loads_model and self.lab.config.draft.model_name is None):
            if method != "model":
                self.say("First the model that it drafts with; then choose it again.")
            self.action_models_pick()
        else:
            self._draft_by(method)

    def _draft_by(self, method: str, acceptance: str | None = None) -> None:
        try:
            other = with_drafter(self.lab.config, method, acceptance)
        except ConfigError as error:
            self.show_error(error)
            return
        self.lab.change(other)

    def _ask_acceptance(self, method: str) -> None:
        """Of a drafter that knows the answer: how often it is right."""
        from tui.screens.message import TextModal

        config, key = self.lab.config, "draft.acceptance"

        def wrong(text: str) -> str | None:
            return problem_of(config, key, text, method)

        def chosen(text: str | None) -> None:
            if text is not None:
                self._draft_by(method, text)

        question = TextModal(
            "Acceptance of the synthetic drafts",
            next(field.text(config.draft.acceptance) for field in fields() if field.key == key),
            placeholder="0.8, or a number for each place: [0.9, 0.7, 0.5]",
            detail="How often a draft is right. What such a run measures is labelled synthetic.",
            check=wrong,
        )
        self.push_screen(question, chosen)

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
