"""The measures of a run, one meaning each; torch-free.

Letters: N rounds, K tokens drafted in a round. All counts are taken AFTER the cut at EOS, stop string or
limit: draft tokens that the cut removed are neither accepted nor drafted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.costs import Costs
from engine.events import BaselineFinished, PlainStep, Round, RunFinished, Settings
from engine.wilson import wilson_interval

if TYPE_CHECKING:
    from engine.what_if import Estimate


@dataclass(slots=True)
class Timing:
    """What the end of a run says about its time."""

    decode_ms: float
    """Time of the rounds, prefill not in it."""
    ttft_ms: float | None


@dataclass(slots=True)
class Baseline:
    """What plain decoding of the same prompt cost."""

    tokens: int
    decode_ms: float
    identical: bool | None
    complete: bool


@dataclass(frozen=True, slots=True)
class RoundShape:
    """Rounds that were alike in what they cost."""

    asked: int
    """Draft tokens asked for."""
    given: int
    """Those that came."""
    source: str
    """Which part of the drafter gave them."""
    rounds: int


@dataclass(slots=True)
class Statistics:
    """Running counts of one speculative run, and every measure that follows from them."""

    rounds: int = 0
    emitted: int = 0
    """Tokens committed by the rounds, EOS counted, before anything was taken back."""
    taken_back: int = 0
    """Tokens withdrawn by a later round because a stop string began in them."""
    accepted: int = 0
    drafted: int = 0
    rejections: int = 0
    """Rounds that ended in a rejection."""
    cut_rounds: int = 0
    """Rounds whose cut removed the target's own token; at most one an answer."""
    reached: list[int] = field(default_factory=list)
    """``reached[i - 1]``: rounds in which the first i drafts were all accepted and kept. As long as the
    longest draft that counted."""
    rejected_at: list[int] = field(default_factory=list)
    """``rejected_at[i - 1]``: rounds whose draft i was the rejected one."""
    ended_at: list[int] = field(default_factory=list)
    """``ended_at[i - 1]``: rounds asked for i drafts or more, of which i - 1 came and all were accepted."""
    shapes: list[RoundShape] = field(default_factory=list)
    """How many drafts were asked for, and how many came."""
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    host_ms: float = 0.0
    costs: Costs | None = None
    """What the newest calibration measured."""
    predicted_rounds: int = 0
    """Rounds that began after a calibration."""
    predicted_ms: float = 0.0
    """What they should have taken, by the calibration before each of them."""
    predicted_plain_ms: float = 0.0
    """What their tokens should have taken in plain decoding, by the same."""
    timing: Timing | None = None
    baseline: Baseline | None = None

    def add(self, round_: Round) -> None:
        """Count one round."""
        self.rounds += 1
        self.emitted += len(round_.tokens)
        self.taken_back += round_.taken_back
        self.accepted += round_.accepted
        self.drafted += round_.drafted
        self.rejections += round_.rejected
        self.cut_rounds += round_.was_cut
        self.reached.extend([0] * (round_.drafted - len(self.reached)))
        for index in range(round_.accepted):
            self.reached[index] += 1
        self._add_end(round_)
        self._add_shape(RoundShape(round_.k, len(round_.drafts), round_.source, 1))
        self.draft_ms += round_.draft_ms
        self.verify_ms += round_.verify_ms
        self.host_ms += round_.host_ms
        if self.costs is not None:
            self.predicted_rounds += 1
            self.predicted_ms += self.costs.of_round(round_)
            self.predicted_plain_ms += len(round_.tokens) * self.costs.t1_ms

    def _add_end(self, round_: Round) -> None:
        """Note at which position the accepted drafts ended, and why."""
        last = round_.accepted if round_.was_cut or round_.accepted == round_.k else round_.accepted + 1
        for ends in (self.rejected_at, self.ended_at):
            ends.extend([0] * (last - len(ends)))
        if last > round_.accepted:
            ends = self.rejected_at if round_.rejected else self.ended_at
            ends[last - 1] += 1

    def _add_shape(self, shape: RoundShape) -> None:
        for at, known in enumerate(self.shapes):
            if (known.asked, known.given, known.source) == (shape.asked, shape.given, shape.source):
                self.shapes[at] = replace(known, rounds=known.rounds + shape.rounds)
                return
        self.shapes.append(shape)

    def set_costs(self, costs: Costs) -> None:
        """Take a calibration; the rounds that follow are predicted by it."""
        self.costs = costs

    def add_step(self, step: PlainStep, *, kept: bool = True) -> None:
        """Count one step of plain decoding: tokens and time, no round.

        Args:
            kept: whether its token was committed; a stop string that began before it takes it away.
        """
        self.emitted += kept
        self.taken_back += step.taken_back
        self.verify_ms += step.verify_ms
        self.host_ms += step.host_ms

    def set_run(self, finished: RunFinished) -> None:
        """Take the times of the run as a whole."""
        self.timing = Timing(finished.decode_ms, finished.ttft_ms)

    def set_baseline(self, finished: BaselineFinished) -> None:
        """Take the measurement of plain decoding; one that was cancelled does not replace a whole one."""
        if self.baseline is not None and self.baseline.complete and not finished.complete:
            return
        self.baseline = Baseline(finished.tokens, finished.decode_ms, finished.identical, finished.complete)

    def merge(self, other: Statistics) -> None:
        """Add the rounds of another run. Times of a run as a whole and baselines do not add up: they go."""
        for name in _BY_POSITION:
            counts, more = getattr(self, name), getattr(other, name)
            counts.extend([0] * (len(more) - len(counts)))
            for index, count in enumerate(more):
                counts[index] += count
        for shape in other.shapes:
            self._add_shape(shape)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.timing = self.baseline = self.costs = None

    def copy(self) -> Statistics:
        """Another one with the same counts, which grows by itself."""
        return replace(
            self,
            reached=list(self.reached),
            rejected_at=list(self.rejected_at),
            ended_at=list(self.ended_at),
            shapes=list(self.shapes),
        )

    @property
    def tokens(self) -> int:
        """Tokens of the answer: emitted less taken back."""
        return self.emitted - self.taken_back

    @property
    def tau(self) -> float | None:
        """Emitted tokens (before any take-back) a round; plain decoding is 1.00."""
        return _ratio(self.emitted, self.rounds)

    @property
    def alpha_hat(self) -> float | None:
        """accepted / (accepted + rounds that ended in a rejection)."""
        return _ratio(self.accepted, self.accepted + self.rejections)

    @property
    def alpha_hat_error(self) -> float | None:
        """Standard error of ``alpha_hat``."""
        alpha = self.alpha_hat
        if alpha is None:
            return None
        return math.sqrt(alpha * (1 - alpha) / (self.accepted + self.rejections))

    @property
    def draft_efficiency(self) -> float | None:
        """accepted / drafted. It is not alpha."""
        return _ratio(self.accepted, self.drafted)

    @property
    def acceptance_by_position(self) -> list[float] | None:
        """r_i: share of ALL rounds (those without a draft too) whose first i drafts were accepted."""
        if not self.rounds:
            return None
        return [count / self.rounds for count in self.reached]

    @property
    def conditional_acceptance(self) -> list[float | None] | None:
        """a_i = r_i / r_(i-1), with r_0 = 1; None at positions that no round came to."""
        if not self.rounds:
            return None
        return [_ratio(count, trials) for count, trials in self._conditional_counts()]

    @property
    def conditional_intervals(self) -> list[tuple[float, float] | None]:
        """95 % Wilson interval of each a_i."""
        return [
            wilson_interval(count, trials) if trials else None for count, trials in self._conditional_counts()
        ]

    def _conditional_counts(self) -> list[tuple[int, int]]:
        return list(zip(self.reached, [self.rounds, *self.reached], strict=False))

    @property
    def decode_ms(self) -> float:
        """Decode time of the run; while it is going on, that of its rounds so far."""
        if self.timing is not None:
            return self.timing.decode_ms
        return self.draft_ms + self.verify_ms + self.host_ms

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of the answer a second of decoding; prefill is not in it."""
        return _positive(_ratio(self.tokens * 1000, self.decode_ms))

    @property
    def baseline_tokens_per_second(self) -> float | None:
        """The same of plain decoding; None unless it was measured to its end."""
        if self.baseline is None or not self.baseline.complete:
            return None
        return _positive(_ratio(self.baseline.tokens * 1000, self.baseline.decode_ms))

    @property
    def speedup(self) -> float | None:
        """(plain ms a token) / (speculative ms a token), decoding only."""
        speculative, plain = self.tokens_per_second, self.baseline_tokens_per_second
        return None if speculative is None or plain is None else speculative / plain

    @property
    def predicted_speedup(self) -> float | None:
        """The speedup by the costs that were measured before, with the acceptance of these rounds.

        None unless every round began after a calibration.
        """
        if not self.emitted or self.predicted_rounds != self.rounds:
            return None
        kept = max(0, self.tokens) / self.emitted  # the measured speedup is of the tokens that stayed, too
        return _positive(_ratio(self.predicted_plain_ms * kept, self.predicted_ms))

    @property
    def prediction_error(self) -> float | None:
        """|predicted - measured| / measured speedup."""
        predicted, measured = self.predicted_speedup, self.speedup
        return None if predicted is None or measured is None else abs(predicted - measured) / measured

    @property
    def knows_positions(self) -> bool:
        """Whether it is known at which positions the drafts ended; keyframes of earlier versions lack it."""
        return sum(self.rejected_at) == self.rejections and sum(s.rounds for s in self.shapes) == self.rounds

    def reached_at(self, position: int) -> int:
        """Rounds that asked for a draft at a position, 1 being the first, and accepted all before it."""
        at = position - 1
        kept = self.reached[at] if at < len(self.reached) else 0
        return kept + self.rejected_at[at] + self.ended_at[at]

    @property
    def best_k(self) -> int | None:
        """The K of the largest predicted speedup, 0 being plain decoding; None without a calibration."""
        from engine.predictor import best, curve

        if self.costs is None or not self.rounds or not self.knows_positions:
            return None
        points = curve(self, self.costs)
        return best(points).k if len(points) > 1 else None

    def why(self, others: Sequence[Estimate] = ()) -> str | None:
        """One sentence on why it was faster or slower; None without a calibration.

        Args:
            others: what other methods would have come to.
        """
        from engine.verdict import explain

        told = None if self.costs is None else explain(self, others)
        return None if told is None else told.sentence

    def check_identities(self) -> None:
        """Assert what must hold between the counts.

        r_i counts the accepted drafts that were KEPT, so sum r_i = accepted / N also with cuts. A round emits
        its kept drafts and the target's token; a cut round lacks the latter. Hence, exactly,
        emitted = accepted + N - cut_rounds and tau = 1 + sum r_i - cut_rounds / N.
        """
        kept = self.accepted + self.rounds - self.cut_rounds
        assert self.emitted == kept, f"emitted {self.emitted} tokens, but kept {kept}"
        assert sum(self.reached) == self.accepted, f"reached {self.reached}, accepted {self.accepted}"
        assert self.reached == sorted(self.reached, reverse=True), f"r_i must not grow: {self.reached}"
        assert self.accepted <= self.drafted, f"accepted {self.accepted} of {self.drafted} drafts"
        assert self.rejections + self.cut_rounds <= self.rounds, "a round is cut or rejected, not both"
        assert sum(self.rejected_at) <= self.rejections, f"rejected {self.rejected_at} of {self.rejections}"
        ended = sum(self.rejected_at) + sum(self.ended_at)
        assert ended <= self.rounds, "the drafts of a round end once"
        assert min([*self.rejected_at, *self.ended_at, 0]) == 0, "counts are not negative"
        assert sum(shape.rounds for shape in self.shapes) <= self.rounds, "a round has one shape"
        if self.tau is not None:
            told = 1 + sum(self.reached) / self.rounds - self.cut_rounds / self.rounds
            assert math.isclose(self.tau, told, rel_tol=1e-12, abs_tol=1e-12), f"tau {self.tau}, told {told}"

    def synthetic(self, settings: Settings | None) -> dict[str, Any] | None:
        """What a synthetic drafter was told, and the speedup if its drafts had a cost; None for others.

        Each drafted token is charged ``draft_cost`` plain steps; in the run it took next to no time.
        """
        if settings is None or not settings.acceptance:
            return None
        speedup, cost = None, settings.draft_cost or 0.0
        plain = self.baseline_tokens_per_second
        if plain is not None and self.tokens:
            speedup = self.tokens * 1000 / plain / (self.decode_ms + self.drafted * cost * 1000 / plain)
        return {"acceptance": list(settings.acceptance), "draft_cost": cost, "speedup_at_cost": speedup}

    def as_dict(self, settings: Settings | None = None, others: Sequence[Estimate] = ()) -> dict[str, Any]:
        """The machine-readable names, in their order; an absent measure is None, never 0.

        Rates are fractions 0..1, times milliseconds.

        Args:
            settings: of the run, for what is said of a synthetic drafter only.
            others: what other methods would have come to, for the sentence.
        """
        known = self.baseline if self.baseline is not None and self.baseline.complete else None
        times: dict[str, float | None] = {}
        for name in ("draft_ms", "verify_ms", "host_ms"):
            total = getattr(self, name)
            times[name] = total if self.rounds else None
            times[f"{name}_per_round"] = _ratio(total, self.rounds)
        return {
            "tokens": self.tokens,
            "rounds": self.rounds,
            "tau": self.tau,
            "alpha_hat": self.alpha_hat,
            "draft_efficiency": self.draft_efficiency,
            "acceptance_by_position": self.acceptance_by_position,
            "conditional_acceptance": self.conditional_acceptance,
            "tokens_per_second": self.tokens_per_second,
            "baseline_tokens_per_second": self.baseline_tokens_per_second,
            "speedup": self.speedup,
            "predicted_speedup": self.predicted_speedup,
            "prediction_error": self.prediction_error,
            "best_k": self.best_k,
            "why": self.why(others),
            "costs": None if self.costs is None else self.costs.as_dict(),
            "ttft_ms": None if self.timing is None else self.timing.ttft_ms,
            **times,
            "identical": None if known is None else known.identical,
            "synthetic": self.synthetic(settings),
        }


_SUMS = (
    *("rounds", "emitted", "taken_back", "accepted", "drafted", "rejections", "cut_rounds"),
    *("draft_ms", "verify_ms", "host_ms"),
    *("predicted_rounds", "predicted_ms", "predicted_plain_ms"),
)
_BY_POSITION = ("reached", "rejected_at", "ended_at")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _positive(rate: float | None) -> float | None:
    """A speed of 0 (no token came, or stayed) is no measure."""
    return rate or None
