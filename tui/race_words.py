"""What a race says in words: where it stands, who was faster and by how much, whether the texts agree."""

from __future__ import annotations

from engine.events import BaselineFinished, RunFinished
from engine.measures import Measures
from tui.drafting import any_synthetic, synthetic_sentence
from tui.race_state import ArmState, RaceState, Side, Stage
from tui.safe_text import visible_bytes
from tui.summary import REASONS
from tui.why import outcome, verdict_sentence


def headline(state: RaceState, *, resting: bool) -> str:
    """What goes on, in one line.

    Args:
        resting: both clocks stand at their ends.
    """
    if state.result is not None:
        return "The race is over." if resting else "Both side by side, each on the clock it was timed with."
    if state.warm_up is not None:
        return "Both ways are warmed up first; this is not timed."
    if state.running == "plain":
        return "1 of 2: plain decoding runs alone."
    if state.running == "speculative":
        return "2 of 2: speculative decoding runs alone; beside it the plain run, from memory."
    return "The race begins when the engine is free."


def doing(side: Side) -> str:
    """What an arm does at a time."""
    match side.stage:
        case Stage.WAITING:
            return "waits for its turn"
        case Stage.WARMING:
            warm_up = side.warm_up
            return "warms up" if warm_up is None else f"warms up {warm_up.done}/{warm_up.total}"
        case Stage.PREFILL:
            total = side.view.prefill_total
            return f"reads the prompt {side.mark.prefilled:,}/{total:,}" if total else "reads the prompt"
        case Stage.RUNNING:
            return "decodes"
        case Stage.FINISHED:
            finished = side.view.finished
            return "finished" if finished is None else f"finished: {REASONS[finished.reason]}"


def measures(state: RaceState) -> Measures:
    """Those of the speculative arm, against the plain one where that has finished."""
    plain = state.plain.finished
    own = state.speculative.view.total
    return own if plain is None else own.with_baseline(_as_baseline(plain, state))


def _as_baseline(plain: RunFinished, state: RaceState) -> BaselineFinished:
    result = state.result
    return BaselineFinished(
        *(plain.seq, plain.t_ns, plain.tokens, (), plain.decode_ms, plain.prefill_ms),
        identical=None if result is None else result.identical,
        first_difference=None if result is None else result.first_difference,
        complete=True,
    )


def verdict(state: RaceState) -> tuple[int, str]:
    """Of a race that is over: 1, 0 or -1 for a gain, no difference or a loss, and the sentence."""
    told = measures(state)
    sentence = verdict_sentence(told)
    if any_synthetic(segment.settings for segment in state.speculative.view.segments):
        settings = state.speculative.view.settings
        sentence = synthetic_sentence(sentence, told.counts.synthetic(settings))
    return 0 if told.speedup is None else outcome(told.speedup), sentence


def finishing(state: RaceState) -> str:
    """When each arm had finished, the prompt apart."""
    plain, speculative = (f"{name} after {_finish(arm)}" for name, arm in _arms(state))
    return f"Finished: {plain}; {speculative}."


def _arms(state: RaceState) -> tuple[tuple[str, ArmState], ...]:
    return (("plain", state.plain), ("speculative", state.speculative))


def _finish(arm: ArmState) -> str:
    finished = arm.finished
    assert finished is not None, "both arms have finished when the race is over"
    each = f", {finished.decode_ms / finished.tokens:.1f} ms/token" if finished.tokens else ""
    return f"{arm.seconds:.2f} s (prompt {finished.prefill_ms / 1e3:.2f} s{each})"


def agreement(state: RaceState, dtype: str, *, ascii_only: bool = False) -> str:
    """Whether both wrote the same text.

    Args:
        dtype: number format of the target, which decides what a difference may mean.
    """
    result, settings = state.result, state.speculative.view.settings
    assert result is not None, "the texts are compared when the race is over"
    if result.identical is None:
        law = "" if settings is None else f"At temperature {settings.temperature:g} "
        return (
            f"{law}both draw from the same law, but with draws of their own: the texts differ by chance, so"
            " compare the ms a token."
        )
    if result.identical:
        return f"The texts are identical: all {len(state.plain.view.output)} tokens."
    at = result.first_difference
    if at is None:
        return "The texts differ."
    wrote = [_wrote(name, arm, at, ascii_only=ascii_only) for name, arm in _arms(state)]
    rounding = "" if dtype in {"", "float32"} else f" In {dtype} near ties fall either way; float32 decides."
    return f"The texts differ from token {at + 1} on: {wrote[0]}, {wrote[1]}.{rounding}"


def _wrote(name: str, arm: ArmState, at: int, *, ascii_only: bool) -> str:
    output = arm.view.output
    if at >= len(output):
        return f"{name} had ended"
    return f'{name} wrote "{visible_bytes(output[at].piece, ascii_only=ascii_only)}"'
