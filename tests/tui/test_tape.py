"""A replay that goes to any place of a recording shows there what one shows that played up to it."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from support.calibrated import calibrated, costs
from support.scripted import SEED, TARGET, make_round
from support.story import baseline, finished, plain_step, started
from support.story import settings as decoding

from engine.context import Message
from engine.events import (
    BaselineProgress,
    BaselineStarted,
    EndReason,
    Event,
    Failed,
    LoadFinished,
    LoadStarted,
    Notice,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunStarted,
    SegmentStarted,
)
from engine.recording import Recorder
from engine.recording_file import RecordingFile
from tui.source import ReplayClock, ReplaySource
from tui.state import ViewState, reduce
from tui.survey import MarkerKind, Survey
from tui.tape import BEGINNING, FileTape, MemoryTape

DRAFTER = dataclasses.replace(TARGET, name="scripted:drafter")
HEADER = {"seed": SEED}


@st.composite
def runs(draw: st.DrawFn, number: int) -> list[Event]:
    """One run of a session: given tokens, rounds or plain steps, segments, a resumption, a baseline."""
    plain = draw(st.booleans()) and draw(st.booleans())
    given_tokens = tuple(f" g{at}".encode() for at in range(draw(st.integers(0, 2))))
    opened = draw(st.sampled_from([(b"a", b"b"), (b"a", b"<think>\n")]))
    first = started(number, mode="plain" if plain else "speculative", prompt=opened, given=given_tokens)
    events: list[Event] = [
        dataclasses.replace(first, messages=(Message("user", f"question {number}"),)),
        SegmentStarted(0, 0, 1, decoding()),
        PrefillProgress(0, 0, 1, 2),
        PrefillFinished(0, 0, 10.0),
    ]
    words = [b" x", b"</think>", b"<think>", b"\xe2\x82", b"\xac", b"\n", b""]
    made: list[Event] = []
    segment = 1
    for at in range(1, draw(st.integers(0, 14)) + 1):
        if draw(st.integers(0, 6)) == 0:
            segment += 1
            events.append(SegmentStarted(0, 0, segment, decoding(segment)))
        if not plain and draw(st.integers(0, 4)) == 0:
            events.append(calibrated(costs(draw(st.sampled_from([0.1, 0.4]))), segment))
        if plain:
            step: Event = plain_step(at, draw(st.sampled_from([b" x", b"</think>", b"<think>", b"\n"])))
        else:
            k = draw(st.integers(0, 3))
            pieces = [draw(st.sampled_from(words)) for _ in range(k + 1)]
            step = in_segment(make_round(at, k, draw(st.integers(0, k)), pieces=pieces), segment)
        made.append(step)
        events.append(step)
    end = draw(st.sampled_from(["", "", "tail"]))
    if made and not plain and draw(st.integers(0, 3)) == 0:
        written = _ids(first, made)
        events.append(dataclasses.replace(finished(len(written), end), reason=EndReason.CANCELLED))
        again = dataclasses.replace(
            started(number, prompt=opened),
            given=written,
            given_pieces=tuple(b"?" for _ in written),
            given_text=_text(first, made) + draw(st.sampled_from(["", end, "more"])),
            resumed=True,
        )
        events += [LoadStarted(0, 0, "drafter", "d"), LoadFinished(0, 0, "drafter", DRAFTER, 3.0), again]
        events.append(SegmentStarted(0, 0, segment + 1, decoding(segment + 1)))
        events.append(PrefillFinished(0, 0, 4.0))
        for at in range(len(made) + 1, len(made) + 1 + draw(st.integers(0, 9))):
            events.append(in_segment(make_round(at, 2, draw(st.integers(0, 2))), segment + 1))
    elif made and not plain and draw(st.booleans()):
        events[-1] = _cut(draw, made)
    if draw(st.integers(0, 5)):
        events.append(finished(5, end))
        if draw(st.booleans()):
            events += [BaselineStarted(0, 0, 5), BaselineProgress(0, 0, 2, 5)]
            events.append(baseline(5, 200.0, complete=draw(st.booleans())))
    elif draw(st.booleans()):
        events.append(Failed(0, 0, "OutOfMemory", "it does not fit", None))
    return events


def in_segment(round_: Round, settings_id: int) -> Round:
    return dataclasses.replace(round_, settings_id=settings_id)


def _cut(draw: st.DrawFn, made: Sequence[Event]) -> Round:
    """The last round, cut at a stop string that may begin in an earlier round."""
    *before, newest = (round_ for round_ in made if isinstance(round_, Round))
    keep = draw(st.integers(0, len(newest.tokens)))
    back = 0 if keep else draw(st.integers(0, sum(len(round_.tokens) for round_ in before)))
    tokens = newest.tokens[:keep]
    return dataclasses.replace(newest, tokens=tokens, cut=EndReason.STOP, taken_back=back, text="")


def _ids(first: RunStarted, rounds: Sequence[Event]) -> tuple[int, ...]:
    return (*first.given, *(id_ for round_ in rounds if isinstance(round_, Round) for id_ in round_.tokens))


def _text(first: RunStarted, rounds: Sequence[Event]) -> str:
    text = b"".join(first.given_pieces).decode()
    return text + "".join(round_.text for round_ in rounds if isinstance(round_, Round))


@st.composite
def sessions(draw: st.DrawFn) -> list[Event]:
    """What a whole session tells: loads, notices, runs."""
    events: list[Event] = []
    if draw(st.booleans()):
        events += [LoadStarted(0, 0, "target", "t"), LoadFinished(0, 0, "target", TARGET, 5.0)]
        events.append(Notice(0, 0, "device", "cpu"))
    for number in range(1, draw(st.integers(1, 3)) + 1):
        events += draw(runs(number))
        if draw(st.booleans()):
            events.append(Notice(0, 0, "note", f"after run {number}"))
    return [dataclasses.replace(event, seq=seq, t_ns=seq * 10_000_000) for seq, event in enumerate(events, 1)]


def record(path: Path, events: Sequence[Event], *, every: int = 3) -> None:
    recorder = Recorder(path)
    recorder.write_header(HEADER)
    with patch("engine.keyframes.KEYFRAME_EVERY", every):
        for event in events:
            recorder.write(event)
    recorder.close()


def last(states: Iterator[ViewState | None]) -> ViewState:
    *_, state = states
    assert state is not None
    return state


def played(events: Sequence[Event]) -> ViewState:
    state = BEGINNING
    for event in events:
        state = reduce(state, event)
    return state


@given(sessions(), st.data())
@settings(deadline=None, max_examples=150)
def test_live_fold_is_replay_fold_is_seek_fold(events: list[Event], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        record(path, events, every=data.draw(st.sampled_from([1, 2, 3, 5])))
        with RecordingFile(path) as file:
            tape = FileTape(file)
            for place in data.draw(st.lists(st.integers(0, len(tape)), min_size=4, max_size=12)):
                told = [event for event in file.events(0, place) if event is not None]
                seen = last(tape.state_at(place))
                assert seen == played(told), f"at line {place} of {len(tape)}"
            assert last(tape.state_at(len(tape))) == played(events)


@given(sessions(), st.data())
@settings(deadline=None, max_examples=60)
def test_a_state_that_was_sought_goes_on_as_if_it_had_been_played(
    events: list[Event], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        record(path, events)
        with RecordingFile(path) as file:
            tape = FileTape(file)
            place = data.draw(st.integers(0, len(tape)))
            state = last(tape.state_at(place))
            for at in range(place, len(tape)):
                event = tape.event(at)
                state = state if event is None else reduce(state, event)
            assert state == played(events)


def without_keyframes(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"event":"keyframe"')))


@given(sessions(), st.data())
@settings(deadline=None, max_examples=40)
def test_a_file_without_keyframes_is_sought_too(events: list[Event], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, patch("tui.tape_frames.KEYFRAME_EVERY", 2):
        path = Path(folder) / "r.jsonl"
        record(path, events)
        without_keyframes(path)
        with RecordingFile(path) as file:
            tape = FileTape(file)
            for place in data.draw(st.lists(st.integers(0, len(tape)), min_size=4, max_size=12)):
                assert last(tape.state_at(place)) == played(events[:place])


LIES = (
    ('"steps":', 1),
    ('"tokens":', 3),
    ('"tokens":', -3),
    ('"rounds":', 1),
    ('"rounds":', -9),
    ('"segment_start":', 99),
    ('"accepted":', 7),
    ('"run":', 1),
    ('"given":', 1),
    ('"text":', -999),
)


@given(sessions(), st.sampled_from(LIES), st.data())
@settings(deadline=None, max_examples=80)
def test_keyframes_that_lie_do_no_harm(
    events: list[Event], lie: tuple[str, int], data: st.DataObject
) -> None:
    """What they say of the file itself is noticed; tokens that are missing for it are shown as such."""
    key, by = lie
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        record(path, events)
        lines = path.read_text().split("\n")
        pattern = re.compile(re.escape(key) + r"(\d+)")
        for at, line in enumerate(lines):
            if line.startswith('{"event":"keyframe"'):
                lines[at] = pattern.sub(lambda found: f"{key}{int(found[1]) + by}", line)
        path.write_text("\n".join(lines))
        with RecordingFile(path) as file:
            tape = FileTape(file)
            for place in data.draw(st.lists(st.integers(0, len(tape)), min_size=2, max_size=6)):
                state = last(tape.state_at(place))
                assert len(list(state.output)) == len(state.output)
                assert len(list(state.rounds)) == len(state.rounds)
                assert "".join(state.text) is not None
                assert state.total.alpha_hat_error is None or state.total.alpha_hat_error >= 0
                told = [event for event in file.events(0, place) if event is not None]
                if key in {'"steps":', '"run":', '"given":'}:
                    assert state == played(told), "a keyframe of another place is not used"


class Hand:
    """A clock that is moved by hand."""

    time = 0.0

    def __call__(self) -> float:
        return self.time


@given(sessions(), st.data())
@settings(deadline=None, max_examples=80)
def test_any_way_through_a_recording_leads_to_the_state_of_its_place(
    events: list[Event], data: st.DataObject
) -> None:
    """Played, stepped, sought and stepped back, with few rounds kept in memory: the place alone counts."""
    with tempfile.TemporaryDirectory() as folder, patch("tui.source.HELD_STEPS", 2):
        path = Path(folder) / "r.jsonl"
        record(path, events)
        with RecordingFile(path) as file:
            hand = Hand()
            source = ReplaySource(FileTape(file), ReplayClock(hand))
            state = BEGINNING
            for _ in range(data.draw(st.integers(1, 12))):
                match data.draw(st.sampled_from(["play", "round", "back", "seek", "step"])):
                    case "play":
                        source.play()
                        hand.time += data.draw(st.sampled_from([0.01, 0.05, 1.0]))
                    case "round":
                        source.step_round()
                    case "back":
                        source.back_round()
                    case "seek":
                        source.seek(data.draw(st.integers(0, len(source.tape))))
                    case "step":
                        source.seek_step(data.draw(st.integers(0, source.steps)))
                state = _told(source, state)
                source.pause()
                events_there = [event for event in file.events(0, source.at) if event is not None]
                there = played(events_there)
                assert dataclasses.replace(state, phase=there.phase) == there


def _told(source: ReplaySource, state: ViewState) -> ViewState:
    """The state when everything that is due was told."""
    while True:
        before = source.at, source.seeking
        for told in source.poll():
            state = reduce(state, told)
        if not source.seeking and (source.at, source.seeking) == before:
            return state


@given(sessions())
@settings(deadline=None, max_examples=60)
def test_the_survey_is_what_the_rounds_say(events: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        record(path, events)
        with RecordingFile(path) as file:
            tape, memory = FileTape(file), MemoryTape(events)
            assert [tape.outcome(at) for at in tape.steps] == [memory.outcome(at) for at in memory.steps]
            survey = Survey(tape)
            while not survey.read(0.0):
                assert len(survey) < len(tape.steps)
            rounds = [event for event in events if isinstance(event, Round)]
            if len(rounds) == len(survey):
                at_0 = [at for at, one in enumerate(rounds) if one.rejected and not one.accepted]
                whole = [at for at, one in enumerate(rounds) if 0 < one.drafted == one.accepted]
                for kind, expected in (
                    (MarkerKind.REJECTED_AT_0, at_0),
                    (MarkerKind.ALL_ACCEPTED, whole),
                ):
                    assert _walked(survey, kind, 1) == expected
                    assert _walked(survey, kind, -1) == expected[::-1]


def _walked(survey: Survey, kind: MarkerKind, by: int) -> list[int]:
    at: int | None = -1 if by > 0 else len(survey)
    places = []
    while at is not None:
        at = survey.marker(at, by, kind, [])
        if at is not None:
            places.append(at)
    return places


def test_slow_rounds_are_twice_the_median() -> None:
    rounds: list[Event] = [make_round(at, 1, 1, host_ms=60.0 if at == 5 else 1.0) for at in range(1, 10)]
    survey = Survey(MemoryTape(rounds))
    assert survey.read(1.0)
    assert _walked(survey, MarkerKind.SLOW, 1) == [4]
