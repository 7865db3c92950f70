"""The app's core without a screen: a conversation, the engine's thread, and the state they lead to.

The screen calls it, and is told by ``on_change`` that there is something to show. Everything runs on the
screen's thread; the engine is reached by commands, and heard by ``drain``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engine.config import Config
from engine.context import Message
from engine.events import EndReason
from engine.session import Session
from tui.changes import effective, needs_load
from tui.conversation import Conversation
from tui.engine_thread import Ask, Change, Eject, Load
from tui.lab_runs import RunLab, nothing
from tui.source import ReplaySource
from tui.state import Reset, ViewState, reduce


class Lab(RunLab):
    """What the user works with: runs, the conversation, models and settings, a recording."""

    # -- the conversation

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

    def open(self, conversation: Conversation) -> None:
        """Go on with another conversation; the panes forget the run."""
        self.go_live()
        self.plan = None
        self.state = reduce(self.state, Reset())
        self.set_conversation(conversation)
        self.on_change()

    def preview(self, ids: tuple[int, ...], pieces: tuple[bytes, ...]) -> None:
        """What a first run would read."""
        if not self.state.run:
            self.state = replace(self.state, prompt=ids, prompt_pieces=pieces)
            self.on_change()

    # -- models and settings

    def load(self, config: Config, then: Callable[[], None] = nothing) -> None:
        """Load what a configuration names, then do something if that worked. A run ends before."""
        self.go_live()
        self.config = config

        def send() -> None:
            self.engine.resume()
            self.then("Load", lambda: then() if self.loaded else None)
            self.engine.send(Load(effective(config, self._seed)))

        self.when_free(send)

    def change(self, config: Config) -> None:
        """Decode the next rounds with other settings. Where models have to be loaded, an answer that is on
        its way goes on after that, from where it stands; with another target it ends, as its ids would mean
        something else."""
        before, self.config = self.config, config
        if self.replay is not None or not (self.loaded or self.loading):
            self.on_change()
        elif not needs_load(before, config):
            self.engine.send(Change(effective(config, self._seed)))
            self.on_change()
        elif self.running and before.verify.model_name == config.verify.model_name:
            self.say("The answer pauses for the change, and goes on when the models are there.")
            self.load(config, self._go_on_after_change)
        else:
            self.load(config)

    def _go_on_after_change(self) -> None:
        finished = self.state.finished
        if finished is not None and finished.reason is EndReason.CANCELLED:
            self.go_on()

    def eject(self) -> None:
        """Free all models."""
        self.when_free(lambda: self.engine.send(Eject()))

    def ask(self, function: Callable[[Session], object], reply: Callable[[object], None]) -> None:
        """Run a function on the engine's thread; ``reply`` is called there."""
        self.engine.send(Ask(function, reply))

    # -- replay

    def play(self, replay: ReplaySource, messages: tuple[Message, ...]) -> None:
        """Show a recording; the engine stays as it is."""
        if self.replay is None:
            self._live_state = self.state
        self.replay = replay
        self.plan = None
        self.state = ViewState(replay=True)
        replay.play()
        self.set_conversation(Conversation(messages))
        self.on_change()

    def go_live(self) -> None:
        """Leave the recording."""
        if self.replay is not None:
            self.replay = None
            self.state = self._live_state
            self.on_change()
