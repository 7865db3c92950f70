"""A ratio of sums over the prompts, with its 95 % interval: a percentile bootstrap that resamples prompts.

Prompts are what a reader would exchange for others; repeats of one prompt are no new evidence about them and
stay together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A measure with its 95 % bootstrap interval over the prompts."""

    value: float
    low: float | None = None
    """None with fewer than two prompts, where nothing can be resampled, and while a bench runs."""
    high: float | None = None


def ratio_of_sums(
    pairs: Sequence[tuple[float, float]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval | None:
    """Sum of the first parts over the sum of the second ones; None where there is nothing to divide by.

    Args:
        pairs: one for each prompt, neither part negative.
        resamples: 0 leaves the interval out.
    """
    value = _ratio(pairs)
    if value is None or len(pairs) < 2 or not resamples:
        return None if value is None else Interval(value)
    chance = random.Random(seed)
    drawn = (_ratio(chance.choices(pairs, k=len(pairs))) for _ in range(resamples))
    ratios = sorted(ratio for ratio in drawn if ratio is not None)
    edge = len(ratios) // 40
    return Interval(value, ratios[edge], ratios[-1 - edge])


def _ratio(pairs: Sequence[tuple[float, float]]) -> float | None:
    over, under = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    return over / under if under else None
