"""The speedup that measured costs and a run's acceptance lead to, for each K; torch-free.

``Speedup(K) = tau(K) / (D(K) + r(K + 1) + o(K))`` (``docs/measuring.md``; with D = K c, r = 1 and o = 0 that
is Leviathan et al. 2023, Theorem 3.8). A drafter need not give as many drafts as it is asked for: tau counts
how often it does, and the costs are means over what it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from engine.costs import MOST_DRAFTS, Costs
from engine.stats import RoundShape, Statistics


@dataclass(frozen=True, slots=True)
class Point:
    """What one K would bring."""

    k: int
    speedup: float
    """In times plain decoding."""
    tau: float
    """Tokens a round."""
    observed: bool
    """Whether drafts at position K were judged; else their acceptance is that of all positions."""


def survival(stats: Statistics, k: int) -> list[float]:
    """S_1 .. S_K: the chance that a round's first i drafts come and are accepted.

    A product of conditional rates, so rounds that asked for less say nothing about later positions (Kaplan
    and Meier 1958). Positions that no round came to have the rate of all positions together.
    """
    rates = [1.0 - lost / at_risk if at_risk else None for lost, at_risk in _losses(stats)]
    pooled = _pooled(stats)
    padded = [*rates[:k], *[None] * (k - len(rates))]
    return list(accumulate((pooled if rate is None else rate for rate in padded), mul))


def curve(stats: Statistics, costs: Costs, most: int = MOST_DRAFTS) -> tuple[Point, ...]:
    """The speedup for K = 0 .. ``most``; K = 0 is plain decoding. Only that if no draft was asked for."""
    plain = Point(0, 1.0, 1.0, observed=True)
    if not stats.knows_positions or not any(shape.asked for shape in stats.shapes):
        return (plain,)
    chances = survival(stats, most)
    seen = sum(1 for _, at_risk in _losses(stats) if at_risk)
    points = [plain]
    for k in range(1, most + 1):
        tau = 1 + sum(chances[:k])
        speedup = tau * costs.t1_ms / mean_round_ms(stats.shapes, costs, k)
        points.append(Point(k, speedup, tau, observed=k <= seen))
    return tuple(points)


def mean_round_ms(shapes: Sequence[RoundShape], costs: Costs, k: int) -> float:
    """What a round would take if K drafts were asked for, given what the drafter gave so far.

    Args:
        shapes: some of them with drafts asked for.
    """
    total, rounds = 0.0, 0
    for shape in shapes:
        if not shape.asked:
            continue
        total += shape.rounds * costs.round_ms(k, _given(shape, k), shape.source)
        rounds += shape.rounds
    return total / rounds


def best(points: Sequence[Point]) -> Point:
    """The point of the largest speedup, the smaller K where two are equal."""
    return max(points, key=lambda point: (point.speedup, -point.k))


def break_even_alpha(costs: Costs, k: int, source: str | None = None) -> float | None:
    """The alpha at which K drafts a round, each accepted with that chance, are as fast as plain decoding.

    Solves tau(alpha) = D(K) + r(K + 1) + o(K). None where even alpha = 1 does not pay; 0 where any does.
    """
    source = _dearest(costs) if source is None else source
    price = costs.round_ms(k, k, source) / costs.t1_ms
    if k + 1 < price:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if tau(middle, k) >= price else (middle, high)
    return high if high > 1e-9 else 0.0


def tau(alpha: float, k: int) -> float:
    """Tokens a round if each of K drafts is accepted with the same chance: (1 - a^(K+1)) / (1 - a)."""
    return float(sum(alpha**i for i in range(k + 1)))


def _dearest(costs: Costs) -> str:
    return max(costs.sources, key=lambda source: costs.draft_ms(1, source), default="")


def _losses(stats: Statistics) -> list[tuple[int, int]]:
    """For each position: rounds that ended there, by a rejection or as the drafter gave no more, of those
    that asked for a draft there and whose drafts before it were accepted."""
    return [
        (stats.rejected_at[at] + stats.ended_at[at], stats.reached_at(at + 1))
        for at in range(len(stats.rejected_at))
    ]


def _pooled(stats: Statistics) -> float:
    losses = _losses(stats)
    at_risk = sum(rounds for _, rounds in losses)
    return 1.0 - sum(lost for lost, _ in losses) / at_risk if at_risk else 0.0


def _given(shape: RoundShape, k: int) -> int:
    """How many drafts a round of that shape would have had with another K."""
    if shape.asked >= k or shape.given < shape.asked:
        return min(shape.given, k)
    return k  # it gave all it was asked for
