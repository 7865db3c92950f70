"""How a run, and the timing of plain decoding, change the app's state. The rest is in ``tui.state``."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Origin,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from tui.measures import NOTHING
from tui.reveal import step_count
from tui.thinking import begin_thinking
from tui.trail import Trail
from tui.view import BaselineView, OutputToken, Phase, ViewState

_CONTROL = re.compile(rb"<\|[^\s<>|]+\|>|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>")
"""Control tokens as they are usually spelled. Tags such as <think> are text."""


def at_rest(state: ViewState) -> Phase:
    """The phase while nothing is on its way."""
    if state.busy is not None and state.busy.casefold() == "load":
        return Phase.LOADING
    return Phase.READY if state.target is not None or state.replay else Phase.EMPTY


def at_work(state: ViewState) -> Phase:
    """The phase of what is on its way."""
    if state.baseline is not None and state.baseline.finished is None:
        return Phase.BASELINE
    if not state.running:
        return at_rest(state)
    return Phase.PREFILL if state.prefill_ms is None else Phase.RUNNING


def going_on(state: ViewState) -> Phase:
    """The phase after a sign of work: a live engine then stands at no pause any more. In a replay it is the
    user who steps, and the pause stays."""
    return Phase.PAUSED if state.replay and state.phase is Phase.PAUSED else at_work(state)


def without_run(state: ViewState) -> ViewState:
    """The state before a first run; models, notices, a failure that nobody saw yet and what was measured of
    the target stay."""
    kept = ViewState(
        replay=state.replay,
        busy=state.busy,
        load=state.load,
        loads=state.loads,
        target=state.target,
        drafter=state.drafter,
        notices=state.notices,
        failure=state.failure,
        reference=state.reference,
        reference_run=state.reference_run,
    )
    return replace(kept, phase=at_rest(kept))


def _run_started(state: ViewState, event: RunStarted) -> ViewState:
    if event.resumed:
        return _resumed(state, event)
    given = zip(event.given, event.given_pieces, strict=True)
    output = [OutputToken(id_, piece, Origin.GIVEN, -1, at) for at, (id_, piece) in enumerate(given)]
    thinking = begin_thinking(event.prompt_pieces)
    for piece in event.given_pieces:
        thinking = thinking.add(piece)
    measures = NOTHING.with_baseline(state.reference)
    paused = state.replay and state.phase is Phase.PAUSED
    return replace(
        without_run(state),
        phase=Phase.PAUSED if paused else Phase.PREFILL,
        running=True,
        pausing=state.pausing,
        awaiting=state.awaiting,
        run=event.run,
        author=state.target,
        mode=event.mode,
        max_new_tokens=event.max_new_tokens,
        max_rounds=event.max_rounds,
        prompt=event.prompt,
        prompt_pieces=event.prompt_pieces,
        given=len(output),
        reused=event.reused,
        output=Trail(output),
        text=Trail([_given_text(event)] if output else []),
        thinking=thinking,
        segment=measures,
        total=measures,
    )


def _resumed(state: ViewState, event: RunStarted) -> ViewState:
    """The run goes on with other models: what it wrote so far, and its rounds, stay."""
    text = state.text
    if state.finished is not None and state.finished.text:
        text = text.take(len(text) - 1)  # what was held back is decided now
    missing = _given_text(event)[sum(map(len, text)) :]
    if missing and text:
        text = text.take(len(text) - 1).append(text[-1] + missing)
    counts = replace(state.total.counts, timing=None)
    return replace(
        state,
        phase=Phase.PREFILL,
        running=True,
        author=state.target,
        prompt=event.prompt,
        prompt_pieces=event.prompt_pieces,
        reused=event.reused,
        prefill_done=0,
        prefill_total=0,
        prefill_ms=None,
        text=text,
        baseline=None,
        finished=None,
        total=replace(state.total, counts=counts).with_baseline(state.reference),
    )


def _given_text(event: RunStarted) -> str:
    """Text of the ids an answer starts with. Recordings that lack it have their whole characters, without
    what looks like a control token."""
    if event.given_text is not None:
        return event.given_text
    kept = b"".join(piece for piece in event.given_pieces if not _CONTROL.fullmatch(piece))
    return codecs.getincrementaldecoder("utf-8")("replace").decode(kept)


def _segment_started(state: ViewState, event: SegmentStarted) -> ViewState:
    return replace(
        state,
        settings=event.settings,
        settings_id=event.settings_id,
        segment_start=len(state.rounds),
        segment=NOTHING.with_baseline(state.reference),
    )


def _prefill_progress(state: ViewState, event: PrefillProgress) -> ViewState:
    return replace(state, phase=going_on(state), prefill_done=event.done, prefill_total=event.total)


def _prefill_finished(state: ViewState, event: PrefillFinished) -> ViewState:
    state = replace(state, prefill_ms=event.ms)
    return replace(state, phase=going_on(state))


def _round(state: ViewState, event: Round) -> ViewState:
    index = len(state.rounds)
    pieces = [draft.piece for draft in event.drafts[: event.accepted]]
    if not event.was_cut:
        pieces.append(event.target.piece)
    made = zip(event.tokens, pieces, event.origins, strict=True)
    tokens = [OutputToken(id_, piece, origin, index, slot) for slot, (id_, piece, origin) in enumerate(made)]
    first_ms = state.prefill_ms or 0.0 if index == 0 else None
    began_inside = state.thinking.inside
    state = replace(
        state,
        rounds=state.rounds.append(event),
        segment=state.segment.with_round(event, first_ms),
        total=state.total.with_round(event, first_ms),
        revealed=1 if state.awaiting and step_count(event) > 1 else None,
        awaiting=False,
    )
    state = _committed(state, event, tokens)
    thinking = state.thinking
    if not began_inside and not thinking.inside:
        return state
    return replace(state, thinking=replace(thinking, measures=thinking.measures.with_round(event)))


def _plain_step(state: ViewState, event: PlainStep) -> ViewState:
    at = len(state.output) - event.taken_back
    first_ms = state.prefill_ms or 0.0 if len(state.output) == state.given else None
    state = replace(
        state,
        segment=state.segment.with_step(event, first_ms),
        total=state.total.with_step(event, first_ms),
        awaiting=False,
    )
    return _committed(state, event, [OutputToken(event.id, event.piece, Origin.PLAIN, -1, at)])


def _committed(state: ViewState, event: Round | PlainStep, tokens: list[OutputToken]) -> ViewState:
    """The answer after a commit: tokens withdrawn, tokens added. Text is held back until it is final, so none
    of it is ever withdrawn."""
    kept = len(state.output) - event.taken_back
    output = state.output.take(kept) if event.taken_back else state.output
    thinking = state.thinking.take_back(kept)
    for token in tokens:
        thinking = thinking.add(token.piece)
    return replace(
        state,
        phase=going_on(state),
        output=output.extend(tokens),
        text=state.text.append(event.text),
        thinking=thinking,
    )


def _run_finished(state: ViewState, event: RunFinished) -> ViewState:
    # The run's times are the segment's too where there was one segment only.
    whole = state.segment_start == 0
    state = replace(
        state,
        running=False,
        pausing=False,
        awaiting=False,
        finished=event,
        text=state.text.append(event.text) if event.text else state.text,
        total=state.total.with_run(event),
        segment=state.segment.with_run(event) if whole else state.segment,
    )
    return replace(state, phase=at_rest(state))


# -- plain decoding, timed


def _baseline_started(state: ViewState, event: BaselineStarted) -> ViewState:
    return replace(state, phase=Phase.BASELINE, baseline=BaselineView(0, event.tokens, None))


def _baseline_progress(state: ViewState, event: BaselineProgress) -> ViewState:
    state = replace(state, baseline=BaselineView(event.done, event.total, None))
    return replace(state, phase=going_on(state))


def _baseline_finished(state: ViewState, event: BaselineFinished) -> ViewState:
    total = state.baseline.total if state.baseline is not None else event.tokens
    state = replace(state, pausing=False, baseline=BaselineView(event.tokens, total, event))
    state = replace(state, phase=at_rest(state))
    if not event.complete:
        return state
    return replace(
        state,
        reference=event,
        reference_run=state.run,
        segment=state.segment.with_baseline(event),
        total=state.total.with_baseline(event),
    )


RUN_CHANGES: dict[type, Callable[[ViewState, Any], ViewState]] = {
    RunStarted: _run_started,
    SegmentStarted: _segment_started,
    PrefillProgress: _prefill_progress,
    PrefillFinished: _prefill_finished,
    Round: _round,
    PlainStep: _plain_step,
    RunFinished: _run_finished,
    BaselineStarted: _baseline_started,
    BaselineProgress: _baseline_progress,
    BaselineFinished: _baseline_finished,
}
