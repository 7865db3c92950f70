"""The app's core without a screen, on the engine's thread with a scripted session: nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from support.app import CONFIG, LONG
from support.scripted import Script, Scripted, make_round

from engine.config import Config
from engine.context import Message
from engine.errors import ModelNotFound, PromptTooLong
from engine.events import Event, Origin
from tui.changes import with_values
from tui.conversation import Conversation
from tui.demo import load_demo
from tui.engine_thread import EngineThread
from tui.history import History
from tui.lab import Lab
from tui.plan import Plan
from tui.state import Phase, ViewState

PATIENCE_S = 20.0
QUESTION = Message("user", "q1")
MODEL = {"draft.method": "model", "draft.model_name": "scripted:drafter"}


class Bench:
    """A lab, its engine and its scripted session."""

    def __init__(self, script: Script, messages: tuple[Message, ...], config: Config) -> None:
        factory = Scripted(script)
        self.engine = EngineThread(config, session_factory=cast(Any, factory))
        self.lab = Lab(self.engine, config, Conversation(messages))
        self.said: list[str] = []
        self.lab.say = self.said.append
        self.session = cast(Any, factory.made[0])
        self.runs = 0
        self.loads: list[Config] = []
        generate, load = self.session.generate, self.session.load

        def counted(*args: Any, **named: Any) -> Iterator[Event]:
            self.runs += 1
            yield from generate(*args, **named)

        def noted(tell: Callable[[Event], None]) -> None:
            self.loads.append(self.session.config)
            load(tell)

        self.session.generate = counted
        self.session.load = noted

    def until(self, found: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not found():
            state = self.lab.state
            assert time.monotonic() < end, f"{state.phase} {state.busy} {self.contents} {self.said}"
            self.lab.drain()
            time.sleep(0.001)

    def settle(self) -> None:
        """Wait until the engine has nothing to do."""
        self.until(lambda: self.idle)
        end = time.monotonic() + 0.05
        while time.monotonic() < end or not self.idle:
            self.lab.drain()
            time.sleep(0.001)

    @property
    def idle(self) -> bool:
        lab = self.lab
        return lab.state.busy is None and not lab.running and not lab.asked and not lab.loading

    @property
    def contents(self) -> list[str]:
        return [message.content for message in self.lab.conversation.messages]

    def run(self) -> None:
        self.lab.start()
        self.settle()

    def writes(self, *words: str) -> None:
        """Let the next answers be these words."""
        self.session.script = Script(rounds=(make_round(1, 1, 1, pieces=[words[0].encode(), b"."]),))


@contextmanager
def bench(
    script: Script | None = None, messages: tuple[Message, ...] = (QUESTION,), config: Config = CONFIG
) -> Iterator[Bench]:
    made = Bench(script or Script(), messages, config)
    made.engine.start()
    try:
        made.lab.load(config)
        made.until(lambda: made.lab.loaded and made.idle)
        yield made
    finally:
        assert made.engine.stop(PATIENCE_S)


# -- answers


def test_two_presses_of_run_give_one_answer() -> None:
    with bench() as b:
        b.writes("once")
        b.lab.start()
        b.lab.start()
        b.settle()
        assert (b.runs, b.contents) == (1, ["q1", "once."])


def test_a_run_asked_for_anew_takes_the_place_of_one_that_did_not_begin() -> None:
    with bench(messages=(QUESTION, Message("assistant", "a1"), Message("user", "q2"))) as b:
        b.writes("answer")
        b.lab.start()
        b.lab.start(1)
        b.settle()
        assert b.contents == ["q1", "answer."]


@pytest.mark.parametrize("quit_at_once", [True, False])
def test_an_old_answer_is_not_taken_for_that_to_a_new_question(quit_at_once: bool) -> None:
    with bench() as b:
        b.writes("old")
        b.run()

        def refuse(*args: Any, **named: Any) -> Iterator[Event]:
            raise PromptTooLong("it is too long")
            yield

        b.session.generate = refuse
        b.lab.set_conversation(b.lab.conversation.add(Message("user", "a long question")))
        b.lab.start()
        if not quit_at_once:
            b.until(lambda: b.lab.state.failure)
            b.settle()
        b.lab.keep_partial()
        assert b.contents == ["q1", "old.", "a long question"]
        b.settle()
        b.lab.set_conversation(b.lab.conversation.undo())
        b.lab.branch(0, (1,))
        assert b.lab.asked, "the answer that is shown can be branched all the same"


def test_going_on_keeps_an_edit_of_the_answer() -> None:
    with bench() as b:
        b.writes("first")
        b.run()
        b.lab.go_on()
        b.settle()
        assert b.session.given, "an answer goes on by its tokens"
        b.lab.set_conversation(b.lab.conversation.edit(1, Message("assistant", "EDITED")))
        b.lab.go_on()
        b.settle()
        assert b.session.given == ()
        assert b.contents == ["q1", "EDITEDfirst."]
        b.lab.set_conversation(Conversation((QUESTION, Message("assistant", "by hand"))))
        b.lab.go_on()
        b.settle()
        assert b.contents == ["q1", "by handfirst."]


def test_undo_brings_back_the_run_that_led_to_the_text() -> None:
    """Also where the second one was asked for while plain decoding of the first was timed."""
    with bench() as b:
        b.session.script = Script(rounds=(make_round(1, 1, 1, pieces=[b"first", b"."]),), pause_s=0.5)
        b.lab.start()
        b.until(lambda: b.lab.state.phase is Phase.BASELINE)
        b.writes("second")
        b.lab.set_conversation(b.lab.conversation.add(Message("user", "q2")))
        b.lab.start()
        b.until(lambda: len(b.contents) == 4)
        b.settle()
        b.lab.step_back()
        b.lab.step_back()
        assert b.contents == ["q1", "first."]
        assert ("".join(b.lab.state.text), b.lab.state.run) == ("first.", 1)
        assert b.lab.plan is not None and b.lab.plan.messages == (QUESTION,)


def test_what_waits_for_the_engine_waits_for_the_measurement_too() -> None:
    with bench() as b:
        b.session.script = Script(rounds=(make_round(1, 1, 1),), pause_s=PATIENCE_S)
        b.lab.start()
        b.until(lambda: b.lab.state.phase is Phase.BASELINE)
        b.lab.when_free(b.lab.step_back)
        b.until(lambda: b.contents == ["q1"])
        assert b.lab.state.reference is None, "it ended early"


def test_another_target_does_not_read_the_ids_of_the_one_before() -> None:
    with bench() as b:
        b.run()
        other = with_values(b.lab.config, {"verify.model_name": "other"})
        b.session.script = Script(target=b.session.script.target.__class__(**_named("other")))
        b.lab.change(other)
        b.settle()
        b.lab.branch(1, (5,))
        assert "Another target wrote this answer" in b.said[-1]
        b.lab.go_on()
        b.settle()
        assert (b.session.given, len(b.contents)) == ((), 2)


def _named(name: str) -> dict[str, Any]:
    from dataclasses import asdict

    from support.scripted import TARGET

    return {**asdict(TARGET), "name": name}


# -- pauses and steps


def test_an_edit_that_is_left_does_not_end_the_users_own_pause() -> None:
    with bench(LONG) as b:
        b.lab.start()
        b.until(lambda: len(b.lab.state.rounds) > 2)
        b.lab.hold()
        b.until(lambda: b.lab.state.phase is Phase.PAUSED)
        b.lab.branch(1, (99,))
        b.until(lambda: b.lab.running and b.lab.state.given and len(b.lab.state.rounds) > 2)
        b.lab.toggle_pause()
        b.until(lambda: b.lab.state.phase is Phase.PAUSED)
        b.lab.hold()
        b.lab.release()
        assert b.lab.state.phase is Phase.PAUSED


def test_steps_that_were_not_used_up_are_forgotten() -> None:
    with bench() as b:
        for _ in range(3):
            b.engine.step_round()
        b.session.script = LONG
        b.lab.next_round()
        b.until(lambda: b.lab.state.phase is Phase.PAUSED)
        assert len(b.lab.state.rounds) == 1


# -- settings and models


def test_a_new_seed_of_the_settings_counts() -> None:
    with bench() as b:
        b.lab.start(new_seed=True)
        b.settle()
        b.lab.change(with_values(b.lab.config, {"sampling.seed": 5}))
        b.run()
        assert b.session.changed[-1].sampling.seed == 5
        b.lab.start(new_seed=True)
        b.settle()
        b.lab.load(with_values(b.lab.config, {"sampling.seed": 6}))
        b.settle()
        b.run()
        assert b.session.changed[-1].sampling.seed == 6


def test_another_drafter_is_a_new_segment_of_the_run() -> None:
    with bench(LONG) as b:
        b.lab.start()
        b.until(lambda: len(b.lab.state.rounds) > 2)
        b.lab.change(with_values(b.lab.config, MODEL))
        b.until(lambda: b.lab.state.phase is Phase.LOADING or b.loads[1:])
        assert b.lab.running and b.contents == ["q1"], "the answer is on its way all the time"
        written = len(b.lab.state.output)
        b.until(lambda: b.lab.state.segment.rounds and len(b.lab.state.output) > written)
        state = b.lab.state
        assert (state.run, state.given, state.finished) == (1, 0, None)
        assert state.segment_start and state.total.rounds == state.segment_start + state.segment.rounds
        assert len(state.text) == len(state.rounds)
        assert all(token.origin is not Origin.GIVEN for token in state.output)
        b.lab.cancel()
        b.settle()
        assert b.contents == ["q1", "".join(b.lab.state.text)], "one answer, whole"
        b.lab.step_back()
        assert b.contents == ["q1"], "one undo takes it back"


def test_a_change_that_needs_a_load_may_fail_in_the_middle_of_a_run() -> None:
    with bench(LONG) as b:
        b.lab.start()
        b.until(lambda: len(b.lab.state.rounds) > 2)
        before = b.lab.config
        b.session.script = Script(rounds=LONG.rounds, pause_s=0.02, load_error=ModelNotFound("none such"))
        b.lab.change(with_values(b.lab.config, MODEL))
        b.until(lambda: b.lab.state.failure)
        b.until(lambda: b.lab.state.running)
        assert (b.lab.config, b.lab.state.run) == (before, 1), "it goes on with the models of before"
        b.lab.cancel()
        b.settle()
        assert len(b.contents) == 2


@pytest.mark.parametrize("how", ["cancel", "quit", "edit"])
def test_an_answer_that_waits_for_models_is_kept(how: str) -> None:
    with bench(LONG) as b:
        b.lab.start()
        b.until(lambda: len(b.lab.state.rounds) > 2)
        b.session.script = Script(rounds=LONG.rounds, pause_s=0.02, load_s=0.3)
        b.lab.change(with_values(b.lab.config, MODEL))
        b.until(lambda: len(b.loads) == 2)
        if how == "quit":
            b.lab.keep_partial()
        elif how == "cancel":
            b.lab.cancel()
            b.settle()
        else:
            b.lab.when_free(lambda: b.lab.set_conversation(b.lab.conversation.add(Message("user", "more"))))
        assert b.contents[1] == "".join(b.lab.state.text) != ""
        assert len(b.contents) == (3 if how == "edit" else 2)


def test_a_load_that_fails_brings_the_pair_of_before_back() -> None:
    with bench() as b:
        before, script = b.lab.config, b.session.script
        b.session.script = Script(load_error=ModelNotFound("none such"))
        b.lab.load(with_values(before, {"verify.model_name": "wrong"}))
        b.settle()
        assert b.lab.loaded and b.lab.config == before
        assert b.lab.state.failure is not None, "and it is told"
        assert len(b.loads) == 2, "the session kept it"

        failing = b.session.load

        def lose(tell: Callable[[Event], None]) -> None:
            b.session.loaded = False
            b.session.load, b.session.script = failing, script
            raise ModelNotFound("found broken while it was loaded")

        b.session.load = lose
        b.lab.load(with_values(before, {"verify.model_name": "broken"}))
        b.settle()
        assert b.lab.loaded and b.lab.config == before
        assert b.loads[-1].verify.model_name == before.verify.model_name
        b.run()
        assert len(b.contents) == 2


def test_a_change_made_while_a_recording_was_shown_is_loaded_before_the_next_run() -> None:
    with bench() as b:
        b.run()
        demo = load_demo()
        assert demo is not None
        b.lab.play(demo.source, demo.messages)
        b.lab.change(with_values(b.lab.config, MODEL))
        b.lab.go_live()
        assert not b.lab.loaded
        b.lab.branch(0, (1,))
        assert "load them first" in b.said[-1]
        b.lab.load(b.lab.config)
        b.settle()
        assert b.lab.loaded and b.loads[-1].draft.model_name == "scripted:drafter"


def test_the_reference_goes_with_the_number_of_threads() -> None:
    with bench() as b:
        b.run()
        assert b.lab.state.reference is not None
        b.lab.change(with_values(b.lab.config, {"run.threads": 1}))
        b.settle()
        assert b.lab.state.reference is None
        assert b.lab.state.total.speedup is not None, "the run that is shown has its own measurement"


# -- recordings and history


def test_a_recording_takes_nothing_of_the_users_away() -> None:
    with bench() as b:
        b.run()
        b.lab.set_conversation(b.lab.conversation.add(Message("user", "mine")))
        conversation, plan, state = b.lab.conversation, b.lab.plan, b.lab.state
        demo = load_demo()
        assert demo is not None
        for _ in range(2):
            b.lab.play(demo.source, demo.messages)
            b.lab.drain()
        assert b.lab.conversation.messages == demo.messages
        assert b.lab.own is conversation
        b.lab.set_own(conversation.renamed("named meanwhile"))
        b.lab.go_live()
        assert b.lab.conversation == conversation.renamed("named meanwhile")
        assert (b.lab.conversation.past, b.lab.plan, b.lab.state) == (conversation.past, plan, state)


def test_the_history_is_bounded_by_what_it_holds() -> None:
    from support.story import fold, opening

    big: ViewState = fold([*opening(), *(make_round(number, 1, 1) for number in range(1, 9_001))])
    history = History()
    for number in range(6):
        message = (Message("user", str(number)),)
        history.keep(message, big, Plan(message))
    assert len(history) == 2
    assert history.find((Message("user", "5"),), ViewState()) is not None
    for number in range(100):
        message = (Message("user", str(number)),)
        history.keep(message, ViewState(), Plan(message))
    assert len(history) == 32
