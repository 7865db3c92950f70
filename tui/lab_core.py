"""The app's core without a screen, first part: what the engine tells, and what becomes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from engine.config import Config
from engine.context import Message
from engine.events import EndReason, Failed, RunFinished, RunStarted
from engine.thinking import begin_thinking
from tui.changes import effective, needs_load
from tui.conversation import Conversation
from tui.engine_thread import EngineThread, Load
from tui.history import History
from tui.plan import Plan
from tui.source import LiveSource, ReplaySource
from tui.state import Idle, Loaded, Phase, reduce
from tui.view import Told, UiAction, ViewState

DRAIN_S = 0.008
"""Longest time for which events are taken before the screen gets its turn."""


def nothing(*_: object) -> None:
    """Stands for a listener."""


class LabCore(ABC):
    """Hears the engine: keeps the state, writes answers into the conversation, minds what waits its turn.

    Args:
        engine: not started yet, or running.
        config: the user's settings.
    """

    def __init__(self, engine: EngineThread, config: Config, conversation: Conversation) -> None:
        self.engine = engine
        self.config = config
        self.conversation = conversation
        self.state = ViewState()
        self.plan: Plan | None = None
        """The run in progress, or the last one."""
        self.history = History()
        self.on_change: Callable[[], None] = nothing
        self.on_conversation: Callable[[], None] = nothing
        self.say: Callable[[str], None] = nothing
        self.on_run: Callable[[], None] = nothing
        """Called before a run begins; not before one goes on with other models."""
        self.replay: ReplaySource | None = None
        self.written = True
        """Whether the last run's answer is in the conversation."""
        self._live = LiveSource(engine.drain)
        self._recorded: tuple[Message, ...] = ()  # what the recording's header says is answered
        self._seed: int | None = None
        self._held = False  # a run stands still because of an edit
        self._sent = self._ended = 0  # Generate commands
        self._begun = True  # whether the newest one is the run that is shown
        self._before: Plan | None = None  # the plan of the run that is shown until then
        self._kept: tuple[tuple[Message, ...], Plan] | None = None
        self._then: list[tuple[str, Callable[[], None]]] = []
        self._waiting: list[Callable[[], None]] = []
        self._going_on = False  # the answer waits for other models, and then goes on
        self._resuming = False  # it was asked to
        self._loads: deque[Config] = deque()  # on their way
        self._loaded_config: Config | None = None
        self.load_worked = False
        """Whether the last load did what it was to do."""
        self._load_worked = self._load_failed = False  # the one that is on its way, so far
        self._compared: tuple[Config | None, Config, bool] = (None, config, False)

    # -- what is the case

    @property
    def running(self) -> bool:
        """Whether an answer is on its way, at a pause too, and while it waits for other models."""
        return self.replay is None and (self.state.running or self._going_on)

    @property
    def asked(self) -> bool:
        """Whether a run was asked for that did not begin yet: the panes still show the one before."""
        return self._sent > self._ended and not self._begun

    @property
    def live_at(self) -> int | None:
        """The message that the answer on its way, or not written yet, will be; None for none."""
        if self.plan is None or self.asked or not (self.running or not self.written):
            return None
        return self.plan.at

    @property
    def loading(self) -> bool:
        """Whether models are on their way into memory."""
        return self.state.phase is Phase.LOADING or bool(self._loads)

    @property
    def loaded(self) -> bool:
        """Whether the models that the settings name are there, ready to run."""
        return (
            self.state.target is not None and self.replay is None and not self.loading and not self._outdated
        )

    @property
    def answered(self) -> bool:
        """Whether the assistant has the last word."""
        messages = self.conversation.messages
        return bool(messages) and messages[-1].role == "assistant"

    @property
    def backlog(self) -> bool:
        """Whether events wait that were not taken yet; in a replay, whether some are due."""
        return self.engine.backlog if self.replay is None else self.replay.next_due_s == 0.0

    @property
    def loaded_config(self) -> Config | None:
        """What the models that are there were loaded by; another object for every load."""
        return self._loaded_config

    @property
    def _free(self) -> bool:
        """Whether the engine works on no answer, and on no measurement either."""
        return not self.running and self._sent == self._ended

    @property
    def _outdated(self) -> bool:
        """Whether the settings name other models than those that were loaded."""
        loaded = self._loaded_config
        if self._compared[0] is not loaded or self._compared[1] is not self.config:
            other = loaded is not None and needs_load(loaded, self.config)
            self._compared = loaded, self.config, other
        return self._compared[2]

    # -- what happens

    def drain(self, seconds: float = DRAIN_S, clock: Callable[[], float] = perf_counter) -> bool:
        """Take what happened, for at most so long; whether anything did."""
        end = clock() + seconds
        before = self.state
        replay = self.replay
        source = self._live if replay is None else replay
        for event in source.poll():
            self.take(event)
            if clock() >= end or self.replay is not replay:  # what was taken may begin or end a recording
                break
        return self.state is not before

    def take(self, event: Told) -> None:
        """One event."""
        before = self.state
        self.state = reduce(before, event)
        if self.replay is not None:
            self._show_messages()
            return
        if isinstance(event, RunStarted):
            self._begun, self._going_on, self._resuming = True, False, False
            self.on_conversation()
        elif isinstance(event, RunFinished):
            self._going_on = self._going_on and event.reason is EndReason.CANCELLED
            if not self._going_on:
                self._write_answer()
        elif isinstance(event, Failed):
            self._load_failed = before.busy == "Load"
            if before.running:
                self._going_on = False
                self._write_answer()
        elif isinstance(event, Loaded):
            self._load_worked = True
        elif isinstance(event, Idle):
            self._command_ended(before.busy or "")

    def _show_messages(self) -> None:
        """A recording: the conversation is what its run answers."""
        messages = self.state.messages or self._recorded
        if messages != self.conversation.messages:
            self.set_conversation(Conversation(messages))

    def act(self, *actions: UiAction) -> None:
        """What the user did to the view."""
        for action in actions:
            self.state = reduce(self.state, action)
        self.on_change()

    def act_quietly(self, action: UiAction) -> None:
        """What changes nothing that is shown."""
        self.state = reduce(self.state, action)

    def then(self, command: str, action: Callable[[], None]) -> None:
        """Do something when the engine is done with a command ("Load", "Generate") that is on its way."""
        self._then.append((command, action))

    def after_run(self, action: Callable[[], None]) -> None:
        """Do something when the answer on its way, its measurement with it, has ended; at once if none is."""
        if self._sent == self._ended:
            action()
        else:
            self.then("Generate", lambda: self.after_run(action))

    def when_free(self, action: Callable[[], None]) -> None:
        """Do something when no answer is on its way and none is measured; what is ends, and is kept as far as
        it came."""
        self._stop_going_on()
        if self._free:
            action()
        else:
            self._waiting.append(action)
            self.engine.cancel()

    def _command_ended(self, command: str) -> None:
        if command == "Generate":
            self._generate_ended()
        elif command == "Load":
            self._load_ended()
        elif command == "Eject":
            self._loaded_config = None
        if command != "Load" or not self._loads:
            due = [action for name, action in self._then if name == command]
            self._then = [entry for entry in self._then if entry[0] != command]
            for action in due:
                action()
        while self._waiting and self._free:
            self._waiting.pop(0)()
        if self._waiting:
            self.engine.cancel()

    # -- answers

    def _generate_ended(self) -> None:
        self._ended += 1
        if self._kept is not None:  # once more: by now plain decoding was timed too
            messages, plan = self._kept
            self.history.keep(messages, self.state, plan)
            self._kept = None
        if self._ended < self._sent:
            return
        if not self._begun:  # it failed, or was called off, before it wrote anything
            self.plan, self.written, self._begun = self._before, True, True
        elif self._resuming:  # the models came, but the answer could not go on with them
            self._going_on = self._resuming = False
            self._write_answer()

    def _write_answer(self) -> None:
        """What the run wrote becomes a message."""
        plan, state = self.plan, self.state
        if plan is None or self.written or not self._begun:
            return
        self.written = True
        opened = begin_thinking(state.prompt_pieces).inside
        text = "".join(state.text)
        self.set_conversation(plan.committed(self.conversation, text, thinking_opened=opened))
        self.history.keep(self.conversation.messages, state, plan)
        self._kept = self.conversation.messages, plan

    def keep_partial(self) -> None:
        """The program ends: what was written so far is kept."""
        self._write_answer()

    def _stop_going_on(self) -> None:
        """An answer that waits for other models ends where it stands."""
        if self._going_on:
            self._going_on = False
            if not self.state.running:
                self._write_answer()

    @abstractmethod
    def _go_on_with_new_models(self) -> None:
        """The models are there that an answer waits for."""

    # -- models

    def _send_load(self, config: Config) -> None:
        self.engine.resume()
        self._loads.append(config)
        self.engine.send(Load(effective(config, self._seed)))

    def _load_ended(self) -> None:
        worked, failed = self._load_worked, self._load_failed
        self._load_worked = self._load_failed = False
        self.load_worked = worked
        config = self._loads.popleft() if self._loads else self.config
        if worked:
            before, self._loaded_config = self._loaded_config, config
            if before is not None and before.run.threads != config.run.threads:
                # Plain decoding was timed with another number of threads.
                self.state = replace(self.state, reference=None, reference_run=0)
        if self._loads:
            return  # another one follows
        if not worked:
            self._back_to_before(failed=failed)
        if self._going_on and not self._loads:
            if worked or self.loaded:
                self._go_on_with_new_models()
            else:
                self._stop_going_on()

    def _back_to_before(self, *, failed: bool) -> None:
        """A load came to nothing: the settings that worked count again, and the models they name."""
        before = self._loaded_config
        if before is None:
            return
        self.config = before
        if self.state.target is not None:
            self.say(f"The models of before are still there: {before.verify.model_name}.")
            return
        self._loaded_config = None
        if failed:
            self.say(f"The models of before are loaded again: {before.verify.model_name}.")
            self._send_load(before)

    # -- the conversation, as far as runs change it

    def set_conversation(self, conversation: Conversation) -> None:
        """Another conversation, or an edit of it."""
        self.conversation = conversation
        self.on_conversation()
