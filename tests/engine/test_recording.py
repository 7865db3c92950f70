"""What is recorded comes back equal, whatever happens to the end of the file."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.scripted import TARGET, ScriptedSession, make_round

from engine.config import parse_config
from engine.context import Message
from engine.errors import DiskError, InvariantError, RecordingError
from engine.event_json import KINDS, dump_line, from_json, parse_line, to_json
from engine.events import EndReason, Event, LoadFinished, Notice, PlainStep, Round, RunStarted, SegmentStarted
from engine.recording import Recorder, read_recording
from engine.run_fold import RunFold
from engine.stats import Statistics

HEADER = {"versions": {"torch": "2.13.0"}, "seed": 7, "note": "caf\u00e9 \u202e \ud800"}
CONFIG = parse_config('[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "m"\n', "test")

finite = st.floats(-(2.0**64), 2.0**64)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**64), 2**64),
    bool: st.booleans(),
    float: finite,
    str: st.text(st.characters(codec=None, exclude_categories=())),
    bytes: st.one_of(st.binary(), st.text().map(str.encode)),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type annotation of the events; no NaN and no infinities."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(
            kind, **{entry.name: values(hints[entry.name]) for entry in dataclasses.fields(kind)}
        )
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), max_size=3).map(tuple)
    if get_args(kind):
        return st.one_of([st.none() if part is NoneType else values(part) for part in get_args(kind)])
    return SCALARS[kind] if kind in SCALARS else st.sampled_from(list(kind))


events = st.one_of([values(kind) for kind in KINDS.values()])


def record(path: Path, told: list[Event], header: dict[str, Any] | None = None) -> None:
    recorder = Recorder(path)
    recorder.write_header(HEADER if header is None else header)
    for event in told:
        recorder.write(event)
    recorder.close()


def whole_session() -> list[Event]:
    session = ScriptedSession(CONFIG)
    told: list[Event] = []
    session.load(told.append)
    return [*told, *session.generate([Message("user", "hi")]), *session.baseline()]


def rounds(count: int) -> list[Event]:
    return [make_round(number, 3, number % 4) for number in range(1, count + 1)]


def test_every_kind_of_event_can_be_recorded() -> None:
    assert {"Round", "PlainStep", "RunFinished", "BaselineFinished", "Failed", "Notice"} <= KINDS.keys()


@given(events)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_an_event_comes_back_equal(event: Event) -> None:
    line = dump_line(to_json(event))
    assert line.isascii()
    assert line.count(b"\n") == 1
    value = parse_line(line)
    assert from_json(KINDS[value["event"]], value) == event


@given(finite)
def test_floats_are_exact(number: float) -> None:
    event = PlainStep(1, 2, 3, 4, b"", "", None, 0, number, 0.0)
    told: Any = from_json(PlainStep, parse_line(dump_line(to_json(event))))
    assert told.verify_ms.hex() == number.hex()


def test_a_session_comes_back(tmp_path: Path) -> None:
    told = whole_session()
    record(tmp_path / "r.jsonl", told)
    read = read_recording(tmp_path / "r.jsonl")
    assert list(read.events) == told
    assert read.header == HEADER
    assert (read.torn, read.skipped) == (False, 0)


def test_the_first_line_names_format_and_version(tmp_path: Path) -> None:
    record(tmp_path / "r.jsonl", [])
    first = (tmp_path / "r.jsonl").read_bytes().splitlines()[0]
    assert first.startswith(b'{"format":"naive-speculate-recording","version":1,')


def test_events_before_the_header_wait_for_it(tmp_path: Path) -> None:
    told = whole_session()
    recorder = Recorder(tmp_path / "r.jsonl")
    recorder.write(told[0])
    recorder.write_header({})
    recorder.write(told[1])
    recorder.close()
    assert read_recording(tmp_path / "r.jsonl").events == tuple(told[:2])


def test_without_a_line_no_file_stays(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.jsonl")
    assert (tmp_path / "r.jsonl").exists()
    recorder.close()
    recorder.close()
    assert not (tmp_path / "r.jsonl").exists()


def test_the_file_is_for_its_owner_alone_and_flushed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    recorder.write_header({})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    recorder.write(make_round(1, 2, 1))
    assert len(read_recording(path).events) == 1
    recorder.close()


def test_keyframes_hold_what_came_before(tmp_path: Path) -> None:
    settings_event = next(e for e in whole_session() if isinstance(e, SegmentStarted))
    start = RunStarted(1, 1, 5, "speculative", (1,), (b"a",), 0, 100, None, ())
    told = [start, settings_event, *rounds(150)]
    record(tmp_path / "r.jsonl", told)
    read = read_recording(tmp_path / "r.jsonl")
    assert [frame.number for frame in read.keyframes] == [32, 64, 96, 128]
    for frame in read.keyframes:
        before = [e for e in read.events if isinstance(e, Round) and e.number <= frame.number]
        stats = Statistics()
        for event in before:
            stats.add(event)
        assert frame.statistics == stats
        assert frame.fold.tokens == stats.tokens
        assert frame.fold.text == sum(len(event.text) for event in before)
        assert (frame.fold.run, frame.fold.settings_id, frame.seq) == (5, 1, before[-1].seq)
    lines = (tmp_path / "r.jsonl").read_bytes().splitlines()
    assert parse_line(lines[3 + 32])["event"] == "keyframe"
    assert b"w1.0" not in lines[3 + 32]


def test_plain_steps_have_keyframes_too(tmp_path: Path) -> None:
    steps: list[Event] = [PlainStep(n, n, n, 5, b"ab", "ab", None, 0, 1.0, 0.5) for n in range(1, 70)]
    record(tmp_path / "r.jsonl", steps)
    first, second = read_recording(tmp_path / "r.jsonl").keyframes
    assert (first.number, first.fold.tokens, first.fold.text) == (32, 32, 64)
    assert (second.number, second.fold.tokens, second.fold.text) == (64, 64, 128)


def test_cut_at_every_byte(tmp_path: Path) -> None:
    told = [make_round(1, 2, 1, pieces=[b"\xe2", "\u00e9".encode(), b"\n"]), make_round(2, 1, 1)]
    record(tmp_path / "whole.jsonl", list(told))
    data = (tmp_path / "whole.jsonl").read_bytes()
    ends = [index + 1 for index, byte in enumerate(data) if byte == 0x0A]
    path = tmp_path / "cut.jsonl"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        if size < ends[0] - 1:
            with pytest.raises(RecordingError):
                read_recording(path)
            continue
        read = read_recording(path)
        # A line that lacks only its line end is whole.
        count = sum(size >= end - 1 for end in ends[1:])
        assert read.events == tuple(told[:count])
        at_an_end = size in ends or size + 1 in ends
        assert read.torn is not at_an_end


def test_unknown_events_and_fields_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [make_round(1, 1, 1)])
    lines = path.read_bytes().splitlines()
    value = json.loads(lines[1]) | {"colour": "blue"}
    path.write_bytes(b"\n".join([lines[0], b'{"event":"Comet","x":1}', json.dumps(value).encode()]))
    read = read_recording(path)
    assert read.skipped == 1
    assert read.events == (make_round(1, 1, 1),)


def test_missing_fields_with_a_default_are_filled() -> None:
    event = LoadFinished(1, 1, "target", dataclasses.replace(TARGET, licence=None), 1.0)
    value = to_json(event)
    del value["model"]["licence"]
    assert from_json(LoadFinished, value) == event


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"key": None}, "key: must be str"),
        ({"seq": True}, "seq: must be int"),
        ({"seq": 1.0}, "seq: must be int"),
        ({"text": ["a"]}, "text: must be str"),
    ],
)
def test_wrong_fields_are_errors_with_their_line(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [Notice(1, 1, "k", "t")])
    head, line = path.read_bytes().splitlines()
    path.write_bytes(head + b"\n" + json.dumps(json.loads(line) | change).encode() + b"\n")
    with pytest.raises(RecordingError, match=f"line 2: Notice.{match}"):
        read_recording(path)


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"Notice","seq":1,"t_ns":1,"key":"k"}',
        b'{"event":"Notice"',
        b'{"event":5}',
        b"{}",
        b"[1]",
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"event":"PrefillFinished","seq":1,"t_ns":1,"ms":NaN}',
        b'{"event":"PrefillFinished","seq":1,"t_ns":1,"ms":1e999}',
        b'{"event":"PrefillFinished","seq":1,"t_ns":1,"ms":1' + b"0" * 5000 + b"}",
        b'{"event":"RunFinished","seq":1,"t_ns":1,"reason":"boredom","text":"","tokens":1}',
        b'{"event":"keyframe","seq":1}',
    ],
)
def test_damage_inside_is_an_error_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "r.jsonl"
    record(path, [make_round(1, 1, 1)])
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(RecordingError, match="line 3: ") as caught:
        read_recording(path)
    assert caught.value.hint
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b"hello\n", "not a recording"),
        (b"\x00\xff\x7fELF", "not a recording"),
        (b'{"a":1}\n', "not a recording"),
        (b"[]\n", "not a recording"),
        (b'{"format":"naive-speculate-recording","vers', "cut in its first line"),
        (b'{"format":"naive-speculate-recording","version":2}\n', "version 2; this program reads up to 1"),
        (b'{"format":"naive-speculate-recording","version":true}\n', "version True"),
        (b'{"format":"naive-speculate-recording"}\n', "version None"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, match: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(RecordingError, match=match):
        read_recording(tmp_path / "f")


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="directory"):
        read_recording(tmp_path)
    with pytest.raises(RecordingError, match="no such file"):
        read_recording(tmp_path / "none")


def test_paths_that_cannot_take_a_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file"):
        Recorder(tmp_path / "no" / "r.jsonl")
    with pytest.raises(RecordingError, match="directory"):
        Recorder(tmp_path)
    with pytest.raises(RecordingError, match="null"):
        Recorder("a\0b")


def test_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Permissions do not bind the superuser, so the system call is made to refuse.
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(RecordingError, match="permission denied"):
            Recorder(tmp_path / "r.jsonl")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="the file exists"):
        Recorder(path)
    assert path.read_text() == "precious"


def test_an_empty_file_may_be_filled(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.touch()
    record(path, [])
    assert read_recording(path).header == HEADER


def test_a_disk_that_fills_up_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    recorder.write_header({})
    recorder.write(make_round(1, 2, 1))
    real, calls = os.write, []

    def full(fd: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:20])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(DiskError, match="no space left") as caught:
            recorder.write(make_round(2, 2, 1))
    assert recorder.closed
    assert recorder.failure is caught.value
    recorder.write(make_round(3, 2, 1))
    recorder.close()
    read = read_recording(path)
    assert read.events == (make_round(1, 2, 1),)
    assert not read.torn


def test_a_run_goes_on_when_its_recording_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "r.jsonl")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    session = ScriptedSession(CONFIG, recorder)
    run = session.generate([])
    told = [next(run)]
    monkeypatch.setattr(os, "write", full)
    told += run
    assert [e.key for e in told if isinstance(e, Notice)] == ["recording_stopped"]
    assert type(told[-1]).__name__ == "RunFinished"


def test_what_json_cannot_hold_is_our_mistake() -> None:
    with pytest.raises(InvariantError):
        dump_line({"x": float("nan")})
    with pytest.raises(InvariantError):
        dump_line({"x": object()})


def test_tokens_are_taken_back_at_an_end_only(tmp_path: Path) -> None:
    withdrawn = dataclasses.replace(make_round(2, 2, 1), taken_back=1)
    record(tmp_path / "r.jsonl", [make_round(1, 2, 2), withdrawn])
    with pytest.raises(RecordingError, match="without an end"):
        read_recording(tmp_path / "r.jsonl")
    fold = RunFold().after(make_round(1, 1, 1))
    more = dataclasses.replace(make_round(2, 1, 1, cut=EndReason.STOP), taken_back=1_000)
    assert fold.after(more).tokens == len(more.tokens), "no more than there are"
