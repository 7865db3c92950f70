"""The app's core without a screen, first half: events, and the runs that they tell of."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import perf_counter

from engine.config import Config
from engine.errors import SpeculateError
from engine.events import EndReason, Failed, RunFinished
from tui.changes import effective
from tui.conversation import Conversation
from tui.engine_thread import Change, EngineThread, Generate
from tui.history import History
from tui.plan import Plan
from tui.source import LiveSource, ReplaySource
from tui.state import Idle, Paused, Phase, Reset, Resumed, RevealAll, RevealNext, needs_round, reduce
from tui.thinking import begin_thinking
from tui.view import Told, UiAction, ViewState

DRAIN_S = 0.008
"""Longest time for which events are taken before the screen gets its turn."""


def nothing(*_: object) -> None:
    """Stands for a listener."""


class RunLab:
    """Hears the engine and starts, pauses, steps and ends its runs. ``tui.lab`` has the other half.

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
        self.replay: ReplaySource | None = None
        self._live = LiveSource(engine.drain)
        self._live_state = ViewState()
        self._seed: int | None = None
        self._then: list[tuple[str, Callable[[], None]]] = []
        self._held = False
        self.written = True
        """Whether the last run's answer is in the conversation."""

    # -- what happens

    @property
    def running(self) -> bool:
        """Whether an answer is on its way, at a pause too."""
        return self.state.running and self.replay is None

    @property
    def loaded(self) -> bool:
        """Whether there is a model to run."""
        return self.state.target is not None and self.replay is None and not self.loading

    @property
    def loading(self) -> bool:
        return self.state.phase is Phase.LOADING

    @property
    def answered(self) -> bool:
        """Whether the assistant has the last word."""
        messages = self.conversation.messages
        return bool(messages) and messages[-1].role == "assistant"

    @property
    def backlog(self) -> bool:
        """Whether events wait that were not taken yet."""
        return self.replay is None and self.engine.backlog

    def drain(self, seconds: float = DRAIN_S, clock: Callable[[], float] = perf_counter) -> bool:
        """Take what happened, for at most so long; whether anything did."""
        end = clock() + seconds
        before = self.state
        source = self._live if self.replay is None else self.replay
        for event in source.poll():
            self.take(event)
            if clock() >= end:
                break
        return self.state is not before

    def take(self, event: Told) -> None:
        """One event."""
        before = self.state
        self.state = reduce(before, event)
        if self.replay is not None:
            return
        if isinstance(event, RunFinished) or (isinstance(event, Failed) and before.running):
            self._write_answer()
        if isinstance(event, Idle):
            self._command_ended(before.busy or "")

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

    def _command_ended(self, command: str) -> None:
        if command == "Generate" and self.plan is not None:
            # Once more: by now plain decoding was timed too.
            self.history.keep(self.conversation.messages, self.state, self.plan)
        due = [action for name, action in self._then if name == command]
        self._then = [entry for entry in self._then if entry[0] != command]
        for action in due:
            action()

    # -- runs

    def start(self, at: int | None = None, *, step: bool = False, new_seed: bool = False) -> None:
        """Answer the first ``at`` messages (default: all, or all but an answer that is written again)."""
        if at is None:
            at = len(self.conversation) - self.answered
        messages = self.conversation.messages[:at]
        if messages:
            self.when_free(lambda: self._run(Plan(messages), step=step, new_seed=new_seed))
        else:
            self.say("There is nothing to answer yet: write a message.")

    def _run(self, plan: Plan, *, step: bool = False, new_seed: bool = False) -> None:
        if new_seed:
            self._seed = secrets.randbits(32)
        self.plan = plan
        self.written = False
        self.engine.send(Change(effective(self.config, self._seed)))
        if step:
            self.engine.step_round()
        else:
            self.engine.resume()
        self.engine.send(Generate(plan.messages, plan.given))
        self.on_conversation()

    def when_free(self, action: Callable[[], None]) -> None:
        """Do something when no answer is on its way; one that is ends, and is kept as far as it came."""
        if self.running:
            self.then("Generate", action)
            self.engine.cancel()
        else:
            action()

    def toggle_pause(self) -> None:
        """Pause at the next commit, or go on."""
        stands = self.state.phase is Phase.PAUSED or self.state.pausing
        if self.replay is not None:
            self._toggle_replay(stands)
        elif stands:
            self.engine.resume()
            self.act(Resumed())
        elif self.running:
            self.engine.pause()
            self.act(Paused())

    def _toggle_replay(self, stands: bool) -> None:
        assert self.replay is not None
        if self.replay.at_end:
            self.replay.restart()
            self.state = reduce(self.state, Reset())
            stands = True
        if stands:
            self.replay.play()
            self.act(Resumed())
        else:
            self.replay.pause()
            self.act(Paused())

    def next_round(self) -> None:
        """One round, then stand still."""
        if self.replay is not None:
            self.replay.step_round()
            self.act(Paused(), RevealAll())
        elif self.running:
            self.act(RevealAll())
            self.engine.step_round()
        else:
            self.start(step=True)

    def next_token(self) -> None:
        """Show the next token; the engine, or the replay, goes one round ahead of what is shown."""
        needs = needs_round(self.state)
        if self.replay is not None:
            self.act(Paused(), self.replay.step_token(self.state))
        elif self.running or not needs:
            self.act(RevealNext())
            if needs:
                self.engine.step_round()
        else:
            self.start(step=True)
            self.act(RevealNext())

    def cancel(self) -> None:
        """End what is on its way; a partial answer is kept."""
        self._held = False
        self.engine.cancel()

    def hold(self) -> None:
        """The user begins an edit: a run pauses at the next commit."""
        if self.running and not (self.state.pausing or self.state.phase is Phase.PAUSED):
            self._held = True
            self.engine.pause()
            self.act(Paused())

    def release(self) -> None:
        """The edit came to nothing: what paused for it goes on."""
        if self._held and self.running:
            self.engine.resume()
            self.act(Resumed())
        self._held = False

    def branch(self, index: int, more: tuple[int, ...]) -> None:
        """Write the answer again from a token on, which becomes ``more``."""
        plan = self.plan
        if plan is None or not plan.fits(self.conversation):
            self.say("The conversation was changed since this answer: write it again first.")
            return
        given = tuple(token.id for token in self.state.output[:index]) + more
        self.when_free(lambda: self._run(Plan(plan.messages, given, f"branch at token {index + 1}")))

    def go_on(self) -> None:
        """The last answer goes on from its last token, as one run more."""
        plan, state = self.plan, self.state
        ids = [token.id for token in state.output]
        if state.finished is not None and state.finished.reason is EndReason.EOS and ids:
            del ids[-1]
        if plan is not None and plan.fits(self.conversation) and ids:
            self._run(Plan(plan.messages, tuple(ids), "go on"))
        else:
            self.start(len(self.conversation))

    # -- the answer

    def _write_answer(self) -> None:
        """What the run wrote becomes a message."""
        plan, state = self.plan, self.state
        if plan is None or self.written:
            return
        self.written = True
        opened = begin_thinking(state.prompt_pieces).inside
        text = "".join(state.text)
        self.set_conversation(plan.committed(self.conversation, text, thinking_opened=opened))
        self.history.keep(self.conversation.messages, state, plan)

    def keep_partial(self) -> None:
        """The program ends: what was written so far is kept."""
        self._write_answer()

    # -- the conversation, as far as runs change it

    def set_conversation(self, conversation: Conversation) -> None:
        """Another conversation, or an edit of it."""
        self.conversation = conversation
        self.on_conversation()


def told_error(value: object) -> SpeculateError | None:
    """The error in an engine's reply, if it is one."""
    return value if isinstance(value, SpeculateError) else None
