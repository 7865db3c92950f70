"""Sessions that are cancelled, left, recorded, or that fail: what was done is kept, the next run is sound."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from support.sessions import ASK, LENGTH, configured, ids_of, kinds, loaded, of, text_of

from engine.context import Message
from engine.errors import Cancelled, InvariantError, NumericalError, PromptTooLong
from engine.events import (
    BaselineFinished,
    BaselineProgress,
    EndReason,
    Event,
    LoadFinished,
    Notice,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
)
from engine.recording import Recorder, read_recording
from engine.session import Session

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


# -- cancelling


def test_cancel_keeps_the_tokens(target: str, drafter: str) -> None:
    config = configured(target, drafter)
    session = loaded(config)
    run = session.generate(ASK)
    events: list[Event] = []
    for event in run:
        events.append(event)
        if isinstance(event, Round) and event.number == 3:
            thread = threading.Thread(target=session.cancel)
            thread.start()
            thread.join()
    finished = of(RunFinished, events)
    assert finished.reason is EndReason.CANCELLED
    assert finished.tokens == len(ids_of(events)) > 0
    assert sum(isinstance(event, Round) for event in events) == 3
    assert session.statistics()["tokens"] == finished.tokens
    whole = list(loaded(config).generate(ASK))
    assert ids_of(events) == ids_of(whole)[: finished.tokens]
    assert text_of(whole).startswith(text_of(events).rstrip("\ufffd"))
    assert of(BaselineFinished, list(session.baseline())).identical is True
    assert ids_of(list(session.generate(ASK))) == ids_of(whole), "a cancel is over with its run"


@pytest.mark.parametrize("chunks", [1, 4])
def test_cancel_in_the_prefill(
    chunks: int, target: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the target's chunks and in the drafter's."""
    monkeypatch.setattr("engine.prefill.CHUNK", 8)
    config = configured(target, drafter)
    session = loaded(config)
    events: list[Event] = []
    for event in session.generate(ASK):
        events.append(event)
        if sum(isinstance(event, PrefillProgress) for event in events) == chunks:
            session.cancel()
    finished = of(RunFinished, events)
    assert finished.reason is EndReason.CANCELLED
    assert (finished.tokens, finished.ttft_ms, finished.text) == (0, None, "")
    assert kinds(events) == ["RunStarted", "SegmentStarted", "PrefillProgress", "RunFinished"]
    assert sum(isinstance(event, PrefillProgress) for event in events) == chunks
    assert list(session.baseline()) == []
    assert session.statistics()["tokens_per_second"] is None
    again = list(session.generate(ASK))
    assert of(RunStarted, again).reused == min(8 * chunks, len(of(RunStarted, again).prompt) - 1)
    assert ids_of(again) == ids_of(list(loaded(config).generate(ASK)))


def test_cancel_of_the_baseline(target: str) -> None:
    session = loaded(configured(target))
    list(session.generate(ASK))
    events: list[Event] = []
    for event in session.baseline():
        events.append(event)
        if isinstance(event, BaselineProgress):
            session.cancel()
    finished = of(BaselineFinished, events)
    assert not finished.complete
    assert 0 < finished.tokens < LENGTH
    assert finished.identical is None
    assert session.statistics()["speedup"] is None
    assert of(BaselineFinished, list(session.baseline())).complete


def test_cancel_while_loading(target: str) -> None:
    session = Session(configured(target))
    with pytest.raises(Cancelled):
        session.load(lambda event: session.cancel())
    with pytest.raises(InvariantError):
        next(iter(session.generate(ASK)))
    session.load()
    assert len(ids_of(list(session.generate(ASK)))) == LENGTH


def test_a_run_that_nobody_listens_to_any_more(target: str, drafter: str) -> None:
    """The generator is closed in the middle of a run, as when a screen goes away."""
    config = configured(target, drafter)
    session = loaded(config)
    run = session.generate(ASK)
    for event in run:
        if isinstance(event, Round) and event.number == 2:
            break
    cast("Any", run).close()
    assert ids_of(list(session.generate(ASK))) == ids_of(list(loaded(config).generate(ASK)))


# -- recording


def test_the_recorder_gets_every_event(target: str, drafter: str, tmp_path: Path) -> None:
    told: list[Event] = []
    session = Session(configured(target, drafter), Recorder(tmp_path / "run.jsonl"))
    session.load(told.append)
    for _ in range(2):
        told += session.generate(ASK)
        told += session.baseline()
    session.close()
    recording = read_recording(tmp_path / "run.jsonl")
    assert list(recording.events) == told
    assert not recording.torn
    assert recording.header["seed"] == session.seed
    assert recording.header["config"]["draft"]["model_name"] == drafter
    assert recording.header["context"] == [{"role": "user", "content": ASK[0].content}]
    (target_info,) = (e.model for e in told if isinstance(e, LoadFinished) and e.role == "target")
    assert recording.header["target"]["sha256"] == target_info.sha256


@pytest.mark.parametrize("writes", [0, 1, 5, 12])
def test_a_full_disk_ends_the_recording_not_the_run(
    writes: int, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ids_of(list(loaded(configured(target)).generate(ASK)))
    path = tmp_path / "run.jsonl"
    session = Session(configured(target), Recorder(path))
    left = itertools.count(writes, -1)
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if next(left) <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr("engine.recording.os.write", write)
    told: list[Event] = []
    session.load(told.append)
    events = list(session.generate(ASK))
    notices = [event for event in [*told, *events] if isinstance(event, Notice)]
    assert [notice.key for notice in notices].count("recording_stopped") == 1
    assert "No space left on device".lower() in notices[-1].text.lower()
    assert of(RunFinished, events).tokens == LENGTH
    assert ids_of(events) == whole
    assert of(BaselineFinished, list(session.baseline())).identical is True
    session.close()
    if writes:
        assert not read_recording(path).torn
    else:
        assert not path.exists()


# -- what goes wrong


def test_a_prompt_that_is_too_long(target: str) -> None:
    session = loaded(configured(target))
    with pytest.raises(PromptTooLong, match="512 at most"):
        list(session.generate((Message("user", "knight " * 600),)))
    assert len(ids_of(list(session.generate(ASK)))) == LENGTH


def test_the_context_fills_up(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, run={"max_new_tokens": 1000, "baseline": "full"}))
    events = list(session.generate(ASK))
    assert of(RunFinished, events).reason is EndReason.CONTEXT
    assert len(of(RunStarted, events).prompt) + of(RunFinished, events).tokens == 512
    assert of(BaselineFinished, list(session.baseline())).identical is True


@pytest.mark.parametrize("broken", ["first pass", "later"])
@pytest.mark.parametrize("what", ["run", "baseline"])
def test_nan_weights(what: str, broken: str, target: str, drafter: str) -> None:
    """The error names the number format; with sound weights the session goes on as if nothing had been."""
    session = loaded(configured(target, drafter))
    whole = ids_of(list(session.generate(ASK)))
    head = cast("Any", session.pair.target.model).lm_head.weight
    sound = head.clone()

    def spoil() -> None:
        with torch.no_grad():
            head.fill_(float("nan"))

    def repair() -> None:
        with torch.no_grad():
            head.copy_(sound)

    def spoiled() -> list[Event]:
        events: list[Event] = []
        for event in session.generate(ASK) if what == "run" else session.baseline():
            events.append(event)
            if broken == "later" and isinstance(event, Round | BaselineProgress):
                spoil()
        return events

    if broken == "first pass":
        spoil()
    with pytest.raises(NumericalError, match="float32"):
        spoiled()
    repair()
    assert ids_of(list(session.generate(ASK))) == whole
    assert of(BaselineFinished, list(session.baseline())).identical is True


def test_nan_in_the_drafter(target: str, drafter: str) -> None:
    """It could only cost speed, but a user should know."""
    session = loaded(configured(target, drafter))
    whole = ids_of(list(session.generate(ASK)))
    model = session.pair.drafter.context.model
    assert model is not None
    head = cast("Any", model.model).lm_head.weight
    sound = head.clone()
    with torch.no_grad():
        head.fill_(float("nan"))
    with pytest.raises(NumericalError, match="the drafter's logits are not finite"):
        list(session.generate(ASK))
    with torch.no_grad():
        head.copy_(sound)
    assert ids_of(list(session.generate(ASK))) == whole
