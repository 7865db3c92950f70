"""A race as a pure state: each arm on its own clock, and what either shows at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.races import ROUNDS, fold, rounds_drawn, told
from support.scripted import make_round

from engine.events import EndReason, Event, Notice, PlainStep, PrefillProgress, Round, RunFinished
from engine.race import ARMS, Arm, ArmEvent, RaceEvent, RaceFinished, WarmUp
from tui.race_state import RaceState, Side, Stage, side, sides


def arm_events(arm: Arm, events: Iterable[Event]) -> list[RaceEvent]:
    return [ArmEvent(arm, event) for event in events]


def ids(shown: Side) -> list[int]:
    return [token.id for token in shown.view.output]


def test_the_clocks_end_with_the_engine_s_times() -> None:
    state = fold(told())
    assert state.plain.seconds == pytest.approx(0.005 + 14 * 0.025)
    assert state.speculative.seconds == pytest.approx(0.005 + 5 * 0.043875)
    for arm in ARMS:
        finished = state.arm(arm).finished
        assert finished is not None
        assert state.arm(arm).seconds == pytest.approx((finished.prefill_ms + finished.decode_ms) / 1e3)
    assert state.end == state.plain.seconds
    assert (state.running, state.goal) == (None, 14)


def test_what_is_shown_at_a_time() -> None:
    state = fold(told())
    for seconds, plain, speculative in ((0.0, 0, 0), (0.004, 0, 0), (0.031, 1, 0), (0.06, 2, 4), (0.1, 3, 6)):
        assert [each.tokens for each in sides(state, seconds)] == [plain, speculative], seconds
    late = sides(state, 99.0)
    assert [each.stage for each in late] == [Stage.FINISHED, Stage.FINISHED]
    assert [each.seconds for each in late] == [state.plain.seconds, state.speculative.seconds]
    assert ids(late[0]) == ids(late[1])
    assert late[0].per_second == pytest.approx(40.0)
    between = sides(state, 0.25)
    assert [each.stage for each in between] == [Stage.RUNNING, Stage.FINISHED]
    assert between[0].view.finished is None
    assert between[1].view.finished is not None
    assert [each.seconds for each in between] == [0.25, state.speculative.seconds]


@given(rounds_drawn())
def test_the_ghost_shows_what_was_shown_live(rounds: tuple[Round, ...]) -> None:
    events = told(rounds)
    whole = fold(events)
    state = RaceState()
    for number, event in enumerate(events):
        state = fold([event], state)
        if state.running is None or not isinstance(event, ArmEvent):
            continue
        seconds = state.arm(state.running).seconds
        later = fold(events[number + 1 : number + 2], state).arm(state.running).seconds
        if later > seconds:  # else the next mark counts for this time too
            live, ghost = side(state, state.running, seconds), side(whole, state.running, seconds)
            assert (ids(live), live.mark, live.per_second) == (ids(ghost), ghost.mark, ghost.per_second)
            other = side(state, "plain", seconds)
            assert ids(other) == ids(side(whole, "plain", seconds))


@given(rounds_drawn(), st.lists(st.floats(0, 3), min_size=2))
def test_a_text_only_grows_with_the_time(rounds: tuple[Round, ...], times: list[float]) -> None:
    state = fold(told(rounds))
    for arm in ARMS:
        whole = ids(side(state, arm, state.end))
        shown = [ids(side(state, arm, seconds)) for seconds in sorted(times)]
        assert shown == sorted(shown, key=len)
        assert all(whole[: len(text)] == text for text in shown)
        assert len(whole) == sum(len(round_.tokens) for round_ in rounds)


def test_the_stages_of_an_arm() -> None:
    events = told()
    seen: list[tuple[Stage, Stage]] = []
    state = RaceState()
    for event in events:
        state = fold([event], state)
        seconds = 0.0 if state.running is None else state.arm(state.running).seconds
        stages = tuple(each.stage for each in sides(state, state.end if state.result else seconds))
        if stages not in seen[-1:]:
            seen.append((stages[0], stages[1]))
    assert seen == [
        (Stage.WARMING, Stage.WAITING),
        (Stage.WAITING, Stage.WARMING),
        (Stage.PREFILL, Stage.WAITING),
        (Stage.RUNNING, Stage.WAITING),
        (Stage.FINISHED, Stage.WAITING),
        (Stage.PREFILL, Stage.PREFILL),
        (Stage.RUNNING, Stage.RUNNING),
        (Stage.RUNNING, Stage.FINISHED),
        (Stage.FINISHED, Stage.FINISHED),
    ]
    assert isinstance(events[0], WarmUp) and isinstance(events[-1], RaceFinished)


def test_the_prompt_is_read_on_the_clock() -> None:
    start = next(
        each.event for each in told() if isinstance(each, ArmEvent) and each.arm == "plain"
    )  # its RunStarted
    state = fold(
        arm_events(
            "plain",
            [start, *(PrefillProgress(0, start.t_ns + at * 10**9, at * 100, 300) for at in (1, 2))],
        )
    )
    at = [side(state, "plain", seconds) for seconds in (0.5, 1.5, 7.0)]
    assert [each.mark.prefilled for each in at] == [0, 100, 200]
    assert {each.stage for each in at} == {Stage.PREFILL}
    assert at[-1].seconds == 7.0, "the clock of what runs goes on between two events"


def test_tokens_that_a_stop_string_took_back_are_gone() -> None:
    """A plain step whose own token is among them, and a round."""
    last = dataclasses.replace(make_round(3, 3, 1), cut=EndReason.STOP, taken_back=3, tokens=(), text="")
    events = told(ROUNDS[:2])
    stop = [PlainStep(0, 0, number, number, b"%d" % number, "", None, 0, 20.0, 5.0) for number in range(1, 6)]
    stop.append(PlainStep(0, 0, 6, 6, b"6", "", EndReason.STOP, 2, 20.0, 5.0))
    start = [each.event for each in events if isinstance(each, ArmEvent) and each.arm == "plain"][:4]
    plain = [*start, *stop, RunFinished(0, 0, EndReason.STOP, "", 3, 5.0, 30.0, 150.0)]
    others = [each.event for each in events if isinstance(each, ArmEvent) and each.arm == "speculative"]
    others = [*others[:-1], last, RunFinished(0, 0, EndReason.STOP, "", 3, 5.0, 40.0, 131.625)]
    state = fold([*arm_events("plain", plain), *arm_events("speculative", others)])
    assert ids(side(state, "plain", 99.0)) == [1, 2, 3]
    assert side(state, "speculative", 99.0).tokens == 3
    assert state.goal == 3
    assert state.plain.seconds == pytest.approx(0.155)


def test_a_bar_is_full_at_the_limit_until_the_plain_answer_is_known() -> None:
    events = told()
    first = next(at for at, each in enumerate(events) if _is_step(each))
    assert fold(events[: first + 1]).goal == 500
    plain_end = next(at for at, each in enumerate(events) if _is_end(each))
    assert fold(events[: plain_end + 1]).goal == 14


def _is_step(each: RaceEvent) -> bool:
    return isinstance(each, ArmEvent) and isinstance(each.event, PlainStep)


def _is_end(each: RaceEvent) -> bool:
    return isinstance(each, ArmEvent) and isinstance(each.event, RunFinished)


def test_what_the_engine_had_to_say_is_kept() -> None:
    notice = Notice(0, 0, "speculation_off", "speculation is off: drafter context full")
    state = fold([ArmEvent("speculative", notice)])
    assert state.notices == ("speculation is off: drafter context full",)
