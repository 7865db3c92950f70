"""A replay that goes to any place of a recording shows there what one shows that played up to it."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
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
from tui.state import ViewState, reduce
from tui.tape import BEGINNING, FileTape

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
