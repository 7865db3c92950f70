"""The app's core without a screen: runs, edits and undo in every order; nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.app import LONG
from support.lab_bench import PATIENCE_S, QUESTION, bench
from support.scripted import Script, make_round

from engine.context import Message
from engine.errors import PromptTooLong
from engine.events import Event
from tui.changes import with_values
from tui.conversation import Conversation
from tui.state import Phase

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
        assert b.lab.history.find(b.lab.conversation.messages, b.lab.state) is None, (
            "no run wrote the question"
        )
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
