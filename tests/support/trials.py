"""Units as a bench measures them, without a bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.scripted import make_round
from support.sessions import configured

from engine.bench.trials.build import plan_of
from engine.bench.trials.plan import Plan
from engine.bench.trials.questions import Question
from engine.bench.trials.units import ArmTrial, Unit
from engine.stats import Statistics, Timing

ONE = Question("1", "chat", ("Why did the knight stop?",))
TWO = Question("2", "repeat", ("Repeat: the river took the bridge.", "Once more."))


def small_plan(
    target: str, ks: Sequence[int] = (2, 4), questions: Sequence[Question] = (ONE, TWO), **more: Any
) -> Plan:
    """A configuration named "mine", plainly and with some K; 6 tokens, once."""
    asked = {"tokens": 6, "repeats": 1, **more}
    return plan_of({"mine": configured(target)}, questions, ks=ks, **asked)


def unit_of(
    plan: Plan, question: Question, ms: Mapping[str, float], *, repeat: int = 1, tokens: int = 10
) -> Unit:
    """A unit in which each arm took so many milliseconds for the same number of tokens.

    Args:
        ms: by the arm's name; the arms of the plan, all of them.
    """
    return Unit(
        question.id,
        question.category,
        repeat,
        tuple(trial_of(arm.name, ms[arm.name], tokens) for arm in plan.arms),
        seconds=1.0,
    )


def trial_of(arm: str, ms: float, tokens: int = 10, *, rounds: int = 0, identical: int = 2) -> ArmTrial:
    """What an arm did: plain steps, or rounds of 2 drafts of which one is accepted."""
    counts = Statistics(emitted=tokens)
    if rounds:
        counts = Statistics()
        for number in range(1, rounds + 1):
            counts.add(make_round(number, 2, 1))
    counts.timing = Timing(ms, None)
    return ArmTrial(arm, counts, (ms / 10,), compared=2, identical=identical, dtype="float32", digest="abc")
