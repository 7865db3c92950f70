"""What a bench measured: a cell for each arm, over all prompts and over those of a category; torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from engine.bench.trials.bootstrap import RESAMPLES, Interval, ratio_of_sums
from engine.bench.trials.plan import Arm, K, Kind, Plan
from engine.bench.trials.units import ArmTrial, Unit, compared, summed


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
    rounds: int
    speedup: Interval | None
    """Time of plain decoding / time of this arm, summed over the prompts; decoding only."""
    tau: float | None
    alpha_hat: float | None
    draft_efficiency: float | None
    acceptance_by_position: tuple[float, ...]
    """r_1, r_2, ...; empty where nothing was drafted."""
    draft_ms_per_round: float | None
    verify_ms_per_round: float | None
    host_ms_per_round: float | None
    tokens_per_second: float | None
    baseline_tokens_per_second: float | None
    predicted_speedup: float | None
    """By costs that were calibrated before each run."""
    prediction_error: float | None
    """Median over the prompts of |predicted - measured| / measured."""
    best_k: int | None
    """The K with the largest predicted speedup for all these prompts, by the newest costs."""
    compared: int
    """Answers that have to be plain decoding's, token for token."""
    identical: float | None
    """Share of them that are; None where chance decides."""
    ties: int
    """Those that part from it first at a token which rounding may choose; looked at in float32 only."""
    first_difference: int | None
    """The earliest token, from 0, at which an answer parts from it."""
    ttft_ms: float | None
    """Median over the runs."""
    dtype: str
    """Number format of the target."""
    digest: str
    """SHA-256 of its answers' ids, shortened."""

    @property
    def loses(self) -> bool:
        """Whether it is slower than plain decoding, as far as two digits show it."""
        return self.kind == "speculative" and self.speedup is not None and round(self.speedup.value, 2) < 1

    @property
    def unexplained(self) -> int:
        """Answers in float32 that are not plain decoding's though no tie explains it: a fault somewhere."""
        if self.identical is None or self.dtype != "float32":
            return 0
        return self.compared - round(self.compared * self.identical) - self.ties


@dataclass(frozen=True, slots=True)
class Choice:
    """Which K a configuration should have had, known afterwards. Speedups are times plain decoding."""

    configuration: str
    rule: str
    temperature: float | None
    static_k: int
    """The best fixed K of those run, over all prompts; 0 where plain decoding is faster than each."""
    static_speedup: float
    adaptive_speedup: float | None
    """Of "auto"; None where it was not run."""
    adaptive_over_static: Interval | None
    """How many times as fast "auto" is as the best fixed K."""
    oracle_speedup: float | None
    """By costs, had each round of the largest fixed K asked for just the drafts that stood: no rule that does
    not look ahead can do better. None where nothing was calibrated."""


@dataclass(frozen=True, slots=True)
class Results:
    """Everything."""

    cells: tuple[Cell, ...]
    """Over all prompts, in the order of the plan's arms."""
    by_category: tuple[Cell, ...]
    """Where there are several categories: by category, then as the arms."""
    choices: tuple[Choice, ...]


def results_of(plan: Plan, units: Sequence[Unit]) -> Results:
    """Sum up what was measured."""
    cells = tuple(cell_of(plan, arm, units) for arm in plan.arms)
    categories = tuple(dict.fromkeys(unit.category for unit in units))
    by_category = tuple(
        cell_of(plan, arm, [unit for unit in units if unit.category == category], category)
        for category in (categories if len(categories) > 1 else ())
        for arm in plan.arms
    )
    return Results(cells, by_category, tuple(_choices(plan, cells, units)))


def cell_of(
    plan: Plan, arm: Arm, units: Sequence[Unit], category: str = "", *, resamples: int = RESAMPLES
) -> Cell:
    """What an arm came to over these units, one at least.

    Args:
        resamples: of the interval; 0 leaves it out.
    """
    trials = [unit.of(arm.name) for unit in units]
    references = [unit.of(arm.plain) for unit in units]
    total = compared(trials, references)
    measures = total.as_dict()
    errors = [
        error
        for own, plain in _by_question(arm.name, arm.plain, units)
        if (error := compared(own, plain).prediction_error) is not None
    ]
    ttft = [ms for trial in trials for ms in trial.ttft_ms]
    many = sum(trial.compared for trial in trials)
    parted = [trial.first_difference for trial in trials if trial.first_difference is not None]
    return Cell(
        arm=arm.name,
        kind=arm.kind,
        configuration=arm.configuration,
        k=arm.k,
        rule=arm.rule,
        temperature=arm.temperature,
        category=category,
        questions=len({unit.question for unit in units}),
        tokens=total.tokens,
        rounds=total.rounds,
        speedup=_times_as_fast(arm.name, arm.plain, units, plan.seed, resamples),
        acceptance_by_position=tuple(total.acceptance_by_position or ()),
        **{name: measures[name] for name in _MEASURES},
        prediction_error=median(errors) if errors else None,
        best_k=total.best_k,
        compared=many,
        identical=sum(trial.identical for trial in trials) / many if many else None,
        ties=sum(trial.ties for trial in trials),
        first_difference=min(parted, default=None),
        ttft_ms=median(ttft) if ttft else None,
        dtype=trials[0].dtype,
        digest=_joined(trial.digest for trial in trials),
    )


_MEASURES = (
    *("tau", "alpha_hat", "draft_efficiency", "tokens_per_second", "baseline_tokens_per_second"),
    *("predicted_speedup", "draft_ms_per_round", "verify_ms_per_round", "host_ms_per_round"),
)
"""What a cell takes from the sums as they are."""


def _times_as_fast(arm: str, other: str, units: Sequence[Unit], seed: int, resamples: int) -> Interval | None:
    """Time a token of another arm over that of an arm, summed over the prompts.

    The answers to a prompt have one length, so that ratio is that of the times. A peer's may be longer: its
    time is brought to the length of the other's.
    """
    pairs = []
    for own, others in _by_question(arm, other, units):
        mine, theirs = summed(own), summed(others)
        scale = theirs.tokens / mine.tokens if mine.tokens else 1.0
        pairs.append((theirs.decode_ms, mine.decode_ms * scale))
    return ratio_of_sums(pairs, seed=seed, resamples=resamples)


def _by_question(
    arm: str, other: str, units: Sequence[Unit]
) -> Iterator[tuple[list[ArmTrial], list[ArmTrial]]]:
    """What two arms did with each prompt, all its repeats together."""
    for question in dict.fromkeys(unit.question for unit in units):
        of_question = [unit for unit in units if unit.question == question]
        yield [unit.of(arm) for unit in of_question], [unit.of(other) for unit in of_question]


def _choices(plan: Plan, cells: Sequence[Cell], units: Sequence[Unit]) -> Iterator[Choice]:
    """For each configuration, rule and temperature of which several K were run."""
    groups: dict[tuple[str, str, float | None], list[Cell]] = {}
    for cell in cells:
        if cell.kind == "speculative" and cell.speedup is not None:
            groups.setdefault((cell.configuration, cell.rule, cell.temperature), []).append(cell)
    for (configuration, rule, temperature), group in groups.items():
        fixed = [cell for cell in group if isinstance(cell.k, int)]
        if len(group) < 2 or not fixed:
            continue
        best = max(fixed, key=_speedup)
        adaptive = next((cell for cell in group if cell.k == "auto"), None)
        pays = _speedup(best) > 1
        chosen = best.arm if pays else plan.arm(best.arm).plain
        yield Choice(
            *(configuration, rule, temperature),
            static_k=best.k if pays and isinstance(best.k, int) else 0,
            static_speedup=_speedup(best) if pays else 1.0,
            adaptive_speedup=None if adaptive is None else _speedup(adaptive),
            adaptive_over_static=None
            if adaptive is None
            else _times_as_fast(adaptive.arm, chosen, units, plan.seed, RESAMPLES),
            oracle_speedup=_oracle(max(fixed, key=lambda cell: cell.k).arm, units),
        )


def _oracle(arm: str, units: Sequence[Unit]) -> float | None:
    trials = [unit.of(arm) for unit in units]
    ms = sum(trial.oracle_ms for trial in trials)
    return sum(trial.oracle_plain_ms for trial in trials) / ms if ms else None


def _speedup(cell: Cell) -> float:
    assert cell.speedup is not None, "a cell of a choice was measured"
    return cell.speedup.value


def _joined(digests: Iterator[str]) -> str:
    """One short hash of several."""
    from hashlib import sha256

    return sha256(" ".join(digests).encode()).hexdigest()[:12]
