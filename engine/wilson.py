"""The interval of a rate that was seen in a number of trials (Wilson 1927); torch-free."""

from __future__ import annotations

import math


def wilson_interval(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson score interval of a rate; ``z`` = 1.96 is 95 %. ``trials`` > 0."""
    assert 0 <= successes <= trials, f"{successes} successes of {trials} trials"
    assert trials > 0, "an interval needs a trial"
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # The ends are exact where nothing or everything succeeded; rounding must not push them outside 0..1.
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == trials else (centre + spread) / scale
    return low, high
