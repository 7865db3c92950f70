"""Arms against each other: interleaved, on every prompt, judged by the median of the ratios."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from engine.bench.arms import Arm
from engine.bench.clock import Timed
from engine.events import Round

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
    warm_up(arms, prompts[0])
    return [one_block(arms, prompt, tokens) for _ in range(repeats) for prompt in prompts]


def warm_up(arms: Sequence[Arm], prompt: Sequence[int]) -> None:
    """Let every arm do once what takes longer the first time."""
    for arm in arms:
        arm.decode(prompt, WARM_UP_TOKENS)


def one_block(arms: Sequence[Arm], prompt: Sequence[int], tokens: int) -> Block:
    """Decode a prompt by all arms, forth and back."""
    forth = [arm.decode(prompt, tokens) for arm in arms]
    back = [arm.decode(prompt, tokens) for arm in reversed(arms)]
    pairs = zip(arms, forth, reversed(back), strict=True)
    return Block(tuple(prompt), {arm.name: (first, second) for arm, first, second in pairs})


def rounds_of(blocks: Sequence[Block], arm: str) -> list[Round]:
    """All rounds of an arm; none for one that has no rounds."""
    return [round_ for block in blocks for timed in block.timed[arm] for round_ in timed.rounds]


def tokens_a_round(blocks: Sequence[Block], arm: str) -> float:
    """Mean of an arm that has rounds."""
    return fmean(len(round_.tokens) for round_ in rounds_of(blocks, arm))


def host_share(blocks: Sequence[Block], arm: str) -> tuple[float, float]:
    """Of the time of an arm's rounds, what the host takes, and its milliseconds a round."""
    rounds = rounds_of(blocks, arm)
    host = sum(round_.host_ms for round_ in rounds)
    return host / sum(round_.ms for round_ in rounds), host / len(rounds)


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
