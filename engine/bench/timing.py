"""Arms against each other: interleaved, on every prompt, judged by the median of the ratios."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from engine.bench.arms import Arm
from engine.bench.clock import Timed

RESAMPLES = 2000
WARM_UP_TOKENS = 32
"""More than any first round commits, so that a second one follows."""


@dataclass(frozen=True, slots=True)
class Block:
    """One prompt, decoded by every arm twice, in the order A B B A."""

    prompt: tuple[int, ...]
    timed: dict[str, tuple[Timed, Timed]]
    """By the arm's name."""

    def ms(self, arm: str) -> float:
        """Milliseconds a token of an arm."""
        return fmean(each.ms_per_token for each in self.timed[arm])

    def ratio(self, arm: str, other: str) -> float:
        """How many times as fast an arm is as another one."""
        return self.ms(other) / self.ms(arm)


def interleave(
    arms: Sequence[Arm], prompts: Sequence[Sequence[int]], tokens: int, repeats: int = 1
) -> list[Block]:
    """Decode every prompt by all arms, forth and back, ``repeats`` times, after warming each arm up."""
    for arm in arms:
        arm.decode(prompts[0], WARM_UP_TOKENS)
    blocks = []
    for _ in range(repeats):
        for prompt in prompts:
            forth = [arm.decode(prompt, tokens) for arm in arms]
            back = [arm.decode(prompt, tokens) for arm in reversed(arms)]
            pairs = zip(arms, forth, reversed(back), strict=True)
            blocks.append(Block(tuple(prompt), {arm.name: (first, second) for arm, first, second in pairs}))
    return blocks


def fastest(
    make: Callable[[int], Arm], ks: Sequence[int], prompts: Sequence[Sequence[int]], tokens: int
) -> int:
    """The K of the arm that writes the tuning prompts fastest."""
    by_name = {f"K = {k}": k for k in ks}
    arms = [Arm(name, make(k).decode) for name, k in by_name.items()]
    blocks = interleave(arms, prompts, tokens)
    return by_name[min(by_name, key=lambda name: sum(block.ms(name) for block in blocks))]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


def median_ratio(ratios: Sequence[float]) -> Estimate:
    """The median, and its percentile bootstrap interval over the blocks (prompts and repeats)."""
    chance = random.Random(0)
    medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Estimate(median(ratios), medians[RESAMPLES // 40], medians[-1 - RESAMPLES // 40])
