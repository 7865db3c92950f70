"""Keyframes of a recording: what the lines of a run so far add up to, so that a reader can start there."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import Event, PlainStep, Round
from engine.measures import Measures
from engine.run_fold import RunFold
from engine.stats import Statistics

KEYFRAME_EVERY = 32
"""Rounds (or plain steps) of a run between two keyframes."""
_LONGEST_MS = 2.0**53
_MOST_TOKENS = 2**31
"""Of an answer, that a keyframe is believed."""


@dataclass(frozen=True, slots=True)
class Keyframe:
    """What the lines before it in its run add up to."""

    seq: int
    """Of the round before it."""
    t_ns: int
    fold: RunFold
    """Compared with no plain decoding: what was measured is in the lines."""

    @property
    def number(self) -> int:
        """Rounds (or plain steps) of the run so far."""
        return self.fold.steps

    @property
    def statistics(self) -> Statistics:
        """Of the run so far; not to be changed."""
        return self.fold.total.counts


class KeyframeMaker:
    """Folds the events of a recording into its keyframes."""

    def __init__(self, fold: RunFold | None = None) -> None:
        self._fold = fold or RunFold()

    def add(self, event: Event) -> Keyframe | None:
        """Take the next event; the keyframe that is due after it."""
        self._fold = self._fold.after(event)
        if not isinstance(event, Round | PlainStep) or self._fold.steps % KEYFRAME_EVERY:
            return None
        return Keyframe(event.seq, event.t_ns, self._fold.compared_with(None))


def is_possible(fold: RunFold) -> bool:
    """Whether counts that were read can be a run's: a reader computes with them."""
    numbers = (fold.given, fold.text, fold.tail, fold.settings_id, fold.segment_start, fold.thinking.tokens)
    return (
        min(numbers) >= 0
        and fold.rounds in {0, fold.steps}
        and fold.segment_start <= fold.rounds
        and 0 <= fold.tokens <= _MOST_TOKENS
        and all(map(_are_possible, (fold.segment, fold.total, fold.thinking.measures)))
    )


def _are_possible(measures: Measures) -> bool:
    counts = measures.counts
    if not (_have_possible_ends(counts) and _have_possible_costs(counts)):
        return False
    if max(counts.emitted, counts.taken_back, counts.rounds, counts.drafted, *counts.reached) > _MOST_TOKENS:
        return False  # quotients of them need not be numbers
    times = (counts.draft_ms, counts.verify_ms, counts.host_ms, measures.ttft_ms or 0.0)
    if (
        not 0 <= min(times) <= max(times) < _LONGEST_MS
        or min(counts.emitted, counts.taken_back, counts.rounds, *counts.reached) < 0
    ):
        return False
    if not counts.rounds:
        return not (counts.accepted or counts.drafted or counts.rejections or counts.reached or counts.shapes)
    try:
        counts.check_identities()
    except AssertionError:
        return False
    return min(counts.rejections, counts.cut_rounds, counts.accepted) >= 0


def _have_possible_ends(counts: Statistics) -> bool:
    """Where the drafts of rounds ended, and how long they were."""
    lost = (*counts.rejected_at, *counts.ended_at, *(shape.rounds for shape in counts.shapes))
    return (
        len(counts.rejected_at) == len(counts.ended_at)
        and 0 <= min(lost, default=0) <= max(lost, default=0) <= _MOST_TOKENS
        and all(0 <= shape.given <= shape.asked <= _MOST_TOKENS and shape.rounds for shape in counts.shapes)
    )


def _have_possible_costs(counts: Statistics) -> bool:
    """What was measured before the rounds, and what they should have taken by it."""
    predicted = (counts.predicted_ms, counts.predicted_plain_ms)
    return (
        0 <= counts.predicted_rounds <= counts.rounds
        and 0 <= min(predicted) <= max(predicted) < _LONGEST_MS
        and (counts.costs is None or counts.costs.is_usable)
    )
