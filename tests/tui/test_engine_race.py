"""A race on the engine's thread: told to whoever asked, with nothing between its rounds."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.listening import CONFIG, ENDLESS, LONG, PATIENCE_S, QUESTION, Listener, listening, rounds
from support.scripted import Script

from engine.events import Failed, Round, RunFinished
from engine.race import ArmEvent, RaceEvent, RaceFinished, WarmUp
from tui.engine_thread import Ask, Change, Generate, Race
from tui.state import Busy, Idle


def until(listener: Listener, told: list[RaceEvent], found: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not any(map(found, tuple(told))):
        assert time.monotonic() < end, f"still waiting; told: {told[-3:]}"
        time.sleep(0.001)


def is_of(arm: str, kind: type) -> Any:
    return lambda each: isinstance(each, ArmEvent) and each.arm == arm and isinstance(each.event, kind)


def test_a_race_is_told_to_who_asked_for_it() -> None:
    told: list[RaceEvent] = []
    with listening(Script(rounds=rounds(4))) as listener:
        listener.thread.send(Race(QUESTION, told.append))
        heard = listener.until_count(Idle)
        assert [type(event).__name__ for event in heard] == ["Busy", "Idle"]
        assert heard[0] == Busy("Race")
        assert told[-1] == RaceFinished(identical=True, first_difference=None)
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)


def test_neither_a_pause_nor_another_command_comes_between_its_rounds() -> None:
    told: list[RaceEvent] = []
    answers: list[object] = []
    with listening(Script(rounds=rounds(6), pause_s=0.002), LONG) as listener:
        listener.thread.pause()
        listener.thread.send(Race(QUESTION, told.append))
        until(listener, told, is_of("plain", RunFinished))
        listener.thread.send(Change(CONFIG))
        listener.thread.send(Ask(lambda session: len(told), answers.append))
        listener.until(lambda _: bool(answers))
        assert isinstance(told[-1], RaceFinished)
        assert answers == [len(told)], "the question waited for the end"
        assert listener.session.changed == [CONFIG]


@pytest.mark.parametrize("arm", ["plain", "speculative"])
def test_a_race_is_cancelled(arm: str) -> None:
    told: list[RaceEvent] = []
    script = ENDLESS if arm == "plain" else Script(rounds=rounds(60), pause_s=0.005)
    with listening(script, LONG) as listener:
        listener.thread.send(Race(QUESTION, told.append))
        until(listener, told, lambda each: isinstance(each, ArmEvent) and each.arm == arm)
        listener.thread.cancel()
        listener.until_count(Idle)
        assert not isinstance(told[-1], RaceFinished)
        assert isinstance(told[-1], ArmEvent) and isinstance(told[-1].event, RunFinished)
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)


def test_a_race_called_off_before_it_began_warms_nothing_up() -> None:
    told: list[RaceEvent] = []
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.send(Race(QUESTION, told.append))
        listener.thread.cancel()
        listener.until_count(Idle, 2)
        assert all(isinstance(each, WarmUp) and each.done == 0 for each in told)


def test_a_race_that_fails_is_told_as_any_failure() -> None:
    told: list[RaceEvent] = []
    with listening(Script(rounds=rounds(2), run_error=ZeroDivisionError("division by zero"))) as listener:
        listener.thread.send(Race(QUESTION, told.append))
        listener.until_count(Failed)
        listener.until_count(Idle)
        assert not any(isinstance(each, RaceFinished) for each in told)
