"""What the events of a run add up to: one value, whatever the run's length.

The app's state and the keyframes of recordings are both made from it, so a replay that starts at a keyframe
cannot differ from one that saw the run from its beginning.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import Self

from engine.events import (
    BaselineFinished,
    Calibrated,
    Event,
    PlainStep,
    PrefillFinished,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.measures import NOTHING, Measures
from engine.thinking import NO_THINKING, Thinking, begin_thinking

_CONTROL = re.compile(rb"<\|[^\s<>|]+\|>|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>")
"""Control tokens as they are usually spelled. Tags such as <think> are text."""


@dataclass(frozen=True, slots=True)
class RunFold:
    """Counts and measures of a run so far; no tokens and no rounds. One event costs O(K)."""

    run: int = 0
    """Number of the run; 0 before the first."""
    given: int = 0
    """Leading tokens of the answer that were kept or chosen, not generated."""
    steps: int = 0
    """Rounds, or steps of plain decoding."""
    rounds: int = 0
    tokens: int = 0
    """Of the answer, given ones included."""
    text: int = 0
    """Characters of the answer, given ones included."""
    tail: int = 0
    """Those among them that were held back until the run's end."""
    settings_id: int = 0
    segment_start: int = 0
    """Index of the segment's first round."""
    prefill_ms: float | None = None
    segment: Measures = NOTHING
    """Of the segment: since the settings last changed."""
    total: Measures = NOTHING
    """Of the run."""
    thinking: Thinking = NO_THINKING

    def after(self, event: Event, reference: BaselineFinished | None = None) -> Self:
        """The fold after one event more.

        Args:
            reference: plain decoding that was measured before; new runs and segments are compared with it.
        """
        match event:
            case Round():
                return self._after_round(event)
            case PlainStep():
                return self._after_step(event)
            case RunStarted():
                return self._resumed(event, reference) if event.resumed else self._begun(event, reference)
            case SegmentStarted():
                segment = NOTHING.with_baseline(reference).with_costs(self.total.counts.costs)
                id_ = event.settings_id
                return replace(self, settings_id=id_, segment_start=self.rounds, segment=segment)
            case PrefillFinished():
                return replace(self, prefill_ms=event.ms)
            case Calibrated():
                segment, total = (each.with_costs(event.costs) for each in (self.segment, self.total))
                return replace(self, segment=segment, total=total)
            case RunFinished():
                return self._ended(event)
            case BaselineFinished(complete=True):
                return self.compared_with(event)
        return self

    def compared_with(self, reference: BaselineFinished | None) -> Self:
        """Measured against this plain decoding; None forgets it."""
        return replace(
            self,
            segment=self.segment.with_baseline(reference),
            total=self.total.with_baseline(reference),
        )

    def _begun(self, event: RunStarted, reference: BaselineFinished | None) -> Self:
        thinking = begin_thinking(event.prompt_pieces)
        for piece in event.given_pieces:
            thinking = thinking.add(piece)
        measures = NOTHING.with_baseline(reference)
        return type(self)(
            run=event.run,
            given=len(event.given),
            tokens=len(event.given),
            text=len(given_text(event)) if event.given else 0,
            segment=measures,
            total=measures,
            thinking=thinking,
        )

    def _resumed(self, event: RunStarted, reference: BaselineFinished | None) -> Self:
        """The run goes on; what its end held back is in the given text, if it stands."""
        text = self.text - self.tail
        if self.given or self.steps:
            text = max(text, len(given_text(event)))
        counts = replace(self.total.counts, timing=None)
        total = replace(self.total, counts=counts).with_baseline(reference)
        return replace(self, text=text, tail=0, prefill_ms=None, total=total)

    def _after_round(self, event: Round) -> Self:
        first_ms = (self.prefill_ms or 0.0) if self.rounds == 0 else None
        kept = max(self.tokens - event.taken_back, 0)
        began_inside = self.thinking.inside
        thinking = self.thinking.take_back(kept)
        for piece in event.pieces:
            thinking = thinking.add(piece)
        if began_inside or thinking.inside:
            thinking = replace(thinking, measures=thinking.measures.with_round(event))
        return replace(
            self,
            steps=self.steps + 1,
            rounds=self.rounds + 1,
            tokens=kept + len(event.tokens),
            text=self.text + len(event.text),
            segment=self.segment.with_round(event, first_ms),
            total=self.total.with_round(event, first_ms),
            thinking=thinking,
        )

    def _after_step(self, event: PlainStep) -> Self:
        first_ms = (self.prefill_ms or 0.0) if self.tokens == self.given else None
        kept = max(self.tokens - event.taken_back, 0)
        return replace(
            self,
            steps=self.steps + 1,
            tokens=kept + 1,
            text=self.text + len(event.text),
            segment=self.segment.with_step(event, first_ms),
            total=self.total.with_step(event, first_ms),
            thinking=self.thinking.take_back(kept).add(event.piece),
        )

    def _ended(self, event: RunFinished) -> Self:
        # The run's times are the segment's too where there was one segment only.
        segment = self.segment if self.segment_start else self.segment.with_run(event)
        tail = len(event.text)
        total = self.total.with_run(event)
        return replace(self, segment=segment, total=total, text=self.text + tail, tail=tail)


NO_RUN = RunFold()
"""Before the first run."""


def given_text(event: RunStarted) -> str:
    """Text of the ids an answer starts with. Recordings that lack it have their whole characters, without
    what looks like a control token."""
    if event.given_text is not None:
        return event.given_text
    kept = b"".join(piece for piece in event.given_pieces if not _CONTROL.fullmatch(piece))
    return codecs.getincrementaldecoder("utf-8")("replace").decode(kept)
