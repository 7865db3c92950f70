"""How the app's state changes: a pure function from a state and something that happened to the next state.

No clock, no Textual, no torch. One event costs O(K), whatever the length of the run: the long slices are
``Trail``s that share their items. Live runs and replays go through the same function. Everything a pane needs
is imported from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.events import Failed, LoadFinished, LoadProgress, LoadStarted, Notice
from engine.measures import NOTHING, Measures
from engine.thinking import Thinking, ThinkingStage, split_thinking
from tui.reveal import (
    VisibleRound,
    needs_round,
    partly,
    step_count,
    visible_output,
    visible_round,
    visible_text,
)
from tui.run_changes import RUN_CHANGES, at_rest, at_work, going_on, without_run
from tui.trail import Trail
from tui.view import (
    BaselineView,
    Busy,
    FailureSeen,
    Held,
    Idle,
    Jumped,
    Loaded,
    LoadView,
    OutputToken,
    Paused,
    PauseReached,
    Phase,
    Reset,
    Resumed,
    RevealAll,
    RevealNext,
    RevealTo,
    Told,
    UiAction,
    ViewState,
)

__all__ = [
    "NOTHING",
    "BaselineView",
    "Busy",
    "FailureSeen",
    "Held",
    "Idle",
    "Jumped",
    "LoadView",
    "Loaded",
    "Measures",
    "OutputToken",
    "PauseReached",
    "Paused",
    "Phase",
    "Reset",
    "Resumed",
    "RevealAll",
    "RevealNext",
    "RevealTo",
    "Thinking",
    "ThinkingStage",
    "Told",
    "Trail",
    "UiAction",
    "ViewState",
    "VisibleRound",
    "needs_round",
    "partly",
    "recent",
    "reduce",
    "split_thinking",
    "step_count",
    "visible_output",
    "visible_round",
    "visible_text",
]

_WORKING = {Phase.PREFILL, Phase.PLAIN_RUN, Phase.RUNNING, Phase.BASELINE}


def reduce(state: ViewState, event: Told | UiAction) -> ViewState:
    """The state after something happened. What it does not know changes nothing."""
    change = _CHANGES.get(type(event))
    return state if change is None else change(state, event)


def recent(state: ViewState, count: int = 8) -> Measures:
    """Measures of the newest rounds of the segment: what "now" means on the gauge. O(count K)."""
    start = max(state.segment_start, len(state.rounds) - count)
    return NOTHING.with_baseline(state.reference).with_rounds(state.rounds[start:])


# -- the engine's thread


def _busy(state: ViewState, event: Busy) -> ViewState:
    state = replace(state, busy=event.command)
    command = event.command.casefold()
    if command == "eject":
        state = _held(state, Held(None, None))
    return replace(state, phase=going_on(state)) if command in {"load", "generate", "eject"} else state


def _idle(state: ViewState, _: Idle) -> ViewState:
    # A token that was asked for before its run began is still wanted after the commands before the run.
    awaiting = state.awaiting and (state.busy or "").casefold() != "generate"
    state = replace(_stopped(replace(state, busy=None)), awaiting=awaiting)
    return state if state.phase is Phase.FAILED else replace(state, phase=at_rest(state))


def _pause_reached(state: ViewState, _: PauseReached) -> ViewState:
    phase = Phase.PAUSED if state.phase in _WORKING else state.phase
    return replace(state, phase=phase, pausing=False)


def _held(state: ViewState, event: Held) -> ViewState:
    if event.target != state.target:
        state = replace(state, reference=None, reference_run=0)
    state = replace(state, target=event.target, drafter=event.drafter)
    return replace(state, phase=at_rest(state)) if state.phase in {Phase.EMPTY, Phase.READY} else state


def _stopped(state: ViewState) -> ViewState:
    """Nothing is on its way any more."""
    measuring = state.baseline is not None and state.baseline.finished is None
    return replace(
        state,
        running=False,
        pausing=False,
        awaiting=False,
        load=None,
        loads=(),
        baseline=None if measuring else state.baseline,
    )


# -- loading


def _load_started(state: ViewState, event: LoadStarted) -> ViewState:
    # The models of before are freed later, when these are known to be there; ``Held`` tells what is left.
    load = LoadView(event.role, event.name, "", 0, None)
    loads = (*state.loads, load)
    return replace(state, phase=Phase.LOADING, load=loads[0], loads=loads)


def _load_progress(state: ViewState, event: LoadProgress) -> ViewState:
    """Both models may have started before the first one makes progress."""
    name = next((load.name for load in state.loads if load.role == event.role), "")
    load = LoadView(event.role, name, event.stage, event.done, event.total)
    loads = tuple(load if held.role == event.role else held for held in state.loads)
    return replace(state, load=load, loads=loads)


def _load_finished(state: ViewState, event: LoadFinished) -> ViewState:
    loads = tuple(load for load in state.loads if load.role != event.role)
    state = replace(state, load=loads[0] if loads else None, loads=loads)
    if event.role == "target":
        if event.model != state.target:
            state = replace(state, reference=None, reference_run=0)
        state = replace(state, target=event.model)
    else:
        state = replace(state, drafter=event.model)
    return state if loads else replace(state, phase=at_rest(state))


def _notice(state: ViewState, event: Notice) -> ViewState:
    return replace(state, notices=state.notices.append(event))


def _failed(state: ViewState, event: Failed) -> ViewState:
    return replace(_stopped(state), phase=Phase.FAILED, failure=event)


def _failure_seen(state: ViewState, _: FailureSeen) -> ViewState:
    state = replace(state, failure=None)
    return replace(state, phase=at_rest(state)) if state.phase is Phase.FAILED else state


def _jumped(_: ViewState, event: Jumped) -> ViewState:
    there = event.state
    if event.paused and there.phase in _WORKING:
        there = replace(there, phase=Phase.PAUSED)
    return there if event.revealed is None else _reveal_to(there, RevealTo(event.revealed))


# -- the user


def _reveal_next(state: ViewState, _: RevealNext) -> ViewState:
    if state.revealed is None:
        return replace(state, awaiting=True)
    shown = state.revealed + 1
    return replace(state, revealed=None if shown >= step_count(state.rounds[-1]) else shown)


def _reveal_to(state: ViewState, event: RevealTo) -> ViewState:
    if not state.rounds:
        return state
    hides = 0 < event.steps < step_count(state.rounds[-1])
    return replace(state, revealed=event.steps if hides else None, awaiting=False)


def _reveal_all(state: ViewState, _: RevealAll) -> ViewState:
    return replace(state, revealed=None, awaiting=False)


def _paused(state: ViewState, _: Paused) -> ViewState:
    if state.replay:
        return replace(state, phase=Phase.PAUSED)
    return replace(state, pausing=True) if state.phase in _WORKING else state


def _resumed(state: ViewState, _: Resumed) -> ViewState:
    state = replace(state, pausing=False, revealed=None, awaiting=False)
    return replace(state, phase=at_work(state)) if state.phase is Phase.PAUSED else state


def _reset(state: ViewState, _: Reset) -> ViewState:
    return without_run(state)


_CHANGES: dict[type, Callable[[ViewState, Any], ViewState]] = {
    Busy: _busy,
    Idle: _idle,
    PauseReached: _pause_reached,
    Held: _held,
    LoadStarted: _load_started,
    LoadProgress: _load_progress,
    LoadFinished: _load_finished,
    Notice: _notice,
    Failed: _failed,
    Jumped: _jumped,
    RevealNext: _reveal_next,
    RevealTo: _reveal_to,
    RevealAll: _reveal_all,
    Paused: _paused,
    Resumed: _resumed,
    FailureSeen: _failure_seen,
    Reset: _reset,
    **RUN_CHANGES,
}
