"""The engine's thread, driven with a scripted session: no torch."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from support.listening import CONFIG, ENDLESS, LONG, PATIENCE_S, QUESTION, Listener, listening, rounds
from support.scripted import Script

from engine.config import parse_config
from engine.errors import ConfigError, ModelNotFound
from engine.events import (
    BaselineFinished,
    EndReason,
    Failed,
    LoadFinished,
    Round,
    RunFinished,
    SegmentStarted,
)
from engine.recording import Recorder
from tui.engine_thread import Ask, Change, Eject, Generate, Load, Record
from tui.state import Busy, Held, Idle, PauseReached


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_run_is_told_in_order_and_the_baseline_follows() -> None:
    with listening() as listener:
        listener.thread.send(Load(CONFIG))
        listener.thread.send(Generate(QUESTION, given=(7,)))
        told = listener.until_count(Idle, 2)
        kinds = [type(event) for event in told]
        assert kinds[0] is Busy
        assert kinds.index(LoadFinished) < kinds.index(Held) < kinds.index(Round)
        assert kinds.index(RunFinished) < kinds.index(BaselineFinished)
        assert kinds[-1] is Idle
        assert listener.session.given == (7,)


def test_pause_step_and_resume() -> None:
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.pause()
        listener.until_count(PauseReached)
        before = listener.count(Round)
        listener.stays(Round, before)
        listener.thread.step_round()
        listener.until_count(PauseReached, 2)
        assert listener.count(Round) == before + 1
        listener.stays(Round, before + 1)
        listener.thread.resume()
        listener.until_count(Round, before + 5)


def test_a_step_from_rest_reads_the_prompt_and_does_one_round() -> None:
    with listening(ENDLESS, LONG) as listener:
        listener.thread.step_round()
        listener.thread.send(Generate(QUESTION))
        listener.until_count(PauseReached)
        assert listener.count(Round) == 1
        listener.stays(Round, 1)


def test_no_step_is_lost() -> None:
    with listening(ENDLESS, LONG) as listener:
        listener.thread.pause()
        listener.thread.send(Generate(QUESTION))
        listener.until_count(PauseReached)
        for _ in range(3):
            listener.thread.step_round()
        listener.until_count(PauseReached, 2)
        assert listener.count(Round) == 3


@pytest.mark.parametrize("paused", [False, True])
def test_cancel_keeps_the_text_and_measures_nothing(paused: bool) -> None:
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round, 2)
        if paused:
            listener.thread.pause()
            listener.until_count(PauseReached)
        listener.thread.cancel()
        told = listener.until_count(Idle)
        finished = next(event for event in told if isinstance(event, RunFinished))
        assert finished.reason is EndReason.CANCELLED
        assert listener.count(Round) >= 2
        assert listener.count(BaselineFinished) == 0
        # The next run is not paused and not cancelled.
        listener.thread.send(Generate(QUESTION))
        listener.until(lambda told: sum(isinstance(event, RunFinished) for event in told) == 1)
        listener.until_count(Round, listener.count(Round) + 3)


@pytest.mark.parametrize("paused", [False, True])
def test_settings_change_between_two_rounds(paused: bool) -> None:
    other = parse_config(
        '[draft]\nmethod = "lookup"\nnum_draft_tokens = 2\n[verify]\nmodel_name = "scripted"\n', "test"
    )
    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        if paused:
            listener.thread.pause()
            listener.until_count(PauseReached)
        listener.thread.send(Change(other))
        listener.thread.resume()
        told = listener.until_count(SegmentStarted, 2)
        segments = [event for event in told if isinstance(event, SegmentStarted)]
        assert segments[1].settings.num_draft_tokens == 2


def test_a_refused_change_is_told_and_the_answer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(ENDLESS, LONG) as listener:

        def refuse(config: object) -> None:
            raise ConfigError("these do not go together")

        monkeypatch.setattr(listener.session, "change", refuse)
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.send(Change(CONFIG))
        listener.until_count(Failed)
        listener.until_count(Round, listener.count(Round) + 3)
        listener.thread.cancel()
        listener.until_count(RunFinished)


def test_a_question_is_answered_while_paused() -> None:
    answers: list[object] = []
    answered = threading.Event()

    def reply(answer: object) -> None:
        answers.append(answer)
        answered.set()

    def refuse(session: object) -> object:
        raise ModelNotFound("there is no model 'x'", "name another one")

    with listening(ENDLESS, LONG) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
        listener.thread.pause()
        listener.until_count(PauseReached)
        for question in (lambda session: session.config, refuse):
            answered.clear()
            listener.thread.send(Ask(question, reply))
            assert answered.wait(PATIENCE_S)
    assert answers[0] == LONG
    assert isinstance(answers[1], ModelNotFound)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ModelNotFound("there is no model 'x'", "name another one"), "there is no model 'x'"),
        (ZeroDivisionError("division by zero"), "internal error: ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("where", ["load_error", "run_error"])
def test_an_error_is_told_and_the_thread_goes_on(where: str, error: Exception, message: str) -> None:
    script = Script(load_error=error) if where == "load_error" else Script(run_error=error)
    with listening(script) as listener:
        listener.thread.send(Load(CONFIG))
        listener.thread.send(Generate(QUESTION))
        told = listener.until_count(Failed)
        assert next(event for event in told if isinstance(event, Failed)).message == message
        listener.until_count(Idle, 2)
        listener.thread.send(Eject())
        listener.until_count(Idle, 3)
        assert listener.thread.alive


def test_a_new_command_ends_the_measurement() -> None:
    script = Script(pause_s=PATIENCE_S, rounds=rounds(1))
    with listening(script) as listener:
        listener.thread.send(Generate(QUESTION))
        listener.thread.send(Eject())
        told = listener.until_count(Idle, 2)
        assert [event.complete for event in told if isinstance(event, BaselineFinished)] == [False]


def test_the_screen_is_woken_once_for_many_events() -> None:
    with listening(Script(rounds=rounds(10))) as listener:
        listener.thread.send(Generate(QUESTION))
        while not listener.session.messages or listener.thread._mail:
            time.sleep(0.001)
        time.sleep(0.2)
        assert listener.woken == 1
        assert listener.until_count(Idle)
        assert not listener.thread.backlog


@pytest.mark.parametrize("started", [True, False])
def test_a_recording_that_was_to_begin_is_closed(tmp_path: Path, started: bool) -> None:
    listener = Listener(Script(stubborn_s=0.2))
    if started:
        listener.thread.start()
        listener.thread.send(Generate(QUESTION))
        listener.until_count(Round)
    recorder = Recorder(tmp_path / "run.jsonl")
    listener.thread.send(Record(recorder))
    assert listener.thread.stop(PATIENCE_S)
    assert listener.session.closed
    assert recorder.closed
    assert not (tmp_path / "run.jsonl").exists(), "nothing was written into it"
