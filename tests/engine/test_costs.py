"""Costs between and beyond the widths that were measured, and the figures made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.costs import Costs, DraftCost, RoundCost, interpolated

COSTS = Costs(
    context_length=100,
    plain_pass_ms=9.0,
    plain_host_ms=1.0,
    rounds=(RoundCost(1, 9.0, 1.0), RoundCost(3, 10.0, 2.0), RoundCost(5, 14.0, 3.0)),
    drafts=(DraftCost("", 1, 2.0), DraftCost("", 4, 8.0)),
    took_ms=50.0,
)


def test_between_points_there_are_straight_lines() -> None:
    points = [(1, 10.0), (3, 20.0), (5, 40.0)]
    assert [interpolated(points, at) for at in (0, 1, 2, 3, 4, 5)] == [10, 10, 15, 20, 30, 40]
    assert interpolated(points, 7) == 60, "beyond the last one its slope goes on"
    assert interpolated([(1, 10.0), (3, 8.0)], 9) == 8, "noise makes nothing cheaper without end"
    assert interpolated([(4, 3.0)], 1) == interpolated([(4, 3.0)], 9) == 3


def test_the_figures() -> None:
    assert COSTS.t1_ms == 10
    assert COSTS.pass_ms(2) == 9.5
    assert COSTS.r(1) == 1
    assert COSTS.r(5) == 1.5
    assert COSTS.o(0) == 0
    assert COSTS.o(2) == pytest.approx(0.1)
    assert COSTS.c() == 0.2
    assert COSTS.draft_ms(0) == 0
    assert COSTS.draft_ms(3) == 6
    assert COSTS.round_ms(4, 4) == 8 + 14 + 3
    assert COSTS.round_ms(4, 0) == 8 + 9 + 1, "a drafter that finds nothing has looked"


def test_parts_of_a_drafter_cost_by_themselves() -> None:
    parts = (DraftCost("lookup", 4, 0.1), DraftCost("model", 1, 2.0), DraftCost("model", 4, 8.0))
    hybrid = replace(COSTS, drafts=parts)
    assert hybrid.sources == ("lookup", "model")
    assert hybrid.c() == hybrid.c("model") == 0.2
    assert hybrid.c("lookup") == 0.01
    assert hybrid.draft_ms(4, "model") == 8
    assert hybrid.draft_ms(4) == 0.1, "who gave nothing was not named: it looked up"


def test_a_drafter_that_could_not_guess_has_no_cost() -> None:
    silent = replace(COSTS, drafts=())
    assert silent.c() is None
    assert silent.draft_ms(4) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        replace(COSTS, rounds=()),
        replace(COSTS, rounds=(RoundCost(0, 1.0, 1.0),)),
        replace(COSTS, rounds=(RoundCost(3, 1.0, 1.0), RoundCost(1, 1.0, 1.0))),
        replace(COSTS, rounds=(RoundCost(1, -1.0, 1.0),)),
        replace(COSTS, plain_pass_ms=0.0, plain_host_ms=0.0),
        replace(COSTS, plain_pass_ms=-1.0, plain_host_ms=2.0),
        replace(COSTS, drafts=(DraftCost("", 0, 1.0),)),
        replace(COSTS, drafts=(DraftCost("", 4, 1.0), DraftCost("", 1, 1.0))),
        replace(COSTS, drafts=(DraftCost("", 1, -1.0),)),
        replace(COSTS, bandwidth_gbs=1.0, copy_gbs=0.0),
        replace(COSTS, bandwidth_gbs=-1.0),
    ],
)
def test_what_cannot_be_costs(wrong: Costs) -> None:
    assert COSTS.is_usable
    assert not wrong.is_usable
