"""The app's core without a screen: a recording is shown, gone through, and taken up as a conversation."""

from __future__ import annotations

from dataclasses import replace

from engine.config import Config
from engine.context import Message
from engine.thinking import begin_thinking
from tui.conversation import Conversation
from tui.lab_runs import RunLab
from tui.plan import Plan
from tui.source import ReplaySource
from tui.state import Reset, ViewState, reduce, visible_output, visible_text
from tui.tape import BEGINNING
from tui.trail import Trail

_KEPT_ROUNDS = 4096
"""Rounds of a recording that are kept when its file is closed."""


class ReplayLab(RunLab):
    """Plays recordings; the engine, and what the user had, stay as they are."""

    _behind: tuple[ViewState, Conversation, Plan | None] | None = None  # while a recording is shown

    def play(self, replay: ReplaySource, messages: tuple[Message, ...]) -> None:
        """Show a recording."""
        if self._behind is None:
            self._behind = self.state, self.conversation, self.plan
        if self.replay is not None and self.replay is not replay:
            self.replay.tape.close()
        self.replay = replay
        self.plan = None
        self.state = BEGINNING
        self._recorded = messages
        replay.play()
        self.set_conversation(Conversation(messages))
        self.on_change()

    def go_live(self) -> None:
        """Leave the recording; what the user had is there again."""
        if self._behind is None or self.replay is None:
            return
        self.replay.tape.close()
        self.replay = None
        (self.state, conversation, self.plan), self._behind = self._behind, None
        self.set_conversation(conversation)
        self.on_change()

    def seek_step(self, count: int) -> None:
        """To just behind so many rounds of the recording."""
        if self.replay is not None:
            self.replay.seek_step(count)
            self._arrive()

    def back_round(self) -> None:
        """One round back, then stand still."""
        if self.replay is not None:
            if not self.replay.step:
                self.say("This is the beginning of the recording.")
            self.replay.back_round()
            self._arrive()

    def back_token(self) -> None:
        """Hide the last token that is shown; stand still."""
        if self.replay is not None:
            action = self.replay.back_token(self.state)
            if action is not None:
                self.act(action)
            else:
                self._arrive()

    def _arrive(self) -> None:
        """Show the place at once, unless it is far from any keyframe: then the next frames get there."""
        self.drain()
        self.on_change()

    def fork(self, text: str, config: Config | None = None) -> None:
        """What the recording shows, messages and answer so far, becomes the user's conversation. With the
        target that wrote it, going on goes on with its very tokens, unless these are very many.

        Args:
            text: that of the answer so far, ``visible_text`` joined.
            config: settings to go on with; nothing is loaded for them. None: those of before.
        """
        state, plan = self.state, Plan(self.conversation.messages)
        opened = begin_thinking(state.prompt_pieces).inside
        talk = plan.committed(Conversation(plan.messages), text, thinking_opened=opened)
        shown = _in_memory(state) if text and len(state.rounds) <= _KEPT_ROUNDS else None
        if config is not None:
            self._take_over(config)
        self.open(talk)
        if shown is not None:
            self.history.keep(talk.messages, shown, plan)
            found = self.history.find(talk.messages, self.state)
            if found is not None:
                self.state, self.plan = found
                self.on_change()

    def open(self, conversation: Conversation) -> None:
        """Go on with another conversation; the panes forget the run."""
        self.go_live()
        self.plan = None
        self.state = reduce(self.state, Reset())
        self.set_conversation(conversation)
        self.on_change()

    def _take_over(self, config: Config) -> None:
        if config.sampling.seed != self.config.sampling.seed:
            self._seed = None
        self.config = config


def _in_memory(state: ViewState) -> ViewState:
    """What a recording shows, without its file."""
    return replace(
        state,
        replay=False,
        running=False,
        finished=None,
        revealed=None,
        rounds=Trail(list(state.rounds)),
        output=Trail(list(visible_output(state))),
        text=Trail(list(visible_text(state))),
    )
