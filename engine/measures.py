"""The measures of a part of a run as an immutable value that grows round by round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from engine.costs import Costs
from engine.events import BaselineFinished, PlainStep, Round, RunFinished
from engine.stats import Baseline, Statistics, Timing


@dataclass(frozen=True, slots=True)
class Measures:
    """What the gauge shows of a run or of a segment of it. Rates are fractions 0..1, None where not measured.

    A step of plain decoding counts as tokens and time, not as a round. ``with_...`` give a new value and cost
    O(K), whatever the run's length.
    """

    counts: Statistics = field(default_factory=Statistics)
    """Never changed once it is in here."""
    ttft_ms: float | None = None
    """Prefill plus the first round."""

    def _copy(self) -> Statistics:
        return self.counts.copy()

    def with_round(self, round_: Round, prefill_ms: float | None = None) -> Self:
        """One round more; ``prefill_ms`` where it is the first of its run."""
        counts = self._copy()
        counts.add(round_)
        ttft_ms = self.ttft_ms if prefill_ms is None else prefill_ms + round_.ms
        return replace(self, counts=counts, ttft_ms=ttft_ms)

    def with_step(self, step: PlainStep, prefill_ms: float | None = None) -> Self:
        """One step of plain decoding more; ``prefill_ms`` where it is the first of its run."""
        counts = self._copy()
        counts.add_step(step)
        ttft_ms = self.ttft_ms if prefill_ms is None else prefill_ms + step.ms
        return replace(self, counts=counts, ttft_ms=ttft_ms)

    def with_rounds(self, rounds: Iterable[Round]) -> Self:
        """Several rounds more, for one copy."""
        counts = self._copy()
        for round_ in rounds:
            counts.add(round_)
        return replace(self, counts=counts)

    def with_run(self, finished: RunFinished) -> Self:
        """The times of the run as a whole."""
        counts = replace(self._copy(), timing=Timing(finished.decode_ms, finished.ttft_ms))
        return replace(self, counts=counts, ttft_ms=finished.ttft_ms)

    def with_baseline(self, finished: BaselineFinished | None) -> Self:
        """Measured against this plain decoding; None forgets it."""
        known = None
        if finished is not None:
            known = Baseline(finished.tokens, finished.decode_ms, finished.identical, finished.complete)
        return replace(self, counts=replace(self._copy(), baseline=known))

    def with_costs(self, costs: Costs | None) -> Self:
        """The rounds that follow are predicted by these; None: by none."""
        return replace(self, counts=replace(self._copy(), costs=costs))

    @property
    def tokens(self) -> int:
        """Tokens of the answer, EOS counted, withdrawn ones not.

        At least 0: what a segment withdraws may have come from the one before it.
        """
        return max(0, self.counts.tokens)

    @property
    def rounds(self) -> int:
        return self.counts.rounds

    @property
    def accepted(self) -> int:
        return self.counts.accepted

    @property
    def drafted(self) -> int:
        return self.counts.drafted

    @property
    def rejections(self) -> int:
        """Rounds that ended in a rejection."""
        return self.counts.rejections

    @property
    def tau(self) -> float | None:
        """Tokens a round."""
        return self.counts.tau if self.rounds else None

    @property
    def alpha_hat(self) -> float | None:
        return self.counts.alpha_hat

    @property
    def alpha_hat_error(self) -> float | None:
        """Standard error of ``alpha_hat``."""
        return self.counts.alpha_hat_error

    @property
    def draft_efficiency(self) -> float | None:
        return self.counts.draft_efficiency

    @property
    def acceptance_by_position(self) -> tuple[float, ...] | None:
        """Share of all rounds whose first 1, 2, 3, ... drafts were all accepted."""
        shares = self.counts.acceptance_by_position
        return None if shares is None else tuple(shares)

    @property
    def conditional_acceptance(self) -> tuple[float | None, ...] | None:
        """Share of the rounds that came to position 1, 2, 3, ... and accepted it."""
        shares = self.counts.conditional_acceptance
        return None if shares is None else tuple(shares)

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding only."""
        return self.counts.tokens_per_second if self.tokens else None

    @property
    def baseline_tokens_per_second(self) -> float | None:
        """Plain decoding; None unless it was measured to its end."""
        return self.counts.baseline_tokens_per_second

    @property
    def speedup(self) -> float | None:
        """Plain ms a token / ms a token here."""
        return self.counts.speedup if self.tokens else None

    @property
    def predicted_speedup(self) -> float | None:
        """The speedup by the costs that were measured before these rounds; None where none were."""
        return self.counts.predicted_speedup

    @property
    def prediction_error(self) -> float | None:
        """|predicted - measured| / measured speedup."""
        return self.counts.prediction_error if self.tokens else None

    @property
    def best_k(self) -> int | None:
        """The K of the largest predicted speedup, 0 being plain decoding."""
        return self.counts.best_k

    @property
    def draft_ms(self) -> float:
        """Total, as the two others."""
        return self.counts.draft_ms

    @property
    def verify_ms(self) -> float:
        return self.counts.verify_ms

    @property
    def host_ms(self) -> float:
        return self.counts.host_ms

    @property
    def decode_ms(self) -> float:
        """Time of the rounds, prefill and pauses not in it."""
        return self.counts.decode_ms


NOTHING = Measures()
"""Of a run that has not begun."""
