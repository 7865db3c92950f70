"""Costs made by hand, and the event that tells of them."""

from __future__ import annotations

from engine.costs import ROWS, Costs, DraftCost, RoundCost
from engine.events import Calibrated

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
