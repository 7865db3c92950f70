"""What is going on, as the events and the user's actions tell it: loads, runs, pauses, failures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.scripted import TARGET, Script, ScriptedSession, make_round
from support.story import DRAFTER, FAILED, finished, fold, opening, started

from engine.config import load_config
from engine.context import Message
from engine.events import BaselineStarted, LoadFinished, LoadProgress, LoadStarted, PrefillProgress
from tui.state import (
    Busy,
    FailureSeen,
    Held,
    Idle,
    Paused,
    PauseReached,
    Phase,
    Resumed,
    Told,
    UiAction,
    ViewState,
    reduce,
)


def phases(events: Sequence[Told | UiAction], state: ViewState | None = None) -> list[Phase]:
    state = ViewState() if state is None else state
    told = []
    for event in events:
        state = reduce(state, event)
        told.append(state.phase)
    return told


def test_the_phases_of_a_session() -> None:
    session = ScriptedSession(
        load_config("builtin"), script=Script(drafter=DRAFTER, rounds=(make_round(1, 3, 1),))
    )
    events: list[Told] = [Busy("Load")]
    session.load(events.append)
    events += [Idle(), Busy("Generate"), *session.generate([Message(role="user", content="x")])]
    events += [*session.baseline(), Idle()]
    told = [
        phase
        for phase, before in zip(phases(events), [None, *phases(events)], strict=False)
        if phase != before
    ]
    assert told == ["loading", "ready", "prefill", "running", "ready", "baseline", "ready"]


def test_both_models_are_followed_while_they_load() -> None:
    state = fold(
        [Busy("Load"), LoadStarted(0, 0, "target", "t"), LoadStarted(0, 0, "drafter", "d")], ViewState()
    )
    assert state.load is not None
    assert [(load.role, load.name, load.stage) for load in state.loads] == [
        ("target", "t", ""),
        ("drafter", "d", ""),
    ]
    state = fold([LoadProgress(0, 0, "target", "read", 1, 9)], state)
    assert (state.load.name if state.load else "", state.phase) == ("t", Phase.LOADING)
    state = fold(
        [LoadFinished(0, 0, "target", TARGET, 1.0), LoadProgress(0, 0, "drafter", "read", 2, None)], state
    )
    assert state.load is not None
    assert (state.load.name, state.load.total, state.target) == ("d", None, TARGET)
    state = fold([LoadFinished(0, 0, "drafter", DRAFTER, 1.0), Idle()], state)
    assert (state.load, state.loads, state.drafter, state.phase) == (None, (), DRAFTER, Phase.READY)


@pytest.mark.parametrize("end", [[FAILED, Idle()], [Idle()]], ids=["failed", "cancelled"])
def test_after_a_load_that_did_not_succeed_what_is_held_counts(end: list[Told]) -> None:
    loading: list[Told] = [Busy("Load"), LoadStarted(0, 0, "target", "t"), LoadStarted(0, 0, "drafter", "d")]
    before = fold([Held(TARGET, DRAFTER)])
    kept = fold([*loading, Held(TARGET, DRAFTER), *end], before)
    assert (kept.target, kept.drafter, kept.load, kept.busy) == (TARGET, DRAFTER, None, None)
    assert reduce(kept, FailureSeen()).phase is Phase.READY
    state = fold([*loading, LoadFinished(0, 0, "target", TARGET, 1.0), Held(None, None), *end], before)
    assert (state.target, state.drafter, state.load, state.busy) == (None, None, None, None)
    assert state.phase is (Phase.FAILED if len(end) == 2 else Phase.EMPTY)
    assert reduce(state, FailureSeen()).phase is Phase.EMPTY


def test_ejecting_frees_both_and_a_drafter_can_go_alone() -> None:
    both = fold([Held(TARGET, DRAFTER)], ViewState())
    assert both.phase is Phase.READY
    assert reduce(both, Held(TARGET, None)).drafter is None
    ejected = fold([Busy("Eject"), Idle()], both)
    assert (ejected.target, ejected.drafter, ejected.phase) == (None, None, Phase.EMPTY)


def test_a_failed_run_keeps_what_it_wrote_and_the_next_command_goes_on() -> None:
    state = fold([Busy("Generate"), *opening(), make_round(1, 3, 1), FAILED, Idle()])
    assert (state.phase, state.failure, state.running) == (Phase.FAILED, FAILED, False)
    assert (len(state.output), state.finished) == (2, None)
    assert fold([Busy("Ask"), Idle()], state).failure is FAILED, "questions do not hide a failure"
    seen = reduce(state, FailureSeen())
    assert (seen.phase, seen.failure, len(seen.output)) == (Phase.READY, None, 2)
    again = fold([Busy("Generate"), started(run=2)], state)
    assert (again.phase, again.failure) == (Phase.PREFILL, FAILED), "nor does the next run, before it is seen"
    assert reduce(again, FailureSeen()).failure is None


def test_a_failed_baseline_leaves_none() -> None:
    state = fold([*opening(), make_round(1, 1, 1), finished(), BaselineStarted(0, 0, 2), FAILED])
    assert (state.baseline, state.phase) == (None, Phase.FAILED)


def test_a_pause_is_asked_for_then_reached_then_left() -> None:
    state = fold([*opening(), make_round(1, 3, 1)])
    asked = reduce(state, Paused())
    assert (asked.phase, asked.pausing) == (Phase.RUNNING, True)
    reached = fold([make_round(2, 3, 1), PauseReached()], asked)
    assert (reached.phase, reached.pausing, reached.running) == (Phase.PAUSED, False, True)
    assert phases([make_round(3, 3, 1), PauseReached()], reached)[-1] is Phase.PAUSED, "a step"
    assert reduce(reached, Resumed()).phase is Phase.RUNNING
    assert fold([finished(), Idle()], reached).phase is Phase.READY, "cancelled at the pause"


def test_a_pause_that_was_reached_after_the_user_went_on_does_not_stick() -> None:
    state = fold([*opening(), Paused(), Resumed(), PauseReached(), make_round(1, 3, 1)])
    assert (state.phase, state.pausing) == (Phase.RUNNING, False)


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([started(), PauseReached(), Resumed()], Phase.PREFILL),
        ([*opening(), PauseReached(), PrefillProgress(0, 0, 1, 2)], Phase.RUNNING),
        ([*opening(), finished(), BaselineStarted(0, 0, 2), PauseReached(), Resumed()], Phase.BASELINE),
        ([PauseReached(), Resumed()], Phase.READY),
        ([Paused()], Phase.READY),
    ],
)
def test_after_a_pause_the_work_goes_on_where_it_was(events: list[Told | UiAction], phase: Phase) -> None:
    assert fold(events).phase is phase


def test_a_replay_pauses_at_once_and_stays_while_it_is_stepped() -> None:
    state = fold([*opening(), Paused()], ViewState(replay=True))
    assert (state.phase, state.pausing) == (Phase.PAUSED, False)
    state = fold([make_round(1, 3, 1)], state)
    assert state.phase is Phase.PAUSED
    assert fold([Resumed()], state).phase is Phase.RUNNING
    assert fold([finished()], state).phase is Phase.READY
    assert fold([finished(), Paused(), started(run=2)], state).phase is Phase.PAUSED
