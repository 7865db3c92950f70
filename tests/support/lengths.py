"""Rounds of a pair whose acceptance and costs are known, without models: for what chooses their length.

Time is what the costs say, with noise, and for each round all numbers are drawn whatever its length, so runs
of different lengths differ by their lengths only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from engine.adaptive import LengthChooser
from engine.costs import ROWS, Costs, DraftCost, RoundCost
from engine.events import DraftToken, Origin, Round, TargetToken, Verdict

T1_MS = 20.0
Odds = Callable[[int, int], float]
"""The chance that a draft is right, by the position of the text and its place in the round (from 0)."""
Finds = Callable[[int, int], int]
"""How many drafts come, by the position of the text and how many were asked for."""


def drafter_costs(c: float, growth: float, *, lookup: bool = False, host: float = 0.01) -> Costs:
    """Costs of a pair.

    Args:
        c: drafting a token over a plain step; of a lookup, drafting as many as may be.
        growth: of r, for each row.
        host: of a round beyond a plain step.
    """
    lengths = (1, 2, 4, 8, 16)
    return Costs(
        context_length=100,
        plain_pass_ms=0.95 * T1_MS,
        plain_host_ms=0.05 * T1_MS,
        rounds=tuple(
            RoundCost(rows, T1_MS * (0.95 + growth * (rows - 1)), T1_MS * (0.05 + host * (rows > 1)))
            for rows in ROWS
        ),
        drafts=tuple(DraftCost("", k, c * T1_MS * (1 if lookup else k)) for k in lengths),
        took_ms=1.0,
    )


@dataclass
class Scenario:
    """A text to come, and a drafter for it."""

    costs: Costs
    odds: Odds
    finds: Finds = lambda position, asked: asked
    tokens: int = 800
    really: Costs | None = None
    """What things cost, where the calibration was wrong or is no longer true."""
    catch_up: float = 0.0
    """Plain steps that the drafter needs to read a token that it did not draft for."""


@dataclass
class Told:
    """What a run came to."""

    ms: float = 0.0
    tokens: int = 0
    lengths: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    @property
    def ms_a_token(self) -> float:
        return self.ms / self.tokens


def run(scenario: Scenario, chooser: LengthChooser, seed: int = 0) -> Told:
    """Write the text with the lengths that are chosen."""
    chance, told, unread = random.Random(seed), Told(), 0
    chooser.calibrated(scenario.costs)
    while told.tokens < scenario.tokens:
        k, reason = chooser.choose(scenario.tokens - told.tokens - 1)
        given = min(k, scenario.finds(told.tokens, k)) if k else 0
        accepted = _accepted(scenario.odds, told.tokens, given, random.Random(f"{seed} {told.tokens}"))
        really = scenario.really or scenario.costs
        catching_up = scenario.catch_up * unread * T1_MS if k else 0.0
        unread = 0 if k else unread + 1
        noise = chance.lognormvariate(0.0, 0.05)
        pass_ms = really.pass_ms(given + 1)
        beside = really.round_ms(k, given) - pass_ms
        round_ = simulated(
            k, given, accepted, pass_ms * noise, beside * noise + catching_up, number=len(told.rounds) + 1
        )
        chooser.observe(round_)
        told.rounds.append(round_)
        told.ms += round_.ms
        told.tokens += len(round_.tokens)
        told.lengths.append(k)
        told.reasons.append(reason)
    return told


def _accepted(odds: Odds, position: int, given: int, chance: random.Random) -> int:
    for place in range(given):
        if chance.random() >= odds(position, place):
            return place
    return given


def simulated(
    k: int, given: int, accepted: int, verify_ms: float, draft_ms: float = 0.0, *, number: int = 1
) -> Round:
    """A round with these counts and times."""
    verdicts = [Verdict.ACCEPTED] * accepted
    if accepted < given:
        verdicts += [Verdict.REJECTED, *[Verdict.IGNORED] * (given - accepted - 1)]
    origin = Origin.BONUS if accepted == given else Origin.CORRECTION
    return Round(
        seq=number,
        t_ns=0,
        number=number,
        settings_id=1,
        context_length=100,
        k=k,
        k_reason="",
        drafts=tuple(DraftToken(0, b"a", 1.0, 1.0, None, verdict) for verdict in verdicts),
        p_top=((),) * (given + 1),
        n_accepted=accepted,
        target=TargetToken(0, b"a", origin, 1.0, None if accepted == given else 1.0),
        tokens=(0,) * (accepted + 1),
        text="a" * (accepted + 1),
        cut=None,
        taken_back=0,
        draft_ms=draft_ms,
        verify_ms=verify_ms,
        host_ms=0.0,
    )


def total_ms(scenario: Scenario, make: Callable[[], LengthChooser], seeds: Iterable[int]) -> float:
    """Time for the text, over some draws of what is accepted."""
    return sum(run(scenario, make(), seed).ms_a_token for seed in seeds)
