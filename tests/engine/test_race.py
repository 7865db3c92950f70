"""The plain arm as a run of its own, and the race of both arms, on sessions of tiny random models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import run_plain
from support.sessions import ASK, LENGTH, configured, ids_of, kinds, loaded, of, text_of

from engine.answer import Limits
from engine.context import Message
from engine.draws import Draws
from engine.errors import NumericalError
from engine.events import (
    BaselineFinished,
    EndReason,
    Event,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.race import WARM_UP, Arm, ArmEvent, RaceEvent, RaceFinished, WarmUp, race
from engine.recording import Recorder, read_recording
from engine.session import Session

SAMPLED = {"temperature": 1.0, "seed": 11}


pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def steps_of(events: list[Event]) -> list[PlainStep]:
    return [event for event in events if isinstance(event, PlainStep)]


def arm_of(told: list[RaceEvent], arm: Arm) -> list[Event]:
    return [each.event for each in told if isinstance(each, ArmEvent) and each.arm == arm]


def plain_text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, PlainStep | RunFinished))


def stop_in(text: str) -> str:
    """Three characters from the middle of a text, over a token border or not."""
    middle = range(len(text) // 2, len(text) - 3)
    return next(text[at : at + 3] for at in middle if text[at : at + 3].isascii())


# -- the plain arm


def test_the_story_of_a_plain_answer(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter))
    events = list(session.plain(ASK))
    assert kinds(events) == [
        "RunStarted", "SegmentStarted", "PrefillProgress", "PrefillFinished", "PlainStep", "RunFinished",
    ]  # fmt: skip
    started, finished, steps = of(RunStarted, events), of(RunFinished, events), steps_of(events)
    assert (started.mode, started.reused, started.run) == ("plain", 0, 1)
    assert [step.number for step in steps] == list(range(1, LENGTH + 1))
    assert (finished.reason, finished.tokens) == (EndReason.MAX_NEW_TOKENS, LENGTH)
    assert finished.decode_ms == pytest.approx(sum(step.ms for step in steps))
    assert finished.ttft_ms == pytest.approx(finished.prefill_ms + steps[0].ms)
    progress = [event for event in events if isinstance(event, PrefillProgress)]
    assert progress[-1].done == progress[-1].total == len(started.prompt) - 1, "the drafter reads nothing"
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    measures = session.statistics()
    assert (measures["tokens"], measures["rounds"]) == (LENGTH, 0)
    speculative = list(session.generate(ASK))
    assert [step.id for step in steps] == ids_of(speculative)
    assert plain_text(events) == text_of(speculative)
    assert of(RunStarted, speculative).reused == len(started.prompt) - 1
    assert of(BaselineFinished, list(session.baseline())).identical is True


def test_a_sampled_plain_answer_is_the_reference_s(target: str) -> None:
    session = loaded(configured(target, sampling=SAMPLED))
    events = list(session.plain(ASK))
    prompt = of(RunStarted, events).prompt
    reference = run_plain(
        session.pair.target,
        list(prompt),
        Limits(LENGTH, 512),
        given=of(SegmentStarted, events).settings,
        draws=Draws(11),
        dtype=torch.float32,
    )
    assert [step.id for step in steps_of(events)] == reference.ids


def test_a_plain_answer_ends_at_its_stop_string(target: str) -> None:
    whole = plain_text(list(loaded(configured(target)).plain(ASK)))
    stop = stop_in(whole)
    session = loaded(configured(target, run={"stop": [stop]}))
    events = list(session.plain(ASK))
    finished = of(RunFinished, events)
    assert finished.reason is EndReason.STOP
    assert plain_text(events) == whole[: whole.index(stop)]
    assert session.statistics()["tokens"] == finished.tokens
    assert finished.tokens == len(ids_of(list(session.generate(ASK))))


def test_rounds_limit_the_steps_of_a_plain_answer(target: str) -> None:
    session = loaded(configured(target, run={"max_new_tokens": None, "rounds": 3}))
    events = list(session.plain(ASK))
    assert (len(steps_of(events)), of(RunFinished, events).reason) == (3, EndReason.ROUNDS)


@pytest.mark.parametrize("after", [PrefillProgress, PlainStep])
def test_a_plain_answer_is_cancelled(
    after: type[Event], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.prefill.CHUNK", 8)
    session = loaded(configured(target))
    events: list[Event] = []
    for event in session.plain(ASK):
        events.append(event)
        if isinstance(event, after):
            session.cancel()
    assert sum(isinstance(event, after) for event in events) == 1
    finished = of(RunFinished, events)
    assert (finished.reason, finished.tokens) == (EndReason.CANCELLED, len(steps_of(events)))
    again = list(session.generate(ASK))
    assert of(RunStarted, again).reused > 0
    assert ids_of(again) == ids_of(list(loaded(configured(target)).generate(ASK)))


# -- the race


def test_each_arm_runs_whole_alone_and_after_the_warm_up(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter))
    told = list(race(session, ASK))
    order = [type(each).__name__ + getattr(each, "arm", "") for each in told]
    assert [name for name, _ in itertools.groupby(order)] == [
        "WarmUpplain", "WarmUpspeculative", "ArmEventplain", "ArmEventspeculative", "RaceFinished",
    ]  # fmt: skip
    for arm in ("plain", "speculative"):
        warm = [each for each in told if isinstance(each, WarmUp) and each.arm == arm]
        assert (warm[0].done, warm[-1].done, warm[-1].total) == (0, WARM_UP, WARM_UP)
    plain, speculative = arm_of(told, "plain"), arm_of(told, "speculative")
    for events, models in ((plain, 1), (speculative, 2)):
        assert of(RunStarted, events).reused == 0
        progress = [event for event in events if isinstance(event, PrefillProgress)]
        assert progress[-1].total == models * (len(of(RunStarted, events).prompt) - 1)
        assert of(PrefillFinished, events).ms > 0
        assert of(RunFinished, events).tokens == LENGTH
    assert of(SegmentStarted, plain).settings == of(SegmentStarted, speculative).settings
    assert told[-1] == RaceFinished(identical=True, first_difference=None)
    assert [step.id for step in steps_of(plain)] == ids_of(speculative)


def test_a_stop_string_ends_both_arms_at_the_same_token(target: str, drafter: str) -> None:
    stop = stop_in(text_of(list(loaded(configured(target)).generate(ASK))))
    told = list(race(loaded(configured(target, drafter, run={"stop": [stop]})), ASK))
    assert told[-1] == RaceFinished(identical=True, first_difference=None)
    ends = [of(RunFinished, arm_of(told, arm)) for arm in ("plain", "speculative")]
    assert ends[0].tokens == ends[1].tokens
    assert {end.reason for end in ends} == {EndReason.STOP}


def test_the_first_token_that_differs_is_found(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = loaded(configured(target))
    plain = session.plain

    def other(*args: Any) -> Iterator[Event]:
        for event in plain(*args):
            wrong = isinstance(event, PlainStep) and event.number == 5
            yield PlainStep(*_parts(event), 1, b"?", "?", None, 0, 1.0, 1.0) if wrong else event

    monkeypatch.setattr(session, "plain", other)
    assert list(race(session, ASK))[-1] == RaceFinished(identical=False, first_difference=4)


def _parts(event: Event) -> tuple[int, int, int]:
    return event.seq, event.t_ns, 5


def test_a_shorter_answer_differs_at_its_end(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = loaded(configured(target))
    plain = session.plain

    def shorter(*args: Any) -> Iterator[Event]:
        for event in plain(*args):
            if not isinstance(event, PlainStep) or event.number < LENGTH:
                yield event

    monkeypatch.setattr(session, "plain", shorter)
    assert list(race(session, ASK))[-1] == RaceFinished(identical=False, first_difference=LENGTH - 1)


def test_sampled_texts_are_not_compared(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, sampling=SAMPLED))
    told = list(race(session, ASK))
    assert told[-1] == RaceFinished(identical=None, first_difference=None)
    alone = loaded(configured(target, drafter, sampling=SAMPLED))
    assert ids_of(arm_of(told, "speculative")) == ids_of(list(alone.generate(ASK)))
    assert [step.id for step in steps_of(arm_of(told, "plain"))] == [
        step.id for step in steps_of(list(alone.plain(ASK)))
    ]


def test_both_arms_have_the_same_limit_where_rounds_are_limited(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, run={"max_new_tokens": None, "rounds": 4}))
    told = list(race(session, ASK))
    ends = [of(RunFinished, arm_of(told, arm)) for arm in ("plain", "speculative")]
    assert [(end.tokens, end.reason) for end in ends] == [(16, EndReason.MAX_NEW_TOKENS)] * 2, "4 (K + 1)"
    assert session.config.run.rounds == 4


def test_the_last_run_stays_the_last_one(target: str, drafter: str, tmp_path: Path) -> None:
    session = loaded(configured(target, drafter), Recorder(tmp_path / "run.jsonl"))
    first = list(session.generate(ASK))
    measures = session.statistics()
    list(race(session, (Message("user", "Who took the bridge?"),)))
    assert session.statistics() == measures
    baseline = of(BaselineFinished, list(session.baseline()))
    assert list(baseline.ids) == ids_of(first), "what is timed is the last run's answer"
    second = list(session.generate(ASK))
    assert of(RunStarted, second).run == 2
    assert ids_of(second) == ids_of(first)
    assert of(RunStarted, second).reused == len(of(RunStarted, second).prompt) - 1
    session.close()
    recording = read_recording(tmp_path / "run.jsonl")
    recorded = [event for event in recording.events if isinstance(event, RunStarted | PlainStep)]
    assert [getattr(event, "mode", "step") for event in recorded] == ["speculative"] * 2


def stages() -> dict[str, tuple[Any, ...]]:
    """Where a race may be cancelled: the first thing told that fits, and how many answers ended by then."""
    return {
        "plain warm-up": (lambda each: isinstance(each, WarmUp) and each.arm == "plain", 0),
        "speculative warm-up": (lambda each: isinstance(each, WarmUp) and each.arm == "speculative", 0),
        "plain prefill": (lambda each: _is(each, "plain", PrefillProgress), 0),
        "plain decoding": (lambda each: _is(each, "plain", PlainStep), 0),
        "speculative prefill": (lambda each: _is(each, "speculative", PrefillProgress), 1),
        "speculative decoding": (lambda each: _is(each, "speculative", Round), 1),
    }


def _is(each: RaceEvent, arm: Arm, kind: type[Event]) -> bool:
    return isinstance(each, ArmEvent) and each.arm == arm and isinstance(each.event, kind)


@pytest.mark.parametrize("stage", stages())
def test_a_cancelled_race_ends_with_its_arm(stage: str, target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter))
    fits, ended = stages()[stage]
    told: list[RaceEvent] = []
    for each in race(session, ASK):
        told.append(each)
        if fits(each):
            session.cancel()
    reasons = [
        each.event.reason
        for each in told
        if isinstance(each, ArmEvent) and isinstance(each.event, RunFinished)
    ]
    arms = [EndReason.MAX_NEW_TOKENS] * ended + ([] if "warm-up" in stage else [EndReason.CANCELLED])
    assert reasons == arms
    assert not isinstance(told[-1], RaceFinished)
    assert sum(map(fits, told)) <= 2, "the work ends at once"
    assert ids_of(list(session.generate(ASK))) == ids_of(list(loaded(configured(target)).generate(ASK)))
    assert list(race(session, ASK))[-1] == RaceFinished(identical=True, first_difference=None)


def test_a_race_that_fails_leaves_a_sound_session(
    target: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = loaded(configured(target, drafter))
    generate = session.generate
    calls = itertools.count()

    def failing(*args: Any) -> Iterator[Event]:
        timed = next(calls) == 1
        for event in generate(*args):
            yield event
            if timed and isinstance(event, Round):
                raise NumericalError("logits are not finite")

    monkeypatch.setattr(session, "generate", failing)
    with pytest.raises(NumericalError):
        list(race(session, ASK))
    monkeypatch.undo()
    sound = Session(configured(target, drafter))
    sound.load()
    assert ids_of(list(session.generate(ASK))) == ids_of(list(sound.generate(ASK)))
    assert of(BaselineFinished, list(session.baseline())).identical is True
