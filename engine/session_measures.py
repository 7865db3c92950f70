"""What a session measures beside its runs: the costs of its parts before, plain decoding after."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.costs import KEPT, ROWS, Costs
from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Calibrated,
    Event,
    Round,
    Settings,
)
from engine.recording import Recorder
from engine.session_parts import REPORT_EVERY, SessionParts

if TYPE_CHECKING:
    from engine.answer import Answer

PLACES = 6
"""Of an answer where plain decoding is timed if it is not timed over the whole of it."""
STEPS_A_PLACE = 8
_SHORT = 256
"""Tokens of context up to which costs hardly depend on it."""
_NEWEST = 16
"""Rounds that a drift is judged by."""
_DRIFT = 1.25
"""How many times as dear, or as cheap, the target's passes have to become."""
_SHORTEST_MS = 1.0
"""Shorter passes vary by as much from one to the next."""


@dataclass(slots=True)
class _Drift:
    """How far the target's passes are from what was calibrated."""

    costs: Costs | None = None
    ratios: list[float] = field(default_factory=list)

    def add(self, round_: Round) -> None:
        expected = 0.0 if self.costs is None else self.costs.pass_ms(len(round_.drafts) + 1)
        if expected >= _SHORTEST_MS:
            self.ratios = [*self.ratios[1 - _NEWEST :], round_.verify_ms / expected]

    @property
    def is_large(self) -> bool:
        return len(self.ratios) == _NEWEST and not 1 / _DRIFT <= median(self.ratios) <= _DRIFT


class SessionMeasures(SessionParts):
    """Calibrates, and times plain decoding."""

    def __init__(self, config: Config, recorder: Recorder | None = None) -> None:
        super().__init__(config, recorder)
        self._drift = _Drift()
        self._calibrated: object = None  # what the costs are of

    def eject(self) -> None:
        super().eject()
        self._drift, self._calibrated = _Drift(), None  # costs of models that went would keep them here

    def statistics(self) -> dict[str, Any]:
        """The machine-readable measures of the last run."""
        if self._last is None:
            return self.run_statistics.as_dict()
        from engine.what_if_lookup import other_methods

        spoken, settings = self._last
        start = self._start_of(spoken)
        prompt, answer = spoken.tokens[:start], spoken.tokens[start:]
        others = other_methods(prompt, answer, self.run_statistics.costs, settings.drafter)
        return self.run_statistics.as_dict(settings, others)

    def _start_of(self, spoken: Answer) -> int:
        """Where the tokens begin that the run wrote, its parts before it was resumed included."""
        return spoken.prompt_length - self._run.written

    # -- costs

    def _calibrate(self, answer: Answer, settings: Settings) -> Iterator[Event]:
        """Measure the costs, if those that are known are of something else; a run is told what it goes by."""
        known = self.run_statistics.costs  # a run that goes by costs is not to go by those of something else
        if known is None and self.config.run.baseline == "off" and not self._needs_costs(settings):
            return
        reason = self._why_now(answer, settings)
        if reason is None and known is self._drift.costs:
            return
        if reason is not None:
            from engine.calibrate import Calibrator

            costs = Calibrator(self.pair, settings, answer.tokens, self._cancelled.is_set).costs()
            if costs is None:
                return
            self._drift = _Drift(costs)
            self._calibrated = _kind(settings), self.pair
        assert self._drift.costs is not None, "they were measured now or before"
        self.run_statistics.set_costs(self._drift.costs)
        yield Calibrated(*self._stamp(), self._run.settings_id, self._drift.costs, reason or KEPT)

    def forget_costs(self) -> None:
        """The next run that needs costs measures them, whatever is known of another prompt."""
        self._calibrated = None

    def _needs_costs(self, settings: Settings) -> bool:
        """Whether the settings cannot do without costs."""
        return settings.adaptive

    def _why_now(self, answer: Answer, settings: Settings) -> str | None:
        """Why costs have to be measured now; None while those that are known will do."""
        costs = self._drift.costs
        if costs is None or self._calibrated != (_kind(settings), self.pair):
            return "start" if not self._run.rounds else "settings changed"
        shorter, longer = sorted(max(_SHORT, n) for n in (len(answer.tokens), costs.context_length))
        if longer >= 2 * shorter:
            return "length doubled"
        context_length = self.pair.target.context_length
        room_then, room = context_length - costs.context_length, context_length - len(answer.tokens)
        if room_then < min(room, ROWS[-1]):  # the wider passes did not fit
            return "more room"
        if self._drift.is_large and not self._run.drifted:
            self._run.drifted = True
            return "costs drifted"
        return None

    # -- plain decoding

    def baseline(self) -> Iterator[Event]:
        """Time plain decoding of the last run's prompt at the run's lengths: warm, alone, prefill apart.

        With ``run.baseline = "calibrated"`` a long answer is timed at some places, each begun after the
        answer's own tokens; otherwise plain decoding writes as many tokens as the answer has, and where it
        has to write the same ones it is told whether it did.

        Yields BaselineStarted, BaselineProgress, BaselineFinished; nothing if there was no run since the
        models were loaded, or it has no token. End of sequence and stop strings are ignored, so that the
        lengths agree; the last run's text is not touched.

        Raises:
            InvariantError: the measurement was left, and a run has begun.
            EngineError, ResourceError: the engine cannot go on; the session stays usable.
        """
        if self._last is None:
            return
        spoken, settings = self._last
        start = self._start_of(spoken)
        wanted = spoken.tokens[start:]
        if not wanted:
            return
        self._cancelled.clear()
        calibrated = self.config.run.baseline == "calibrated"
        if calibrated and len(wanted) > PLACES * STEPS_A_PLACE:
            yield from self._sampled_baseline(spoken, start, settings)
            return
        plain = self._plain_answer(spoken, start, len(wanted))
        with self._following(plain):
            for event in self._whole_baseline(plain, wanted, settings):
                yield from self._released(event)
                self._check_follows(plain)

    def _plain_answer(self, spoken: Answer, start: int, tokens: int) -> Answer:
        """An answer of so many tokens that plain decoding begins after the first ``start`` ids."""
        from engine.answer import Answer, Limits

        limits = Limits(tokens, spoken.limits.context_length)
        return Answer(spoken.tokens[:start], self.pair.target.text, limits)

    def _sampled_baseline(self, spoken: Answer, start: int, settings: Settings) -> Iterator[Event]:
        total = PLACES * STEPS_A_PLACE
        yield from self._released(BaselineStarted(*self._stamp(), total))
        decode_ms, done = 0.0, 0
        # The last place first: the cache holds what comes before it, and is only cut shorter.
        for place in reversed(places(start, len(spoken.tokens))):
            plain = self._plain_answer(spoken, place, STEPS_A_PLACE)
            with self._following(plain):
                self._read(plain)
                decoder = self.pair.plain_decoder(settings, self._stamp)
                for number in range(1, STEPS_A_PLACE + 1):
                    if self._cancelled.is_set():
                        break
                    decode_ms += decoder.step(plain, number).ms
                    done += 1
                yield from self._released(BaselineProgress(*self._stamp(), done, total))
                self._check_follows(plain)
        finished = BaselineFinished(
            *self._stamp(),
            tokens=done,
            ids=(),
            decode_ms=decode_ms,
            prefill_ms=0.0,
            identical=None,
            first_difference=None,
            complete=done == total,
            sampled=True,
        )
        self.run_statistics.set_baseline(finished)
        yield from self._released(finished)

    def _read(self, plain: Answer) -> float:
        """Have the target's cache hold the answer's prompt; milliseconds of what it lacked."""
        self.pair.rewind(self._held, plain.tokens)
        start = time.perf_counter()
        for _ in self.pair.prefill_target(plain.tokens):  # nothing to do unless the context changed meanwhile
            pass
        return (time.perf_counter() - start) * 1e3

    def _whole_baseline(self, plain: Answer, ids: list[int], settings: Settings) -> Iterator[Event]:
        pair, wanted = self.pair, len(ids)
        yield BaselineStarted(*self._stamp(), wanted)
        prefill_ms = self._read(plain)
        decoder = pair.plain_decoder(settings, self._stamp)
        must_agree = len(self._run.texts) == 1 and None not in self._run.texts
        decode_ms, parting = 0.0, None
        for number in range(1, wanted + 1):
            if self._cancelled.is_set():
                break
            step = decoder.step(plain, number)
            decode_ms += step.ms
            if must_agree and parting is None and step.id != ids[number - 1]:
                parting = pair.parting(plain, decoder, ids[number - 1], self._run.passes)
            if number % REPORT_EVERY == 0 and number < wanted:
                yield BaselineProgress(*self._stamp(), number, wanted)
        done = plain.new_tokens
        complete = len(done) == wanted
        divergence = None if parting is None else pair.divergence(parting, settings, self._cancelled.is_set)
        finished = BaselineFinished(
            *self._stamp(),
            tokens=len(done),
            ids=tuple(done),
            decode_ms=decode_ms,
            prefill_ms=prefill_ms,
            identical=done == ids if must_agree and complete else None,
            first_difference=None if divergence is None else divergence.index,
            complete=complete,
            divergence=divergence,
        )
        self.run_statistics.set_baseline(finished)
        yield finished


def places(start: int, end: int) -> list[int]:
    """Where plain decoding is timed between two positions: one place in the middle of each equal share."""
    share = (end - start) / PLACES
    found = [start + round(share * (number + 0.5) - STEPS_A_PLACE / 2) for number in range(PLACES)]
    assert all(low + STEPS_A_PLACE <= high for low, high in pairwise([*found, end])), "they do not overlap"
    return found


def _kind(settings: Settings) -> Settings:
    """What costs depend on, of the settings: all but the number of drafts and the seed."""
    return replace(settings, num_draft_tokens=0, adaptive=False, seed=0)
