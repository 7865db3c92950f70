"""What a bench measured: a cell for each arm, over all prompts and over those of a category; torch-free."""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.trials.plan import K, Kind


@dataclass(frozen=True, slots=True)
class Interval:
    """A measure with its 95 % bootstrap interval over the prompts."""

    value: float
    low: float | None = None
    """None with fewer than two prompts: nothing can be resampled."""
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """An arm over some prompts. Rates are fractions 0..1; None is not measured."""

    arm: str
    """Its name in the plan."""
    kind: Kind
    configuration: str
    k: K
    rule: str
    temperature: float | None
    category: str
    """"" for all prompts together."""
    questions: int
    """How many of them are in it."""
    tokens: int
    """Of all its answers."""
    speedup: Interval | None
    """Time of plain decoding / time of this arm, summed over the prompts; decoding only."""
    tau: float | None
    alpha_hat: float | None
    draft_efficiency: float | None
    tokens_per_second: float | None
    baseline_tokens_per_second: float | None
    predicted_speedup: float | None
    """By costs that were calibrated before each run."""
    prediction_error: float | None
    """Median over the prompts of |predicted - measured| / measured."""
    best_k: int | None
    """Median over the prompts of the K with the largest predicted speedup."""
    identical: float | None
    """Share of the answers that are plain decoding's, token for token; None where chance decides."""
    ties: int
    """Answers that differ from it first at a token which rounding may choose."""
    first_difference: int | None
    """The earliest token, from 0, at which an answer parts from it."""
    ttft_ms: float | None
    """Median."""

    @property
    def loses(self) -> bool:
        """Whether it is slower than plain decoding."""
        return self.speedup is not None and self.speedup.value < 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Which K a configuration should have had, known afterwards."""

    configuration: str
    rule: str
    temperature: float | None
    static_k: int
    """The best fixed K of those run, over all prompts; 0 where plain decoding is faster than each."""
    static_speedup: float
    adaptive_speedup: float | None
    """Of "auto"; None where it was not run."""
    adaptive_over_static: Interval | None


@dataclass(frozen=True, slots=True)
class Results:
    """Everything."""

    cells: tuple[Cell, ...]
    """Over all prompts, in the order of the plan's arms."""
    by_category: tuple[Cell, ...]
    choices: tuple[Choice, ...]
