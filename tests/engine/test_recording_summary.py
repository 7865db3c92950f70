"""What a list says of a recording: the same as reading it whole, at the cost of its last rounds."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.faults import damaged, forged
from support.scripted import make_round
from support.story import baseline, finished, opening, plain_step, stories

from engine.errors import Cancelled, RecordingError
from engine.events import Event, PlainStep, Round, RunStarted
from engine.recording import Recorder, read_recording
from engine.recording_file import RecordingFile
from engine.recording_summary import RecordingSummary, model_names, summarise
from engine.stats import Statistics
from tui.export.report import build_report
from tui.playable import PATH

HEADER: dict[str, object] = {
    "target": {"name": "org/target"},
    "config": {"draft": {"method": "lookup"}, "verify": {"model_name": "asked/for"}},
}


def begun(run: int = 1, **changes: object) -> list[Event]:
    events = [event for event in opening() if isinstance(event, Event)]
    return [
        replace(event, run=run, **changes) if isinstance(event, RunStarted) else event  # type: ignore[arg-type]
        for event in events
    ]


def rounds(count: int, first: int = 1) -> list[Event]:
    return [make_round(number, 3, number % 4) for number in range(first, first + count)]


def write(path: Path, events: list[Event]) -> Path:
    recorder = Recorder(path)
    recorder.write_header(HEADER)
    for event in events:
        recorder.write(event)
    recorder.close()
    return path


def by_reading_it_whole(path: Path) -> tuple[int, int, int, float | None, float | None]:
    """Runs, rounds, tokens, tau and speedup, from the report that exports are made of."""
    recording = read_recording(path)
    runs = build_report(recording.header, recording.events).runs
    total = Statistics()
    for run in runs:
        total.merge(run.statistics)
    tokens = sum(run.statistics.tokens + sum(1 - step.taken_back for step in run.steps) for run in runs)
    speedups = [run.statistics.speedup for run in runs if run.statistics.speedup is not None]
    steps = sum(isinstance(event, Round | PlainStep) for event in recording.events)
    return len(runs), steps, tokens, total.tau, speedups[-1] if speedups else None


def told(summary: RecordingSummary) -> tuple[int, int, int, float | None, float | None]:
    return summary.runs, summary.rounds, summary.tokens, summary.tau, summary.speedup


def test_the_shipped_recording() -> None:
    summary = summarise(PATH)
    assert told(summary) == by_reading_it_whole(PATH)
    assert (summary.target, summary.drafter) == ("builtin:smollm2-135m", "lookup")
    assert (summary.runs, summary.torn, summary.damage) == (1, False, None)
    assert summary.speedup is not None and summary.tau is not None and summary.tau > 1


def test_several_runs_with_and_without_keyframes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "runs.jsonl",
        [
            *(*begun(1), *rounds(200), finished(), baseline(50, 9_000.0)),
            *(*begun(2), *rounds(5), finished(), baseline(50, 4_000.0)),
            *(*begun(3, mode="plain"), *(plain_step(number) for number in range(1, 70)), finished()),
            *(*begun(4), *rounds(64)),
        ],
    )
    summary = summarise(path)
    assert told(summary) == by_reading_it_whole(path)
    assert (summary.runs, summary.rounds) == (4, 200 + 5 + 69 + 64)


@pytest.mark.parametrize(("before", "after"), [(100, 100), (100, 10), (10, 100), (10, 10)])
def test_a_run_that_went_on_with_other_models_is_one_run(tmp_path: Path, before: int, after: int) -> None:
    first = rounds(before)
    ids = tuple(id_ for event in first if isinstance(event, Round) for id_ in event.tokens)
    resumed = begun(1, resumed=True, given=ids, given_pieces=tuple(b"x" for _ in ids))
    path = write(tmp_path / "resumed.jsonl", [*begun(1), *first, *resumed, *rounds(after, before + 1)])
    assert summarise(path).runs == 1
    assert told(summarise(path)) == by_reading_it_whole(path)


@given(parts=st.lists(stories(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_runs(tmp_path: Path, parts: list[list[object]]) -> None:
    path = tmp_path / "any.jsonl"
    path.unlink(missing_ok=True)
    write(path, [event for part in parts for event in part if isinstance(event, Event)])
    assert told(summarise(path)) == by_reading_it_whole(path)


def test_only_the_last_rounds_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "long.jsonl", [*begun(), *rounds(1000), finished()])
    read: list[int] = []
    event = RecordingFile.event

    def counted(file: RecordingFile, line: int) -> Event | None:
        read.append(line)
        return event(file, line)

    monkeypatch.setattr(RecordingFile, "event", counted)
    assert summarise(path).rounds == 1000
    assert len(read) < 70


Change = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("emitted"),
        lambda state: state.update(later_field=1),
        lambda state: state.update(rounds="many"),
        lambda state: state.update(emitted=10**400),
        lambda state: state.update(reached=[True, None]),
        lambda state: state.update(reached=5),
        lambda state: state.update(draft_ms=-1.0),
        lambda state: state.update(timing=[1], baseline="x"),
    ],
)
def test_a_keyframe_that_says_it_otherwise_is_not_trusted(tmp_path: Path, change: Change) -> None:
    path = write(tmp_path / "long.jsonl", [*begun(), *rounds(100), finished()])
    wanted = by_reading_it_whole(path)
    lines = path.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith('{"event":"keyframe"'))
    keyframe = json.loads(lines[at])
    change(keyframe["fold"]["total"]["counts"])
    lines[at] = json.dumps(keyframe, separators=(",", ":"))
    path.write_text("\n".join(lines) + "\n")
    assert told(summarise(path)) == wanted


def test_a_torn_end_is_said_and_the_rest_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "torn.jsonl", [*begun(), *rounds(10)])
    path.write_bytes(path.read_bytes()[:-40])
    summary = summarise(path)
    assert (summary.torn, summary.rounds, summary.runs, summary.damage) == (True, 9, 1, None)


def test_a_damaged_line_is_named_and_what_comes_before_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "broken.jsonl", [*begun(1), *rounds(10), *begun(2), *rounds(10)])
    lines = path.read_bytes().splitlines(keepends=True)
    lines[20] = b'{"event":"Round", oh\n'
    path.write_bytes(b"".join(lines))
    summary = summarise(path)
    assert summary.damage is not None and "line 21" in summary.damage
    first, second = by_reading_it_whole(write(tmp_path / "one.jsonl", [*begun(1), *rounds(10)])), summary
    assert first[2] < second.tokens, "the first run, and what comes before the damage in the second one"


def test_a_header_alone(tmp_path: Path) -> None:
    summary = summarise(write(tmp_path / "header.jsonl", []))
    assert told(summary) == (0, 0, 0, None, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"hello\n", bytes(range(256)) * 50, b'{"format":"naive-speculate-recording","version":9}\n'],
)
def test_what_is_no_recording_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(RecordingError):
        summarise(path)


def test_names_are_texts_or_nothing() -> None:
    assert model_names({}) == ("", "")
    assert model_names({"target": "x", "config": {"draft": ["method"], "verify": {"model_name": 5}}}) == (
        "",
        "",
    )
    assert model_names(HEADER) == ("org/target", "lookup")
    assert model_names({**HEADER, "drafter": {"name": "org/d"}}) == ("org/target", "org/d")


def test_it_can_be_called_off(tmp_path: Path) -> None:
    path = write(tmp_path / "long.jsonl", [*begun(), *rounds(10)])
    with pytest.raises(Cancelled):
        summarise(path, lambda: True)


def test_no_file_breaks_it(tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    base = write(
        tmp_path / "base.jsonl", [*begun(), *rounds(130), finished(), baseline(50, 900.0)]
    ).read_bytes()
    read = 0
    for seed in range(200):
        for make in (damaged, forged):
            path.write_bytes(make(base, random.Random(seed)))
            try:
                summary = summarise(path)
            except RecordingError:
                continue
            read += 1
            assert summary.tokens >= 0
            assert math.isfinite(summary.tau or 0.0) and math.isfinite(summary.speedup or 0.0)
    assert read > 100
