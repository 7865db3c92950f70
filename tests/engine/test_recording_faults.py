"""Files that were cut, flipped, shuffled or forged, and recorders that were killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from support.calibrated import calibrated, costs
from support.faults import damaged, forged

from engine.errors import RecordingError
from engine.events import PrefillFinished, Round
from engine.recheck import Recheck
from engine.recording import Recorder, read_recording
from engine.recording_file import RecordingFile
from tui.compare import compare_runs
from tui.export.cast import as_cast
from tui.export.html import as_html
from tui.export.markdown import as_markdown
from tui.export.report import build_report
from tui.export.tables import as_csv, as_json
from tui.playable import PATH, made_with
from tui.source import ReplayClock, ReplaySource
from tui.state import Jumped, ViewState, reduce
from tui.survey import MarkerKind, Survey
from tui.tape import FileTape

CASES = 250
"""Of each kind, in ``make test``; ten times as many in ``make soak``."""
KILLS = 50


def use(path: Path) -> None:
    """Everything that is done with a recording; only a RecordingError may come of it."""
    try:
        recording = read_recording(path, tolerant=True)
    except RecordingError:
        recording = None
    try:
        with RecordingFile(path) as file:
            go_through(FileTape(file))
    except RecordingError:
        pass
    if recording is None:
        return
    recheck, state = Recheck(), ViewState(replay=True)
    for event in recording.events:
        list(recheck.add(event))
        state = reduce(state, event)
    report = build_report(recording.header, recording.events, incomplete=not recording.whole)
    for form in (as_html, as_markdown, as_csv, as_json):
        form(report)
    as_cast(recording.header, recording.events)
    for run in report.runs:
        compare_runs(run, report.runs[0])


def go_through(tape: FileTape) -> None:
    """What a replay does, at a few places."""
    made_with(tape.header)
    survey = Survey(tape)
    while not survey.read(1.0):
        pass
    survey.marker(0, 1, MarkerKind.SLOW, [])
    source = ReplaySource(tape, ReplayClock(lambda: 0.0))
    for share in (1.0, 0.5, 0.8, 0.1):
        source.seek(int(share * len(tape)))
        while source.seeking:
            for told in source.poll():
                assert isinstance(told, Jumped)
                state = told.state
                assert len(list(state.output)) == len(state.output)
                assert len(list(state.rounds)) == len(state.rounds)
                assert "".join(state.text) is not None
                assert state.total.alpha_hat_error != -1
                assert state.total.best_k != -1


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The shipped recording, priced, with more keyframes than a run of its length has."""
    shipped = read_recording(PATH)
    path = tmp_path_factory.mktemp("faults") / "whole.jsonl"
    with patch("engine.keyframes.KEYFRAME_EVERY", 4):
        recorder = Recorder(path)
        recorder.write_header(shipped.header)
        for event in shipped.events:
            recorder.write(event)
            if isinstance(event, PrefillFinished):
                recorder.write(calibrated(costs()))
        recorder.close()
    return path.read_bytes()


def fuzz(tmp_path: Path, content: bytes, first: int, count: int) -> None:
    path = tmp_path / "case.jsonl"
    for seed in range(first, first + count):
        chance = random.Random(seed)
        for make in (damaged, forged):
            path.write_bytes(make(content, chance))
            try:
                with patch("tui.tape_frames.KEYFRAME_EVERY", 4):
                    use(path)
            except Exception as error:
                error.add_note(f"{make.__name__}, seed {seed}")
                raise


@pytest.mark.parametrize("part", range(5))
def test_no_file_breaks_what_reads_it(tmp_path: Path, content: bytes, part: int) -> None:
    fuzz(tmp_path, content, part * CASES // 5, CASES // 5)


@pytest.mark.soak
def test_no_file_of_many_breaks_what_reads_it(tmp_path: Path, content: bytes) -> None:
    fuzz(tmp_path, content, 10_000, 10 * CASES)


RECORD = """\
import sys, time
from support.scripted import make_round
from support.story import opening
from engine.events import Event
from engine.recording import Recorder

recorder = Recorder(sys.argv[1])
recorder.write_header({"seed": 1})
for event in opening():
    if isinstance(event, Event):
        recorder.write(event)
number = 0
while True:
    number += 1
    recorder.write(make_round(number, 5, number % 6))
    print(number, flush=True)
"""


@pytest.mark.parametrize("part", range(5))
def test_a_kill_loses_the_round_in_progress_at_most(tmp_path: Path, part: int) -> None:
    for kill in range(KILLS // 5):
        path = tmp_path / f"{kill}.jsonl"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
        process = subprocess.Popen(
            [sys.executable, "-c", RECORD, str(path)], stdout=subprocess.PIPE, env=environment, text=True
        )
        assert process.stdout is not None
        with process.stdout as told:
            said = [told.readline()]  # it has begun
            time.sleep(random.Random(100 * part + kill).uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            said += told.readlines()
        process.wait()
        complete = max(int(line) for line in said if line.endswith("\n") and line.strip())
        rounds = [event.number for event in read_recording(path).events if isinstance(event, Round)]
        assert rounds == [*range(1, len(rounds) + 1)]
        assert len(rounds) >= complete
        with RecordingFile(path) as file:
            assert file.steps >= complete


def test_what_a_forger_writes_is_json(tmp_path: Path, content: bytes) -> None:
    """The fuzzer is worth something: most of its forgeries get past the parser."""
    path = tmp_path / "case.jsonl"
    read = 0
    for seed in range(40):
        path.write_bytes(forged(content, random.Random(seed)))
        for line in path.read_bytes().splitlines():
            json.loads(line)
        try:
            read += len(read_recording(path, tolerant=True).events) > 10
        except RecordingError:
            continue  # the header was forged
    assert read > 20
