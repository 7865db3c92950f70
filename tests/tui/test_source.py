"""A replay tells every event once, in order, when its time has come or when the user steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import make_round

from engine.events import EndReason, Event, Notice, PlainStep, Round, RunFinished, RunStarted
from tui.source import LiveSource, ReplayClock, ReplaySource
from tui.state import Busy, Idle, Jumped, Told, ViewState, needs_round, reduce, visible_output


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def at(seconds: float, event: Event | None = None) -> Event:
    event = Notice(0, 0, "n", f"{seconds}") if event is None else event
    return dataclasses.replace(event, t_ns=round(5e9 + seconds * 1e9))


def replay(events: Sequence[Event], hand: Hand | None = None) -> tuple[ReplaySource, Hand]:
    hand = hand or Hand()
    return ReplaySource(events, ReplayClock(hand)), hand


def arrived(source: ReplaySource) -> Jumped:
    """What the replay tells when it is where it was sent to."""
    while source.seeking:
        for told in source.poll():
            assert isinstance(told, Jumped)
            return told
    raise AssertionError("it was not on its way")


STORY = [
    at(0.0, RunStarted(1, 0, 1, "speculative", (1,), (b"a",), 0, 9, None, ())),
    at(0.5, make_round(1, 2, 1)),
    at(1.0, make_round(2, 2, 2)),
    at(1.5, make_round(3, 0, 0)),
    at(1.6, RunFinished(9, 0, EndReason.ROUNDS, "", 6, 1.0, 2.0, 3.0)),
]


# -- the clock


def test_the_clock_stands_until_it_plays() -> None:
    hand = Hand()
    clock = ReplayClock(hand)
    hand.time += 5
    assert (clock.time, clock.playing) == (0.0, False)
    clock.play()
    hand.time += 2
    clock.play()
    hand.time += 1
    assert (clock.time, clock.playing) == (3.0, True)
    clock.pause()
    hand.time += 9
    clock.pause()
    assert clock.time == 3.0


def test_another_speed_holds_from_now_on() -> None:
    hand = Hand()
    clock = ReplayClock(hand, speed=2.0)
    clock.play()
    hand.time += 1
    clock.speed = 0.5
    hand.time += 2
    assert (clock.time, clock.speed) == (3.0, 0.5)
    clock.jump(10.0)
    hand.time += 2
    assert clock.time == 11.0
    with pytest.raises(AssertionError, match="forwards"):
        clock.speed = 0
    with pytest.raises(AssertionError, match="forwards"):
        ReplayClock(hand, speed=-1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["play", "pause", "fast", "slow", "wait"]), st.floats(0, 9)), max_size=20
    )
)
def test_the_clock_never_goes_back_and_keeps_its_place(steps: list[tuple[str, float]]) -> None:
    hand = Hand()
    clock = ReplayClock(hand)
    for what, seconds in steps:
        before = clock.time
        match what:
            case "play":
                clock.play()
            case "pause":
                clock.pause()
            case "fast":
                clock.speed = 4.0
            case "slow":
                clock.speed = 0.25
        assert clock.time == pytest.approx(before)
        hand.time += seconds
        assert clock.time >= before


# -- playing


def test_events_come_when_their_time_has_come() -> None:
    source, hand = replay(STORY)
    assert (list(source.poll()), source.next_due_s) == ([], None)
    source.play()
    assert list(source.poll()) == STORY[:1]
    assert source.next_due_s == pytest.approx(0.5)
    hand.time += 0.4
    assert list(source.poll()) == []
    source.clock.speed = 2.0
    assert source.next_due_s == pytest.approx(0.05)
    hand.time += 0.35
    assert list(source.poll()) == STORY[1:3]
    source.pause()
    hand.time += 50
    assert list(source.poll()) == []
    source.play()
    hand.time += 50
    assert list(source.poll()) == STORY[3:]
    assert (source.at_end, source.clock.playing, source.next_due_s) == (True, False, None)
    assert source.clock.time == source.duration == pytest.approx(1.6)


def test_what_is_not_drawn_comes_with_the_next_poll() -> None:
    source, hand = replay(STORY)
    source.play()
    hand.time += 50
    assert next(iter(source.poll())) is STORY[0]
    assert list(source.poll()) == STORY[1:]


def test_long_gaps_are_cut_and_a_clock_that_ran_back_is_no_gap() -> None:
    events = [at(0), at(1), at(3600), at(3599), at(3599.5)]
    source, hand = replay(events)
    assert source.duration == pytest.approx(3.5)
    source.play()
    hand.time += 3.01
    assert list(source.poll()) == events[:4]
    assert ReplaySource(events, ReplayClock(hand), max_gap_s=0.1).duration == pytest.approx(0.3)


def test_an_empty_recording_is_at_its_end() -> None:
    source, _ = replay([])
    source.play()
    source.step_round()
    assert (list(source.poll()), source.at_end, source.duration, source.next_due_s) == ([], True, 0.0, None)


def test_it_can_begin_again() -> None:
    source, hand = replay(STORY)
    source.play()
    hand.time += 9
    assert len(list(source.poll())) == len(STORY)
    source.play()
    assert not source.clock.playing
    source.restart()
    source.play()
    assert arrived(source) == Jumped(ViewState(replay=True))
    assert list(source.poll()) == STORY[:1]


# -- stepping


def test_a_step_tells_all_up_to_the_next_round() -> None:
    source, hand = replay(STORY)
    source.play()
    source.step_round()
    assert (source.clock.playing, source.next_due_s) == (False, 0.0)
    assert list(source.poll()) == STORY[:2]
    hand.time += 50
    assert list(source.poll()) == []
    source.step_round()
    source.step_round()
    assert list(source.poll()) == STORY[2:4], "two steps before a poll are two rounds"
    assert source.clock.time == pytest.approx(1.5)
    source.step_round()
    assert list(source.poll()) == STORY[4:]
    source.step_round()
    assert (list(source.poll()), source.at_end) == ([], True)


def test_playing_goes_on_from_where_the_steps_led() -> None:
    source, hand = replay(STORY)
    source.step_round()
    assert len(list(source.poll())) == 2
    source.play()
    hand.time += 0.4
    assert list(source.poll()) == []
    hand.time += 0.2
    assert list(source.poll()) == STORY[2:3]


def test_a_plain_step_is_a_step() -> None:
    steps = [at(number, PlainStep(0, 0, number, 1, b"a", "a", None, 0, 1.0, 1.0)) for number in range(3)]
    source, _ = replay(steps)
    source.step_round()
    assert list(source.poll()) == steps[:1]


def test_stepping_by_tokens_shows_one_thing_more_each_time() -> None:
    source, _ = replay(STORY)
    state = ViewState(replay=True)
    shown: list[tuple[int, int | None, int]] = []
    for _ in range(4 + 5 + 1):
        state = reduce(state, source.step_token(state))
        for event in source.poll():
            state = reduce(state, event)
        shown.append((len(state.rounds), state.revealed, len(visible_output(state))))
    assert shown[:5] == [(1, 1, 0), (1, 2, 0), (1, 3, 1), (1, 4, 1), (1, None, 2)]
    assert shown[5:] == [(2, 1, 2), (2, 2, 2), (2, 3, 3), (2, 4, 4), (2, None, 5)]
    state = reduce(state, source.step_token(state))
    for event in source.poll():
        state = reduce(state, event)
    assert (len(state.rounds), state.revealed) == (3, None)


def test_a_second_step_asked_for_before_the_round_came_asks_for_no_other() -> None:
    source, _ = replay(STORY)
    state = reduce(ViewState(replay=True), STORY[0])
    assert needs_round(state)
    state = reduce(state, source.step_token(state))
    state = reduce(state, source.step_token(state))
    assert [type(event) for event in source.poll()] == [RunStarted, Round]


# -- all together


@given(
    st.lists(st.tuples(st.floats(0, 4), st.booleans()), max_size=15),
    st.lists(st.tuples(st.sampled_from(["play", "pause", "step", "fast"]), st.floats(0, 3)), max_size=25),
)
def test_whatever_the_user_does_each_event_comes_once_in_order(
    times: list[tuple[float, bool]], moves: list[tuple[str, float]]
) -> None:
    events: list[Event] = []
    now = 0.0
    for number, (gap, is_round) in enumerate(times):
        now += gap
        events.append(at(now, make_round(number, 1, 1) if is_round else None))
    source, hand = replay(events)
    told: list[Told] = []
    for what, seconds in moves:
        match what:
            case "play":
                source.play()
            case "pause":
                source.pause()
            case "step":
                source.step_round()
            case "fast":
                source.clock.speed = 3.0
        hand.time += seconds
        told += source.poll()
        assert told == events[: len(told)]
    source.play()
    hand.time += 1e6
    told += source.poll()
    assert told == events


def test_a_live_source_tells_what_the_engine_said() -> None:
    waiting: list[Told] = [Busy("Load"), at(1), Idle()]
    source = LiveSource(lambda: [waiting.pop(0) for _ in range(len(waiting))])
    assert list(source.poll()) == [Busy("Load"), at(1), Idle()]
    assert list(source.poll()) == []
