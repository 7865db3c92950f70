"""Why a run was faster or slower than plain decoding, and what would help, in one sentence; torch-free.

Gain or loss first, then the reason that weighs most, then the K or the method that would do better. Nothing
is said that was not measured: without costs there is no reason, and costs that do not fit what was measured
are said not to explain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.costs import MOST_DRAFTS, Costs
from engine.predictor import best, break_even_alpha, curve
from engine.stats import Statistics
from engine.what_if import Estimate

NOISE = 0.03
"""Two timings on one machine differ by so much without a reason."""
_EVEN = 0.5
"""Costs that are repaid by drafts that are right half of the time are not what makes a run slow."""
_SELDOM = 0.5
"""Share of rounds with a draft below which a drafter seldom offers one."""
_EXPLAINED = 0.10
"""Prediction error up to which costs explain a speedup."""
_WORDS = {1: "Faster", 0: "No difference that can be measured", -1: "Slower"}


def outcome(speedup: float) -> int:
    """1 for a gain over plain decoding, -1 for a loss, 0 for what cannot be told from no difference."""
    return 0 if abs(speedup - 1) <= NOISE else 1 if speedup > 1 else -1


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is said of a run."""

    outcome: int
    """As ``outcome`` gives it."""
    speedup: float
    measured: bool
    """Whether the speedup was; else it is that of the costs measured before."""
    reason: str
    advice: tuple[str, ...]
    """What would do better, if anything is known to."""

    @property
    def sentence(self) -> str:
        """All of it; a speedup that was not measured is told as a prediction."""
        head = _WORDS[self.outcome]
        if not self.measured:
            head = f"{head} by the prediction ({self.speedup:.2f}x)"
        return f"{head}: {'; '.join((self.reason, *self.advice))}."


def explain(
    stats: Statistics, others: Sequence[Estimate] = (), *, k: int | None = None
) -> Explanation | None:
    """Say why a run was as fast as it was.

    Args:
        stats: of the run, or of a part of it.
        others: what other methods would have come to.
        k: draft tokens that are asked for now; None: those most rounds asked for.

    Returns:
        None where neither a speedup nor costs are known, or no token came.
    """
    measured, predicted, costs = stats.speedup, stats.predicted_speedup, stats.costs
    speedup = predicted if measured is None else measured
    if speedup is None or speedup <= 0 or not stats.rounds:
        return None
    sign = outcome(speedup)
    if costs is None or predicted is None:
        return Explanation(sign, speedup, True, "what its parts cost was not measured before it", ())
    is_off = abs(predicted - speedup) / speedup > _EXPLAINED
    if is_off and outcome(predicted) != sign:
        reason = f"the costs measured before lead to {predicted:.2f}x and do not explain it"
        return Explanation(sign, speedup, True, reason, ())
    facts = _Facts(stats, costs, k)
    reason = facts.reason(sign)
    if is_off:
        reason += f" (the costs measured before lead to {predicted:.2f}x)"
    return Explanation(sign, speedup, measured is not None, reason, tuple(facts.advice(speedup, others)))


class _Facts:
    """What sentences are made of."""

    def __init__(self, stats: Statistics, costs: Costs, k: int | None) -> None:
        self._stats, self._costs = stats, costs
        self._asked = [shape for shape in stats.shapes if shape.asked]
        self._k = usual_k(stats) if k is None else k
        self._points = curve(stats, costs)

    # -- the reason

    def reason(self, sign: int) -> str:
        if not self._asked:
            return "nothing was drafted"
        alpha = self._stats.alpha_hat
        if alpha is None:
            return "the drafter offered nothing"
        if sign > 0:
            return self._income()
        least = least_alpha(self._costs)
        if sign < 0 and (least is None or least > _EVEN or self._some_k_pays):
            return self._dearest()
        if self._offered < _SELDOM:
            return f"only {self._offered:.0%} of the rounds had a draft"
        return self._income() if sign == 0 else f"the target accepts only {alpha:.0%} of the drafts it judges"

    @property
    def _some_k_pays(self) -> bool:
        return outcome(best(self._points).speedup) > 0

    @property
    def _offered(self) -> float:
        """Share of the rounds that asked for drafts and got one."""
        rounds = sum(shape.rounds for shape in self._asked)
        return sum(shape.rounds for shape in self._asked if shape.given) / rounds

    def _income(self) -> str:
        """What a round brings and takes."""
        stats, costs = self._stats, self._costs
        took = stats.predicted_ms / stats.predicted_rounds / costs.t1_ms
        return f"a round brings {stats.tau:.2f} tokens and takes {took:.2f} plain steps"

    def _dearest(self) -> str:
        """The part of a round that costs the most beyond a plain step."""
        costs, k = self._costs, max(self._k, 1)
        source = self._dearest_source
        drafting = costs.round_ms(k, k, source) - costs.round_ms(0, k, source)
        parts = {
            "draft": drafting / costs.t1_ms,
            "pass": costs.r(k + 1) - costs.r(1),
            "host": costs.o(k),
        }
        name = max(parts, key=lambda part: parts[part])
        if name == "draft" and self._some_k_pays and k > 1:
            return f"drafting {k} tokens costs {parts['draft']:.2f} plain steps"
        if name == "draft":
            c = costs.c(source) or 0.0
            return f"drafting one token costs {c:.2f} of a plain step"
        if name == "pass":
            return f"a pass over {k + 1} tokens takes {costs.r(k + 1):.2f} times one over a single token"
        return f"the host work of a round costs {parts['host']:.2f} of a plain step"

    @property
    def _dearest_source(self) -> str:
        """The part of the drafter that costs most a token."""
        return max(self._costs.sources, key=lambda source: self._costs.c(source) or 0.0, default="")

    # -- what would help

    def advice(self, speedup: float, others: Sequence[Estimate]) -> list[str]:
        found = self._other_k(speedup)
        reach = max(1.0, speedup, best(self._points).speedup if self._asked else 1.0)
        other = max(others, key=lambda each: each.speedup, default=None)
        if other is not None and other.speedup > reach + NOISE:
            found.append(f"{other.name} would give {other.speedup:.1f}x")
        return found

    def _other_k(self, speedup: float) -> list[str]:
        """Which K would do better, or that none pays."""
        alpha = self._stats.alpha_hat
        if alpha is None or len(self._points) < 2:
            return []
        peak = best(self._points)
        if not self._some_k_pays:
            if outcome(speedup) > 0:
                return []  # it was measured to pay
            return [f"at alpha {alpha:.2f} no K pays{self._needed()}"]
        now = self._points[self._k].speedup if self._k < len(self._points) else None
        if now is None or peak.k == self._k or peak.speedup < now * (1 + NOISE):
            return [f"K = {self._k} is about the best"] if outcome(speedup) > 0 else []
        guess = "" if peak.observed else ", as far as drafts at the places that were tried can tell"
        return [f"K = {peak.k} would give {peak.speedup:.2f}x{guess}"]

    def _needed(self) -> str:
        needed = least_alpha(self._costs)
        if needed is None:
            return ", whatever alpha is"
        return f": break-even alpha is {needed:.2f}" if needed > (self._stats.alpha_hat or 0.0) else ""


def least_alpha(costs: Costs, most: int = MOST_DRAFTS) -> float | None:
    """The alpha from which on some K pays, if the drafter always gives what it is asked for; None: no alpha
    is enough."""
    each = [break_even_alpha(costs, k) for k in range(1, most + 1)]
    return min((alpha for alpha in each if alpha is not None), default=None)


def usual_k(stats: Statistics) -> int:
    """The K that most rounds asked for, of those that asked for drafts; 0 where none did."""
    rounds: dict[int, int] = {}
    for shape in (shape for shape in stats.shapes if shape.asked):
        rounds[shape.asked] = rounds.get(shape.asked, 0) + shape.rounds
    return max(rounds, key=lambda k: (rounds[k], -k), default=0)
