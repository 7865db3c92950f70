"""What a recording adds up to is what the live run added up to, from wherever it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibrated import calibrated, costs
from support.scripted import make_round
from support.sessions import ASK, configured, loaded
from support.story import baseline, finished, settings, started
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.costs import Costs, RoundCost
from engine.event_json import dump_line, from_json, parse_line, plain
from engine.events import (
    BaselineFinished,
    Calibrated,
    Event,
    PrefillFinished,
    Round,
    RunFinished,
    SegmentStarted,
)
from engine.keyframes import Keyframe, KeyframeMaker, is_possible
from engine.recording import Recorder, read_recording
from engine.run_fold import NO_RUN, RunFold
from engine.stats import Statistics


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """A run whose costs are measured before its rounds, between them, or not at all."""
    events: list[Event] = [started(), SegmentStarted(0, 0, 1, settings()), PrefillFinished(0, 0, 10.0)]
    segment = 1
    if draw(st.booleans()):
        events.append(calibrated())
    for number in range(1, draw(st.integers(0, 12)) + 1):
        if draw(st.integers(0, 4)) == 0:
            segment += 1
            events.append(SegmentStarted(0, 0, segment, settings(segment)))
        if draw(st.integers(0, 4)) == 0:
            events.append(calibrated(costs(c=draw(st.floats(0.0, 1.0))), segment, "length doubled"))
        k = draw(st.integers(0, 4))
        made = replace(make_round(number, k, draw(st.integers(0, k))), settings_id=segment)
        missing = draw(st.integers(0, 2))  # drafts that were asked for and did not come
        events.append(replace(made, k=k + missing, source=draw(st.sampled_from(["", "lookup"]))))
    if draw(st.booleans()):
        events += [finished(5), baseline(5, 200.0)]
    return events


def live(events: Sequence[Event]) -> Statistics:
    """As the session counts."""
    stats = Statistics()
    for event in events:
        if isinstance(event, Round):
            stats.add(event)
        elif isinstance(event, Calibrated):
            stats.set_costs(event.costs)
        elif isinstance(event, RunFinished):
            stats.set_run(event)
        elif isinstance(event, BaselineFinished):
            stats.set_baseline(event)
    return stats


def folded(events: Sequence[Event], fold: RunFold = NO_RUN) -> RunFold:
    for event in events:
        fold = fold.after(event)
    return fold


@given(runs())
def test_the_fold_is_the_live_statistics(events: list[Event]) -> None:
    fold, stats = folded(events), live(events)
    assert fold.total.counts == stats
    assert fold.total.predicted_speedup == stats.predicted_speedup
    assert fold.total.best_k == stats.best_k


@given(runs())
def test_a_segment_keeps_the_newest_costs_of_its_run(events: list[Event]) -> None:
    fold = folded(events)
    assert fold.segment.counts.costs == fold.total.counts.costs
    start = max(at for at, event in enumerate(events) if isinstance(event, SegmentStarted))
    newest = [event for event in events[:start] if isinstance(event, Calibrated)][-1:]
    rounds = [event for event in events[start:] if not isinstance(event, BaselineFinished | RunFinished)]
    stats = live([*newest, *rounds])
    assert fold.segment.counts.predicted_ms == stats.predicted_ms
    assert fold.segment.predicted_speedup == stats.predicted_speedup


@given(runs())
def test_a_reader_may_begin_at_any_keyframe(events: list[Event]) -> None:
    maker = KeyframeMaker()
    whole = folded(events)
    for at, event in enumerate(events):
        if (frame := maker.add(event)) is not None:
            read = from_json(Keyframe, parse_line(dump_line(plain(frame))))
            assert read == frame
            assert is_possible(read.fold)
            assert folded(events[at + 1 :], read.fold) == whole


@pytest.fixture(autouse=True)
def _keyframes_after_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.keyframes.KEYFRAME_EVERY", 1)


def test_a_run_without_a_calibration_has_no_prediction() -> None:
    fold = folded([started(), *(make_round(n, 3, 2) for n in range(1, 4)), finished(9), baseline(9, 300.0)])
    assert fold.total.speedup is not None
    assert fold.total.predicted_speedup is None
    assert fold.total.prediction_error is None
    assert fold.total.best_k is None


def test_rounds_before_the_first_calibration_leave_none_either() -> None:
    fold = folded([started(), make_round(1, 3, 2), calibrated(), make_round(2, 3, 2)])
    assert fold.total.counts.predicted_rounds == 1
    assert fold.total.predicted_speedup is None


def test_another_run_begins_without_costs() -> None:
    assert folded([started(), calibrated(), started(2)]).total.counts.costs is None


NO_COSTS = (
    replace(costs(), plain_pass_ms=0.0, plain_host_ms=0.0),
    replace(costs(), rounds=()),
    replace(costs(), rounds=(RoundCost(1, 0.0, 0.0),)),
    replace(costs(), rounds=costs().rounds[::-1]),
)


@pytest.mark.parametrize("wrong", NO_COSTS)
def test_a_keyframe_with_costs_that_are_none_is_not_believed(wrong: Costs) -> None:
    fold = folded([started(), calibrated(), make_round(1, 3, 2)])
    assert is_possible(fold)
    total = replace(fold.total, counts=replace(fold.total.counts, costs=wrong))
    assert not is_possible(replace(fold, total=total))


LIES: tuple[dict[str, Any], ...] = (
    {"rejected_at": [0, 0, 1, 0]},
    {"rejected_at": [0, -1, 2]},
    {"ended_at": [2, 2, 2]},
    {"predicted_rounds": 2},
    {"predicted_ms": -1.0},
    {"predicted_plain_ms": 2.0**60},
)


@pytest.mark.parametrize("lie", LIES)
def test_a_keyframe_with_counts_that_are_none_is_not_believed(lie: dict[str, Any]) -> None:
    fold = folded([started(), calibrated(), make_round(1, 3, 2)])
    total = replace(fold.total, counts=replace(fold.total.counts, **lie))
    assert not is_possible(replace(fold, total=total))


@pytest.mark.parametrize("shape", [{"asked": 2}, {"rounds": 0}, {"rounds": -1}, {"given": -1}, {"rounds": 9}])
def test_a_keyframe_with_drafts_that_are_none_is_not_believed(shape: dict[str, Any]) -> None:
    fold = folded([started(), calibrated(), make_round(1, 3, 2)])
    shapes = [replace(fold.total.counts.shapes[0], **shape)]
    total = replace(fold.total, counts=replace(fold.total.counts, shapes=shapes))
    assert not is_possible(replace(fold, total=total))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1.0, "seed": 5}])
def test_a_recorded_run_of_the_engine_comes_to_its_statistics(
    tmp_path: Path, sampling: dict[str, Any]
) -> None:
    model, tokenizer = tiny_model("llama"), tiny_tokenizer()
    target = save_folder(tmp_path / "target", model, tokenizer)
    drafter = save_folder(tmp_path / "drafter", noisy_copy(model, 0.3), tokenizer)
    recorder = Recorder(tmp_path / "run.jsonl")
    session = loaded(configured(str(target), str(drafter), sampling=sampling, run={"max_new_tokens": 24}))
    session.record(recorder)
    for _ in session.generate(ASK):
        pass
    for _ in session.baseline():
        pass
    stats = session.run_statistics
    session.close()
    read = read_recording(tmp_path / "run.jsonl")
    assert folded(read.events).total.counts == stats
    frames = {frame.seq: frame.fold for frame in read.keyframes}
    assert frames
    for at, event in enumerate(read.events):
        if event.seq in frames:
            assert folded(read.events[at + 1 :], frames[event.seq]).total.counts == stats
