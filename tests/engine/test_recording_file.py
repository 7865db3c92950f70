"""Recordings read in parts: what is found by its number is what is read whole, damaged or still growing."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.scripted import make_round
from support.story import opening

from engine.errors import RecordingError
from engine.events import Event, PlainStep, Round, RunStarted
from engine.keyframes import KEYFRAME_EVERY
from engine.recording import Recorder, read_recording
from engine.recording_file import LINE_LIMIT, RecordingFile


def story(run: int = 1) -> list[Event]:
    events = [event for event in opening() if isinstance(event, Event)]
    return [replace(event, run=run) if isinstance(event, RunStarted) else event for event in events]


def write(path: Path, events: list[Event], header: dict[str, object] | None = None) -> Path:
    recorder = Recorder(path)
    recorder.write_header(header or {"seed": 1})
    for event in events:
        recorder.write(event)
    recorder.close()
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 200 and 150 rounds."""
    rounds = [make_round(number, 3, number % 4) for number in range(1, 201)]
    path = tmp_path_factory.mktemp("recordings") / "long.jsonl"
    return write(path, [*story(1), *rounds, *story(2), *rounds[:150]])


def test_everything_is_found_by_its_number(long: Path) -> None:
    whole = read_recording(long)
    steps = [event for event in whole.events if isinstance(event, Round | PlainStep)]
    with RecordingFile(long) as file:
        assert file.header == whole.header
        assert tuple(file.events()) == whole.events
        assert file.steps == len(steps) == 350
        assert [file.event(file.line_of_step(index)) for index in (0, 63, 199, 200, 349)] == [
            steps[index] for index in (0, 63, 199, 200, 349)
        ]
        assert [place.first_step for place in file.runs] == [0, 200]
        assert isinstance(file.event(file.runs[1].line), RunStarted)
        assert file.steps_before(file.runs[1].line) == 200
        assert not file.torn


def test_a_keyframe_is_at_most_so_many_rounds_away(long: Path) -> None:
    with RecordingFile(long) as file:
        for index in range(file.steps):
            line = file.line_of_step(index)
            begin = [run for run in file.runs if run.line < line][-1]
            found = file.keyframes(begin.line, line)
            at = found[-1] if found else begin.line
            assert begin.line <= at <= line
            rounds = [event for event in file.events(at, line + 1) if isinstance(event, Round)]
            assert len(rounds) <= KEYFRAME_EVERY
            if found:
                before = index - begin.first_step + 1 - len(rounds)
                frame = file.keyframe(at)
                assert (frame.number, frame.statistics.rounds) == (before, before)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_grows_is_read_as_far_as_its_lines_are_whole(
    long: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = long.read_bytes()
    header = content.index(b"\n") + 1
    cuts = sorted(data.draw(st.lists(st.integers(header, len(content)), min_size=1, max_size=5)))
    path = tmp_path / "growing.jsonl"
    path.write_bytes(content[: cuts[0]])
    with RecordingFile(path) as file:
        for cut in [*cuts, len(content)]:
            path.write_bytes(content[:cut])
            file.refresh()
            assert file.lines == content[header:cut].count(b"\n")
            assert file.torn == (content[cut - 1 : cut] != b"\n")
        assert tuple(file.events()) == read_recording(long).events


def test_a_damaged_line_is_named_and_the_others_are_read(long: Path, tmp_path: Path) -> None:
    lines = long.read_bytes().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"".join([*lines[:40], b'{"event":"Round", oh\n', *lines[41:]]))
    with RecordingFile(broken) as file:
        with pytest.raises(RecordingError, match="line 41"):
            file.event(39)
        assert isinstance(file.event(40), Round)
        assert len(list(file.events(0, 39))) > 30


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for name, content in {
        "empty": b"",
        "text": b"hello\n",
        "binary": bytes(range(256)) * 50,
        "newer": b'{"format":"naive-speculate-recording","version":99}\n',
        "endless": b"x" * (LINE_LIMIT + 2**20),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(RecordingError):
            RecordingFile(path)
    with pytest.raises(RecordingError, match="no such file"):
        RecordingFile(tmp_path / "missing")
    with pytest.raises(RecordingError, match="directory"):
        RecordingFile(tmp_path)


def test_a_line_without_end_is_damage_not_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "endless.jsonl", story())
    with path.open("ab") as file:
        file.write(b"x" * (LINE_LIMIT + 2 * 2**20))
    with RecordingFile(path) as opened:
        assert opened.damage is not None
        assert "too long" in opened.damage
        assert len(list(opened.events())) == len(story())


def test_many_rounds_open_and_seek_fast(tmp_path: Path) -> None:
    """The whole size is measured by the bench; here a tenth of it, with room for a busy machine."""
    path = tmp_path / "many.jsonl"
    write(path, [*story(), *(make_round(number, 5, number % 6) for number in range(1, 10_001))])
    start = time.perf_counter()
    with RecordingFile(path) as file:
        opened = time.perf_counter() - start
        assert file.steps == 10_000
        assert opened < 1.0
        times = []
        for index in random.Random(1).sample(range(file.steps), 30):
            start = time.perf_counter()
            line = file.line_of_step(index)
            found = file.keyframes(0, line)
            list(file.events(found[-1] if found else 0, line + 1))
            times.append(time.perf_counter() - start)
        assert sorted(times)[15] < 0.05
