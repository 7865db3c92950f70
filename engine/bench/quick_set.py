"""Rows from the trials of the quick set: how well speedups are predicted, and what choosing K brings.

One load of the target in bfloat16, with the lookup drafter, which costs next to nothing and is right on some
texts only, so the K that is best differs most from text to text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from statistics import median

from engine.bench.lab import Lab
from engine.bench.report import Row, ratio_row
from engine.bench.timing import median_ratio
from engine.bench.trials.build import plan_of, quick_ks, quick_plan, takes_auto
from engine.bench.trials.cells import Cell, Results
from engine.bench.trials.events import Finished
from engine.bench.trials.plan import Plan
from engine.bench.trials.run import run_trials
from engine.bench.trials.tables import times
from engine.bench.trials.units import Unit
from engine.config import Config
from engine.session import Session

UNPREDICTABLE = "unpredictable"
"""The category whose text no drafter can guess; it is drawn at temperature 1, as a small model that takes the
likeliest token repeats itself."""
LABEL = "lookup"


def quick_rows(lab: Lab) -> Iterator[Row]:
    """The quick set, and the adversarial text; rows about adaptive K where the configuration takes it."""
    setup = lab.setup
    config = _config(lab)
    plan = quick_plan({LABEL: config}, setup.questions, ks=setup.quick_ks or quick_ks([config]))
    with closing(Session(config)) as session:
        session.load()
        yield from quick_set_rows(_run(session, plan)[0])
        if takes_auto(config):
            chosen = [each for each in setup.questions if each.category == UNPREDICTABLE][:1]
            tokens, repeats = setup.adversarial_tokens, setup.adversarial_repeats
            plan = plan_of(
                {LABEL: config}, chosen, ks=("auto",), temperatures=(1.0,), tokens=tokens, repeats=repeats
            )
            yield adversarial_row(plan, _run(session, plan)[1])


def quick_set_rows(results: Results) -> Iterator[Row]:
    """What the quick set says."""
    fixed = [cell for cell in results.by_category if _is_fixed(cell)]
    errors = [cell.prediction_error for cell in fixed if cell.prediction_error is not None]
    signs = [
        cell.predicted_speedup / cell.speedup.value
        for cell in fixed
        if cell.predicted_speedup is not None and cell.speedup is not None
    ]
    yield Row(
        *("prediction error, quick set", 100 * median(errors) if errors else None, "%"),
        at_most=10,
        note=f"median of {len(errors)}: prompts by K; worst {100 * max(errors):.0f} %, predicted / measured "
        f"{median(signs):.2f}"
        if errors
        else "nothing was calibrated",
    )
    for choice in results.choices:
        over = choice.adaptive_over_static
        if over is not None:
            yield Row(
                *("adaptive K / static best K, quick set", over.value, "x"),
                at_least=0.95,
                low=over.low,
                high=over.high,
                note=f"auto {times(choice.adaptive_speedup)}; best fixed K {choice.static_k}, "
                f"{times(choice.static_speedup)}",
                k=choice.static_k,
            )


def adversarial_row(plan: Plan, units: Sequence[Unit]) -> Row:
    """Adaptive K on a text that no drafter can guess, by the median of the pairs A B B A."""
    plain, auto = (arm.name for arm in plan.arms)
    ratios = [unit.of(plain).counts.decode_ms / unit.of(auto).counts.decode_ms for unit in units]
    rounds = sum(unit.of(auto).counts.rounds for unit in units)
    drafted = sum(unit.of(auto).counts.drafted for unit in units)
    return ratio_row(
        "adaptive K / plain, unpredictable text",
        median_ratio(ratios),
        0.97,
        f"{len(ratios)} pairs A B B A; {drafted / rounds:.2f} drafts a round",
    )


def _is_fixed(cell: Cell) -> bool:
    return cell.kind == "speculative" and cell.k != "auto"


def _run(session: Session, plan: Plan) -> tuple[Results, list[Unit]]:
    units: list[Unit] = []
    for event in run_trials(lambda _: session, plan, keep=units.append):
        if isinstance(event, Finished):
            return event.results, units
    raise AssertionError("nobody cancels it")


def _config(lab: Lab) -> Config:
    return Config.model_validate(
        {
            "draft": {"method": "lookup"},
            "verify": {"model_name": lab.setup.target},
            "sampling": {"temperature": 0},
            "run": {"device": "cpu", "dtype": lab.dtype, "optimize": lab.setup.optimize},
        }
    )
