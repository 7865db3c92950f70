"""What is measured before it is summed up: one prompt, once forth and back, by all arms; torch-free.

A unit is also what is kept when a bench is stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.costs import Costs
from engine.event_json import from_json, plain
from engine.stats import Baseline, Statistics, Timing


@dataclass(frozen=True, slots=True)
class ArmTrial:
    """What an arm did with a prompt: forth and back, every turn."""

    arm: str
    counts: Statistics
    """Of its rounds, or of its plain steps; ``timing`` is the sum of its runs' decoding."""
    ttft_ms: tuple[float, ...] = ()
    """Of each run; none for a peer."""
    costs: Costs | None = None
    """By which its newest rounds were predicted."""
    compared: int = 0
    """Answers that have to be plain decoding's, token for token."""
    identical: int = 0
    """Those that are."""
    ties: int = 0
    """Those that part from it first at a token which rounding may choose; looked at in float32 only."""
    first_difference: int | None = None
    """The earliest token, from 0, at which one parts from it."""
    dtype: str = ""
    """Number format of the target: only in float32 is a difference a fault."""
    oracle_ms: float = 0.0
    """What its tokens would have taken by the costs, had each round asked for just the drafts that stood."""
    oracle_plain_ms: float = 0.0
    """What they would have taken in plain decoding, by the same."""
    digest: str = ""
    """SHA-256 of the ids of its first answer, shortened."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A prompt, once forth and back, by all arms."""

    question: str
    """Its id."""
    category: str
    repeat: int
    """From 1."""
    arms: tuple[ArmTrial, ...]
    seconds: float
    """What all of it took."""

    @property
    def key(self) -> str:
        """Its name in the state file."""
        return key_of_unit(self.question, self.repeat)

    def of(self, arm: str) -> ArmTrial:
        """What an arm did. Raises KeyError."""
        for trial in self.arms:
            if trial.arm == arm:
                return trial
        raise KeyError(arm)


def key_of_unit(question: str, repeat: int) -> str:
    """The name of a prompt's n-th repeat."""
    return f"{question} x {repeat}"


def dump_unit(unit: Unit) -> dict[str, Any]:
    """A unit as JSON values."""
    value: dict[str, Any] = plain(unit)
    return value


def parse_unit(value: object) -> Unit:
    """The inverse. Raises ValueError, naming what does not fit."""
    return from_json(Unit, value)


def summed(trials: Iterable[ArmTrial]) -> Statistics:
    """All runs as one: counts and times added up, with the newest costs."""
    total, decode_ms, costs = Statistics(), 0.0, None
    for trial in trials:
        total.merge(trial.counts)
        decode_ms += trial.counts.decode_ms
        costs = trial.costs or costs
    total.timing, total.costs = Timing(decode_ms, None), costs
    return total


def compared(trials: Iterable[ArmTrial], plain_trials: Iterable[ArmTrial]) -> Statistics:
    """All runs as one, beside plain decoding of the same prompts."""
    total, reference = summed(trials), summed(plain_trials)
    total.baseline = Baseline(reference.tokens, reference.decode_ms, identical=None, complete=True)
    return total
