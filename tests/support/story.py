"""Events of a run for tests of what listens to them: made by hand, or drawn at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from hypothesis import strategies as st
from support.calibrated import calibrated
from support.scripted import SEED, TARGET, make_round

from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    EndReason,
    Failed,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)
from tui.state import Phase, Told, UiAction, ViewState, reduce

DRAFTER = dataclasses.replace(TARGET, name="scripted:drafter")
FAILED = Failed(0, 0, "OutOfMemory", "it does not fit", "take a smaller one")


def settings(k: int = 3) -> Settings:
    return Settings("lookup", "random", k, "speculative_sampling", 1.0, 0, 1.0, 0.0, 1.0, SEED)


def started(
    run: int = 1,
    *,
    mode: str = "speculative",
    prompt: tuple[bytes, ...] = (b"a", b"b"),
    given: tuple[bytes, ...] = (),
) -> RunStarted:
    ids = tuple(range(1, len(prompt) + 1))
    return RunStarted(0, 0, run, mode, ids, prompt, 1, 50, None, (), tuple(range(7, 7 + len(given))), given)


def finished(tokens: int = 1, text: str = "", decode_ms: float = 80.0) -> RunFinished:
    return RunFinished(0, 0, EndReason.ROUNDS, text, tokens, 10.0, 50.0, decode_ms)


def baseline(tokens: int, decode_ms: float, *, complete: bool = True) -> BaselineFinished:
    return BaselineFinished(0, 0, tokens, tuple(range(tokens)), decode_ms, 5.0, None, None, complete)


def opening(*, prompt: tuple[bytes, ...] = (b"a", b"b"), given: tuple[bytes, ...] = ()) -> list[Told]:
    """All that comes before the first round."""
    run = started(prompt=prompt, given=given)
    return [run, SegmentStarted(0, 0, 1, settings()), PrefillFinished(0, 0, 10.0)]


def fold(events: Iterable[Told | UiAction], state: ViewState | None = None) -> ViewState:
    """The state after the events; without a state it begins with a target that is loaded."""
    state = ViewState(target=TARGET, phase=Phase.READY) if state is None else state
    for event in events:
        state = reduce(state, event)
    return state


def plain_step(number: int, piece: bytes = b" p", *, taken_back: int = 0) -> PlainStep:
    return PlainStep(0, 0, number, number, piece, piece.decode(), None, taken_back, 20.0, 5.0)


@st.composite
def stories(draw: st.DrawFn) -> list[Told]:
    """A run: given tokens, segments, rounds, a cut that may withdraw tokens, an end, a baseline."""
    given = draw(st.integers(0, 2))
    events: list[Told] = [
        started(given=tuple(f" g{index}".encode() for index in range(given))),
        SegmentStarted(0, 0, 1, settings()),
        PrefillProgress(0, 0, 1, 2),
        PrefillFinished(0, 0, 10.0),
    ]
    if draw(st.booleans()):
        events.append(calibrated())
    made: list[Round] = []
    for number in range(1, draw(st.integers(0, 12)) + 1):
        if draw(st.integers(0, 4)) == 0:
            events.append(SegmentStarted(0, 0, number, settings(number)))
        k = draw(st.integers(0, 4))
        made.append(make_round(number, k, draw(st.integers(0, k)), host_ms=draw(st.sampled_from([0.5, 2.0]))))
        events.append(made[-1])
    cut_short = draw(st.booleans())
    if made and cut_short:
        last = made[-1]
        keep = draw(st.integers(0, len(last.tokens)))
        back = 0 if keep else draw(st.integers(0, sum(len(round_.tokens) for round_ in made[:-1])))
        cut = dataclasses.replace(last, tokens=last.tokens[:keep], cut=EndReason.STOP, taken_back=back)
        made[-1] = events[-1] = cut
    if draw(st.booleans()):
        events.append(finished(5, draw(st.sampled_from(["", "tail"]))))
        if draw(st.booleans()):
            events += [BaselineStarted(0, 0, 5), BaselineProgress(0, 0, 2, 5)]
            events.append(baseline(5, 200.0, complete=draw(st.booleans())))
    return events
