"""Costs made by hand, and the event that tells of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from support.scripted import make_round

from engine.costs import ROWS, Costs, DraftCost, RoundCost
from engine.events import BaselineFinished, Calibrated, EndReason, Round, RunFinished
from engine.stats import Statistics

T1_MS = 40.0
"""A plain step."""


def costs(
    c: float = 0.1,
    growth: float = 0.03,
    *,
    host_ms: float = 0.0,
    source: str = "",
    context_length: int = 3,
    t1_ms: float = T1_MS,
) -> Costs:
    """A drafted token costs ``c`` plain steps, each row of a pass more ``growth`` of them.

    Args:
        host_ms: of a round, beyond that of a plain step (1 ms).
    """
    rounds = tuple(
        RoundCost(rows, (1 + growth * (rows - 1)) * t1_ms - 1.0, 1.0 + (host_ms if rows > 1 else 0.0))
        for rows in ROWS
    )
    drafts = tuple(DraftCost(source, k, k * c * t1_ms) for k in (1, 2, 4, 8, 16))
    return Costs(context_length, t1_ms - 1.0, 1.0, rounds, drafts, 400.0, 12.0, 15.0)


def calibrated(measured: Costs | None = None, settings_id: int = 1, reason: str = "start") -> Calibrated:
    return Calibrated(0, 0, settings_id, measured or costs(), reason)


def statistics_of(
    rounds: Iterable[Round], measured: Costs | None = None, speedup: float | None = None
) -> Statistics:
    """Of rounds that came after a calibration; with a ``speedup``, also after a baseline that makes it."""
    stats = Statistics(costs=measured)
    for round_ in rounds:
        stats.add(round_)
    if speedup is not None:
        tokens = stats.tokens
        stats.set_run(RunFinished(0, 0, EndReason.ROUNDS, "", tokens, 1.0, 1.0, 10.0 * tokens))
        stats.set_baseline(
            BaselineFinished(0, 0, tokens, (), 10.0 * tokens * speedup, 1.0, None, None, complete=True)
        )
    return stats


def drawn_rounds(count: int, k: int, alpha: float, seed: int = 1) -> list[Round]:
    """Rounds of K drafts, each of them right with chance ``alpha``."""
    chance = random.Random(seed)
    return [
        make_round(number, k, next((at for at in range(k) if chance.random() >= alpha), k))
        for number in range(1, count + 1)
    ]


def short(round_: Round, asked: int) -> Round:
    """The round had asked for more drafts than came."""
    return replace(round_, k=asked)
