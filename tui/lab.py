"""The app's core without a screen: a conversation, the engine's thread, and the state they lead to.

The screen calls it, and is told by ``on_change`` that there is something to show. Everything runs on the
screen's thread; the engine is reached by commands, and heard by ``drain``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.config import Config
from engine.session import Session
from tui.changes import effective, needs_load
from tui.conversation import Conversation
from tui.engine_thread import Ask, Change, Eject, EngineThread
from tui.lab_core import nothing
from tui.lab_replay import ReplayLab


class Lab(ReplayLab):
    """What the user works with: runs, the conversation, models and settings, a recording."""

    def __init__(self, engine: EngineThread, config: Config, conversation: Conversation) -> None:
        super().__init__(engine, config, conversation)

    # -- the conversation

    @property
    def own(self) -> Conversation:
        """The user's conversation, also while a recording is shown."""
        return self.conversation if self._behind is None else self._behind[1]

    def set_own(self, conversation: Conversation) -> None:
        """The user's conversation with another name or file."""
        if self._behind is None:
            self.set_conversation(conversation)
        else:
            state, _, plan = self._behind
            self._behind = state, conversation, plan

    def step_back(self, *, forward: bool = False) -> None:
        """Undo, or redo; a run that wrote what comes back is shown again."""
        changed = self.conversation.redo() if forward else self.conversation.undo()
        if changed is self.conversation:
            self.say("There is nothing to do again." if forward else "There is nothing to undo.")
            return
        found = self.history.find(changed.messages, self.state)
        if found is not None:
            self.state, self.plan = found
        self.set_conversation(changed)
        self.on_change()

    def preview(self, ids: tuple[int, ...], pieces: tuple[bytes, ...]) -> None:
        """What a first run would read."""
        if not self.state.run:
            self.state = replace(self.state, prompt=ids, prompt_pieces=pieces)
            self.on_change()

    # -- models and settings

    def load(self, config: Config, then: Callable[[], None] = nothing) -> None:
        """Load what a configuration names, then do something, whether it worked or not. A run ends before."""
        self.go_live()

        def send() -> None:
            self._take_over(config)
            self.then("Load", then)
            self._send_load(config)

        self.when_free(send)

    def change(self, config: Config) -> None:
        """Decode the next rounds with other settings. Where models have to be loaded, an answer that is on
        its way goes on after that, from where it stands; with another target it ends, as its ids would mean
        something else."""
        before = self.config
        if self.replay is not None or not (self.loaded or self.loading):
            self._take_over(config)
            self.on_change()
        elif not needs_load(before, config):
            self._take_over(config)
            self.engine.send(Change(effective(config, self._seed)))
            self.on_change()
        elif self.running and before.verify.model_name == config.verify.model_name:
            self.say("The answer pauses for the change, and goes on when the models are there.")
            self._take_over(config)
            self._load_and_go_on(config)
        else:
            self.load(config)

    def _load_and_go_on(self, config: Config) -> None:
        if self._sent == self._ended:  # it waits for other models already
            self._send_load(config)
            return
        self._going_on = True
        self.then("Generate", lambda: self._send_load(config))
        self.engine.cancel()

    def eject(self) -> None:
        """Free all models."""
        self.when_free(lambda: self.engine.send(Eject()))

    def ask(self, function: Callable[[Session], object], reply: Callable[[object], None]) -> None:
        """Run a function on the engine's thread; ``reply`` is called there."""
        self.engine.send(Ask(function, reply))
