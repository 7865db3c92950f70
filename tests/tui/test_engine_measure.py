"""A measurement on the engine's thread: told to whoever asked, alone, and ended by a cancel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from support.listening import CONFIG, ENDLESS, LONG, PATIENCE_S, QUESTION, listening
from support.scripted import Script

from engine.errors import DoesNotFit
from engine.events import Failed, Round
from tui.engine_commands import CalledOff
from tui.engine_thread import Ask, Change, Generate, Measure
from tui.state import Busy, Idle


def until(told: list[object], count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len(told) < count:
        assert time.monotonic() < end, told
        time.sleep(0.001)


def test_it_is_told_to_who_asked_for_it_and_nothing_comes_between() -> None:
    told: list[object] = []
    answers: list[object] = []

    def work(session: Any, called_off: CalledOff) -> Iterator[object]:
        assert session.closed is False
        for number in range(5):
            yield number
            time.sleep(0.01)
        yield called_off()

    with listening() as listener:
        listener.thread.send(Measure(work, told.append))
        until(told, 1)
        listener.thread.send(Change(CONFIG))
        listener.thread.send(Ask(lambda _: len(told), answers.append))
        listener.until(lambda _: bool(answers))
        assert told == [0, 1, 2, 3, 4, False] and answers == [6]
        assert listener.until_count(Idle)[:2] == [Busy("Measure"), Idle()]


def test_a_cancel_is_known_to_the_work_and_reaches_the_session() -> None:
    told: list[object] = []

    def work(session: Any, called_off: CalledOff) -> Iterator[object]:
        while not called_off():
            yield 0
            time.sleep(0.005)
        session._cancelled.clear()  # as a run does that begins now
        yield "off"
        yield session._cancelled.is_set()

    with listening() as listener:
        listener.thread.send(Measure(work, told.append))
        until(told, 3)
        listener.thread.cancel()
        listener.until_count(Idle)
        assert told[-2:] == ["off", True]
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)


def test_one_that_is_called_off_before_it_begins_is_told_so() -> None:
    told: list[object] = []

    def work(_: Any, called_off: CalledOff) -> Iterator[object]:
        yield called_off()

    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.send(Measure(work, told.append))
        listener.thread.cancel()
        listener.until_count(Idle, 2)
        assert told == [True]


def test_a_failure_is_told_as_any_failure() -> None:
    def work(_: Any, __: CalledOff) -> Iterator[object]:
        yield 1
        raise DoesNotFit("34 GB")

    told: list[object] = []
    with listening(Script()) as listener:
        listener.thread.send(Measure(work, told.append))
        listener.until_count(Failed)
        listener.until_count(Idle)
        assert told == [1]
