"""The app's core without a screen: settings, models that come or fail, recordings, what history holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.app import LONG
from support.lab_bench import MODEL, bench
from support.scripted import Script, make_round

from engine.context import Message
from engine.errors import ModelNotFound
from engine.events import Event, Origin
from tui.changes import with_values
from tui.history import History
from tui.plan import Plan
from tui.playable import load_demo
from tui.state import Phase, ViewState

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
