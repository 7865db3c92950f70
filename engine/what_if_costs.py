"""Costs as they were not measured, to ask what would be if they were; torch-free."""

from __future__ import annotations

from dataclasses import replace

from engine.costs import Costs, DraftCost, RoundCost


def with_draft_cost(costs: Costs, c: float) -> Costs:
    """A drafted token costs ``c`` plain steps, however many are drafted."""
    sources = costs.sources or ("",)
    drafts = tuple(DraftCost(source, 1, c * costs.t1_ms) for source in sources)
    more = tuple(DraftCost(source, 2, 2 * c * costs.t1_ms) for source in sources)
    both = sorted((*drafts, *more), key=lambda cost: (cost.source, cost.drafts))
    return replace(costs, drafts=tuple(both))


def scaled(costs: Costs, *, drafting: float = 1.0, growth: float = 1.0) -> Costs:
    """Costs of which parts are multiplied.

    Args:
        drafting: factor of D(K).
        growth: factor of what each further row adds to a pass.
    """
    one = costs.pass_ms(1)
    return replace(
        costs,
        drafts=tuple(replace(cost, ms=cost.ms * drafting) for cost in costs.drafts),
        rounds=tuple(
            RoundCost(cost.rows, max(one + (cost.pass_ms - one) * growth, 0.0), cost.host_ms)
            for cost in costs.rounds
        ),
    )
