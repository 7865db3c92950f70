"""The engine's thread: cancels, pauses and faults, whenever they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.listening import CONFIG, ENDLESS, LONG, QUESTION, listening, rounds
from support.scripted import Script, make_round

from engine.errors import EngineError
from engine.events import (
    BaselineFinished,
    EndReason,
    Failed,
    Round,
    RunFinished,
)
from tui.engine_thread import Ask, Generate, Load
from tui.state import Idle, PauseReached


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# -- cancels, pauses, faults


def test_a_cancel_is_not_lost_before_the_work_begins() -> None:
    """The session forgets a cancel when it begins; that may be seconds after the command was sent."""
    with listening() as listener:
        load, generate = listener.session.load, listener.session.generate

        def slow_load(tell: Callable[[Any], None]) -> None:
            listener.thread.cancel()
            listener.session._cancelled.clear()
            listener.session.cancelled_after = []

            def noted(event: Any) -> None:
                tell(event)
                listener.session.cancelled_after.append(listener.session._cancelled.is_set())

            load(noted)

        listener.session.load = slow_load
        listener.thread.send(Load(CONFIG))
        listener.until_count(Idle)
        assert listener.session.cancelled_after[0], "it is told again at the first sign of work"

        def slow_generate(*args: Any, **named: Any) -> Iterator[Any]:
            listener.thread.cancel()
            yield from generate(*args, **named)

        listener.session.generate = slow_generate
        listener.thread.send(Generate(QUESTION))
        told = listener.until_count(Idle, 2)
        assert [event.reason for event in told if isinstance(event, RunFinished)] == [EndReason.CANCELLED]
        assert listener.count(Round) == 0
        listener.session.generate = generate
        listener.thread.send(Generate(QUESTION))
        listener.until_count(BaselineFinished)


def test_a_run_called_off_at_its_end_is_not_measured() -> None:
    with listening(Script(rounds=rounds(1))) as listener:
        generate = listener.session.generate

        def ending(*args: Any, **named: Any) -> Iterator[Any]:
            for event in generate(*args, **named):
                if isinstance(event, RunFinished):
                    listener.thread.cancel()
                yield event

        listener.session.generate = ending
        listener.thread.send(Generate(QUESTION))
        told = listener.until_count(Idle)
        assert [event.reason for event in told if isinstance(event, RunFinished)] == [EndReason.ROUNDS]
        assert listener.count(BaselineFinished) == 0


def test_a_pause_is_told_once_for_each_time_it_is_asked_for() -> None:
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.pause()
        listener.until_count(PauseReached)
        with listener.thread._changed:  # two presses before the thread wakes
            listener.thread.resume()
            listener.thread.pause()
        listener.until_count(PauseReached, 2)
        listener.stays(PauseReached, 2)


def test_nothing_waits_after_the_last_round() -> None:
    last = make_round(1, 3, 3, cut=EndReason.EOS)
    with listening(Script(rounds=(last,))) as listener:
        listener.thread.step_round()
        listener.thread.send(Generate(QUESTION))
        listener.until_count(RunFinished)
        assert listener.count(PauseReached) == 0


def test_a_question_that_fails_ends_no_run(tmp_path: Path) -> None:
    answers: list[object] = []
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.send(Ask(lambda session: {"y": 1}["x"], answers.append))
        listener.until(lambda told: bool(answers))
        listener.until_count(Round, listener.count(Round) + 2)
        assert listener.count(Failed) == 0
    (error,) = answers
    assert isinstance(error, EngineError)
    assert error.message == "internal error: KeyError: 'x'"
    (log,) = (tmp_path / "state").rglob("error-*.log")
    assert "Traceback" in log.read_text() and str(log) in str(error.hint)


def test_the_traceback_of_a_fault_is_in_a_file(tmp_path: Path) -> None:
    with listening(Script(run_error=ZeroDivisionError("division by zero"))) as listener:
        listener.thread.send(Generate(QUESTION))
        told = listener.until_count(Failed)
        (log,) = (tmp_path / "state").rglob("error-*.log")
        assert "Traceback" in log.read_text()
        assert str(log) in str(next(event for event in told if isinstance(event, Failed)).hint)
