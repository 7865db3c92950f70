"""How a run, and the timing of plain decoding, change the app's state. The rest is in ``tui.state``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Calibrated,
    Origin,
    PlainRunProgress,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.run_fold import given_text
from tui.reveal import step_count
from tui.trail import Trail
from tui.view import BaselineView, OutputToken, Phase, ViewState


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
    paused = state.replay and state.phase is Phase.PAUSED
    return replace(
        without_run(state),
        phase=Phase.PAUSED if paused else Phase.PREFILL,
        running=True,
        pausing=state.pausing,
        awaiting=state.awaiting,
        fold=state.fold.after(event, state.reference),
        author=state.target,
        mode=event.mode,
        max_new_tokens=event.max_new_tokens,
        max_rounds=event.max_rounds,
        prompt=event.prompt,
        prompt_pieces=event.prompt_pieces,
        reused=event.reused,
        output=Trail(output),
        text=Trail([given_text(event)] if output else []),
        messages=event.messages,
    )


def _resumed(state: ViewState, event: RunStarted) -> ViewState:
    """The run goes on with other models: what it wrote so far, and its rounds, stay."""
    text = state.text
    if state.finished is not None and state.finished.text:
        text = text.take(len(text) - 1)  # what was held back is decided now
    missing = given_text(event)[state.fold.text - state.fold.tail :]
    if missing and text:
        text = text.take(len(text) - 1).append(text[-1] + missing)
    return replace(
        state,
        fold=state.fold.after(event, state.reference),
        phase=Phase.PREFILL,
        running=True,
        author=state.target,
        prompt=event.prompt,
        prompt_pieces=event.prompt_pieces,
        reused=event.reused,
        prefill_done=0,
        prefill_total=0,
        text=text,
        baseline=None,
        finished=None,
    )


def _segment_started(state: ViewState, event: SegmentStarted) -> ViewState:
    fold = state.fold.after(event, state.reference)
    return replace(state, fold=fold, settings=event.settings, segments=state.segments.append(event))


def _prefill_progress(state: ViewState, event: PrefillProgress) -> ViewState:
    return replace(state, phase=going_on(state), prefill_done=event.done, prefill_total=event.total)


def _plain_run_progress(state: ViewState, event: PlainRunProgress) -> ViewState:
    phase = Phase.PLAIN_RUN if going_on(state) is Phase.RUNNING else going_on(state)
    return replace(state, phase=phase, prefill_done=event.done, prefill_total=event.total)


def _prefill_finished(state: ViewState, event: PrefillFinished) -> ViewState:
    state = replace(state, fold=state.fold.after(event))
    return replace(state, phase=going_on(state))


def _calibrated(state: ViewState, event: Calibrated) -> ViewState:
    return replace(state, fold=state.fold.after(event))


def _round(state: ViewState, event: Round) -> ViewState:
    state = replace(
        state,
        rounds=state.rounds.append(event),
        revealed=1 if state.awaiting and step_count(event) > 1 else None,
    )
    return _committed(state, event, tokens_of(event, len(state.rounds) - 1))


def tokens_of(event: Round, index: int) -> list[OutputToken]:
    """What a round adds to the answer; ``index`` is its place among the run's rounds."""
    made = zip(event.tokens, event.pieces, event.origins, strict=True)
    return [OutputToken(id_, piece, origin, index, slot) for slot, (id_, piece, origin) in enumerate(made)]


def _plain_step(state: ViewState, event: PlainStep) -> ViewState:
    return _committed(state, event, [token_of(event, max(len(state.output) - event.taken_back, 0))])


def token_of(event: PlainStep, at: int) -> OutputToken:
    """What a plain step adds to the answer; ``at`` is its place there."""
    return OutputToken(event.id, event.piece, Origin.PLAIN, -1, at)


def _committed(state: ViewState, event: Round | PlainStep, tokens: list[OutputToken]) -> ViewState:
    """The answer after a commit: tokens withdrawn, tokens added. Text is held back until it is final, so none
    of it is ever withdrawn."""
    kept = len(state.output) - event.taken_back
    output = state.output.take(kept) if event.taken_back else state.output
    return replace(
        state,
        fold=state.fold.after(event),
        phase=going_on(state),
        output=output.extend(tokens),
        text=state.text.append(event.text),
        awaiting=False,
    )


def _run_finished(state: ViewState, event: RunFinished) -> ViewState:
    state = replace(
        state,
        fold=state.fold.after(event),
        running=False,
        pausing=False,
        awaiting=False,
        finished=event,
        text=state.text.append(event.text) if event.text else state.text,
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
    return replace(state, fold=state.fold.after(event), reference=event, reference_run=state.run)


RUN_CHANGES: dict[type, Callable[[ViewState, Any], ViewState]] = {
    RunStarted: _run_started,
    SegmentStarted: _segment_started,
    PrefillProgress: _prefill_progress,
    PlainRunProgress: _plain_run_progress,
    PrefillFinished: _prefill_finished,
    Calibrated: _calibrated,
    Round: _round,
    PlainStep: _plain_step,
    RunFinished: _run_finished,
    BaselineStarted: _baseline_started,
    BaselineProgress: _baseline_progress,
    BaselineFinished: _baseline_finished,
}
