"""The actions of the app, one method each; ``tui.actions`` has their keys and when they apply."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from textual.app import SystemCommand
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

from engine.config import Config
from tui.actions import ACTIONS, Now, applies, topics
from tui.app_messages import MessageApp
from tui.changes import MAX_DRAFTS, other_rule, problem_of
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.demo import load_demo
from tui.themes import THEMES
from tui.widgets.messages import BranchRequested


class CommandApp(MessageApp):
    """The part of the app that carries out actions."""

    store: ConversationStore
    config_path: Path | None = None
    recorded: tuple[str, str] | None = None
    """Target and drafter of the recording that is shown."""

    @property
    def now(self) -> Now:
        """What decides which actions apply."""
        talk = self.lab.conversation
        return Now(
            state=self.lab.state,
            replay=self.lab.replay is not None,
            messages=len(talk),
            answered=self.lab.answered,
            can_undo=bool(talk.past),
            can_redo=bool(talk.future),
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action applies now."""
        if action != "quit" and len(self.screen_stack) > 1 and applies(action, parameters, self.now):
            return False  # a dialog is open: its own keys count
        found = applies(action, parameters, self.now)
        return super().check_action(action, parameters) if found is None else found

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette lists."""
        del screen
        now = self.now
        for action in ACTIONS:
            if action.when(now):
                call = action.name
                yield SystemCommand(action.title, action.tooltip, lambda call=call: self._run_later(call))
        for theme in THEMES:
            title = f"Theme: {theme.name.removeprefix('spec-')}"
            yield SystemCommand(title, "Use these colours", lambda name=theme.name: self._use_theme(name))

    def action_command_palette(self) -> None:
        from tui.screens.palette import PALETTE_ID, Palette

        if self.screen.id != PALETTE_ID:
            self.push_screen(Palette(id=PALETTE_ID))

    def _run_later(self, call: str) -> None:
        self.call_later(self.run_action, call)

    def _use_theme(self, name: str) -> None:
        self.theme = name

    # -- runs

    def action_run_start(self) -> None:
        again = self.lab.answered
        self.with_models(lambda: self.lab.start(new_seed=again))

    def action_run_again(self) -> None:
        self.lab.start()

    def action_run_pause(self) -> None:
        self.lab.toggle_pause()

    def action_run_round(self) -> None:
        if self.lab.replay is not None:
            self.lab.next_round()
        else:
            self.with_models(self.lab.next_round)

    def action_run_token(self) -> None:
        if self.lab.replay is not None:
            self.lab.next_token()
        else:
            self.with_models(self.lab.next_token)

    def action_run_cancel(self) -> None:
        self.lab.cancel()

    def action_run_continue(self) -> None:
        self.with_models(self.lab.go_on)

    def action_run_branch(self) -> None:
        index = self.live.output.cursor
        if index is None:
            self.live.go_to("output")
            self.say("Choose a token with left and right, then press b.")
        else:
            self.branch_at(BranchRequested(index))

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
        self.lab.change(other_rule(self.lab.config))
        self.say(f"Drafts are judged by {self.lab.config.verify.verify_strategy} from the next round on.")

    def action_change_drafter(self) -> None:
        from tui.screens.message import Choice, ChoiceModal

        choices = [
            Choice("lookup", "Lookup", "Copies from the text; no model is needed."),
            Choice("model", "A model", "Chosen from the list; its vocabulary has to fit."),
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
        if self.lab.replay is not None:
            self.lab.open(Conversation(self.lab.conversation.messages))
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
        from tui.screens.conversations import ConversationsScreen

        def chosen(talk: Conversation | None) -> None:
            if talk is not None and talk is not self.lab.conversation:
                self.lab.when_free(lambda: self.lab.open(talk))

        self.push_screen(ConversationsScreen(self.store, self.lab.conversation), chosen)

    def action_talk_new(self) -> None:
        self.lab.when_free(lambda: self.lab.open(Conversation()))
        self.live.message_line.focus()

    def action_talk_undo(self) -> None:
        self.lab.when_free(self.lab.step_back)

    def action_talk_redo(self) -> None:
        self.lab.when_free(lambda: self.lab.step_back(forward=True))

    def action_talk_system(self) -> None:
        self.edit_system()

    def action_talk_thinking(self) -> None:
        self.toggle_thinking()

    def action_talk_copy(self) -> None:
        text = "".join(self.lab.state.text)
        if text:
            self.copy_to_clipboard(text)
            self.say("Sent to the clipboard; terminals that refuse it say nothing.")

    # -- the view

    def action_pane(self, name: str) -> None:
        self.live.go_to(name)

    def action_view_write(self) -> None:
        self.live.go_to("write")

    def action_cycle(self, by: int) -> None:
        self.live.cycle(by)

    def action_view_jump(self) -> None:
        from tui.screens.jump import JumpScreen

        live = self.live
        places: dict[str, tuple[str, Offset]] = {}
        for at, (letter, (name, widget)) in enumerate(live.places.items()):
            where = self._corner(widget)
            places[letter] = (name, where or Offset(2, 3 + 2 * at))
        self.push_screen(JumpScreen(places), lambda name: live.go_to(name) if name else None)

    @staticmethod
    def _corner(widget: Widget) -> Offset | None:
        """Where a letter stands on a widget; None if it cannot be seen."""
        region = widget.region
        return Offset(region.x + 2, region.y) if region else None

    def action_view_maximise(self) -> None:
        self.live.maximise()

    def action_view_theme(self) -> None:
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]

    # -- the program

    def action_demo_play(self) -> None:
        demo = load_demo()
        if demo is None:
            self.say("There is no recording with this program.")
            return

        def play() -> None:
            self.recorded = demo.names
            self.lab.play(demo.source, demo.messages)

        self.lab.when_free(play)

    def action_app_help(self) -> None:
        from tui.screens.help import HelpScreen, Topic, topic_of

        focused = self.live.focused
        first = topic_of(focused, None) if focused is not None else None
        rest = [Topic(title, "", keys) for title, keys in topics()]
        panes = [
            topic_of(self.live.pane(name))
            for name in ("context", "output", "rounds", "inspector", "gauge", "prompt")
        ]
        own = first.title if first is not None else ""
        others = [topic for topic in panes if topic is not None and topic.title != own]
        self.push_screen(HelpScreen([*([first] if first else []), *rest, *others]))

    def action_app_picture(self) -> None:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        name = f"naive-speculate-{stamp}.svg"
        try:
            self.save_screenshot(name, str(Path.cwd()))
        except OSError as error:
            self.say(
                f"The picture cannot be written here: {(error.strerror or str(error)).lower()}.", "warning"
            )
        else:
            self.say(f"Saved {name} in the working folder.")

    async def action_press(self, key: str) -> None:
        self.simulate_key(key)
