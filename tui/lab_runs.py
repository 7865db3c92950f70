"""The app's core without a screen, second part: runs are started, paused, stepped and ended."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from engine.context import Message
from engine.errors import SpeculateError
from engine.events import EndReason
from engine.race import RaceEvent
from tui.changes import effective
from tui.engine_commands import Work
from tui.engine_thread import Change, Generate, Measure, Race
from tui.lab_core import LabCore
from tui.plan import Plan
from tui.state import Paused, Phase, Resumed, RevealAll, RevealNext, needs_round

AT_END = "This is the end of the recording. Space plays it again."


class RunLab(LabCore):
    """Starts, pauses, steps and ends runs. ``tui.lab`` has what else the user works with."""

    # -- runs

    def start(self, at: int | None = None, *, step: bool = False, new_seed: bool = False) -> None:
        """Answer the first ``at`` messages (default: all, or all but an answer that is written again)."""
        if at is None:
            at = len(self.conversation) - self.answered
        messages = self.conversation.messages[:at]
        if self.asked and self.plan == Plan(messages):
            return  # the same was asked for already
        if messages:
            self.when_free(lambda: self._run(Plan(messages), step=step, new_seed=new_seed))
        else:
            self.say("There is nothing to answer yet: write a message.")

    def _run(self, plan: Plan, *, step: bool = False, new_seed: bool = False) -> None:
        if new_seed:
            self._seed = secrets.randbits(32)
        self._before, self.plan = self.plan, plan
        self.written = self._begun = False
        self._generate(plan, step=step)
        self.on_conversation()

    def _generate(self, plan: Plan, *, step: bool = False, resumed: bool = False) -> None:
        self._held = False
        if not resumed:
            self.on_run()
        self._sent += 1
        self.engine.send(Change(effective(self.config, self._seed)))
        if step:
            self.engine.pause()  # steps that an earlier run did not use up are no steps of this one
            self.engine.step_round()
        else:
            self.engine.resume()
        self.engine.send(Generate(plan.messages, plan.given, resumed))

    def _go_on_with_new_models(self) -> None:
        assert self.plan is not None, "an answer that waits for models has a plan"
        self._resuming = True
        ids = tuple(token.id for token in self.state.output)
        self._generate(Plan(self.plan.messages, ids), resumed=True)

    def branch(self, index: int, more: tuple[int, ...]) -> None:
        """Write the answer again from its token ``index`` on, which becomes ``more``."""
        plan = self.plan
        if plan is None or self.asked or not plan.fits(self.conversation):
            self.say("The conversation was changed since this answer: write it again first.")
        elif self.state.author != self.state.target:
            self.say("Another target wrote this answer, with tokens of its own: write it again first.")
        elif self._outdated:
            self.say("The settings name other models than those that are loaded: load them first.")
        else:
            given = tuple(token.id for token in self.state.output[:index]) + more
            self.when_free(lambda: self._run(Plan(plan.messages, given, f"branch at token {index + 1}")))

    def go_on(self) -> None:
        """The last answer goes on from its last token, as one run more."""
        self.when_free(self._go_on)

    def _go_on(self) -> None:
        found = self.history.find(self.conversation.messages, self.state)
        if found is None or found[0].author != self.state.target:
            # Edited, written by hand, or by another target: its text goes on.
            self.start(len(self.conversation))
            return
        state, plan = found
        ids = [token.id for token in state.output]
        if state.finished is not None and state.finished.reason is EndReason.EOS and ids:
            del ids[-1]
        if ids:
            self._run(Plan(plan.messages, tuple(ids), "go on"))
        else:
            self.start(len(self.conversation))

    def race(self, tell: Callable[[RaceEvent], None]) -> bool:
        """Have plain and speculative decoding race over the conversation, which stays as it is.

        Args:
            tell: called on the engine's thread.

        Returns:
            Whether there is something to answer.
        """
        messages = self.question
        if messages:
            self.engine.send(Change(effective(self.config, self._seed)))
            self.engine.send(Race(messages, tell))
        else:
            self.say("There is nothing to answer yet: write a message.")
        return bool(messages)

    @property
    def question(self) -> tuple[Message, ...]:
        """The messages that the newest answer answers, or is to answer."""
        return self.conversation.messages[: len(self.conversation) - self.answered]

    def measure(self, work: Work, tell: Callable[[object], None]) -> None:
        """Have something measured with the settings of now; the conversation stays as it is.

        Args:
            work: called on the engine's thread.
            tell: called there with what the work tells.
        """
        self.engine.send(Change(effective(self.config, self._seed)))
        self.engine.send(Measure(work, tell))

    def cancel(self) -> None:
        """End what is on its way; a partial answer is kept."""
        self._held = False
        self._stop_going_on()
        self.engine.cancel()

    # -- pauses and steps

    def toggle_pause(self) -> None:
        """Pause at the next commit, or go on."""
        stands = self.state.phase is Phase.PAUSED or self.state.pausing
        if self.replay is not None:
            self._toggle_replay()
        elif stands:
            self.engine.resume()
            self.act(Resumed())
        elif self.running:
            self.engine.pause()
            self.act(Paused())

    def _toggle_replay(self) -> None:
        assert self.replay is not None, "a recording is shown"
        if self.replay.clock.playing:
            self.replay.pause()
            self.act(Paused())
            return
        if self.replay.at_end:
            self.replay.restart()
        self.replay.play()
        self.act(Resumed())

    def next_round(self) -> None:
        """One round, then stand still."""
        if self.replay is not None and self.replay.at_end:
            self.say(AT_END)
        elif self.replay is not None:
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
        if self.replay is not None and self.replay.at_end and needs:
            self.say(AT_END)
        elif self.replay is not None:
            self.act(Paused(), self.replay.step_token(self.state))
        elif self.running or not needs:
            self.act(RevealNext())
            if needs:
                self.engine.step_round()
        else:
            self.start(step=True)
            self.act(RevealNext())

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


def told_error(value: object) -> SpeculateError | None:
    """The error in an engine's reply, if it is one."""
    return value if isinstance(value, SpeculateError) else None
