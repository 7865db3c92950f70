"""The speedup formula against values worked out by hand, and against the table of best K."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import calibrated
from support.scripted import make_round

from engine.costs import MOST_DRAFTS, ROWS, Costs, DraftCost, RoundCost
from engine.events import EndReason
from engine.predictor import best, break_even_alpha, curve, survival, tau
from engine.stats import RoundShape, Statistics

ROUNDS = 10**24
GROWTH = 0.03
"""Of r, a row."""


def costs(c: float, growth: float = GROWTH) -> Costs:
    """A plain step takes 1 ms, all of it the pass."""
    rounds = tuple(RoundCost(rows, 1 + growth * (rows - 1), 0.0) for rows in ROWS)
    drafts = (DraftCost("", 1, c), DraftCost("", 16, 16 * c))
    return Costs(100, 1.0, 0.0, rounds, drafts, took_ms=0.0)


def accepting(alpha: float, k: int, rounds: int = ROUNDS) -> Statistics:
    """What rounds of K drafts come to if each draft is accepted with the same chance."""
    reached = [round(rounds * alpha**i) for i in range(1, k + 1)]
    before = [rounds, *reached]
    return Statistics(
        rounds=rounds,
        emitted=rounds + sum(reached),
        accepted=sum(reached),
        drafted=rounds * k,
        rejections=rounds - reached[-1],
        reached=reached,
        rejected_at=[before[i] - before[i + 1] for i in range(k)],
        ended_at=[0] * k,
        shapes=[RoundShape(k, k, "", rounds)],
    )


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.5, "4:1.73 3:1.51 2:1.39 1:1.22 1:1.09 0:1.00 0:1.00"),
        (0.7, "7:2.60 5:2.10 4:1.82 2:1.50 2:1.24 1:1.11 0:1.00"),
        (0.8, "10:3.52 6:2.67 5:2.24 4:1.75 2:1.39 2:1.18 0:1.00"),
        (0.9, "16:5.63 11:3.82 8:3.00 6:2.19 4:1.63 3:1.33 1:1.04"),
    ],
)
def test_the_table_of_best_k(alpha: float, expected: str) -> None:
    found = []
    for c in (0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8):
        point = best(curve(accepting(alpha, MOST_DRAFTS), costs(c)))
        found.append(f"{point.k}:{point.speedup:.2f}")
    assert " ".join(found) == expected


def test_leviathan_s_formula() -> None:
    """Theorem 3.8: (1 - a^(K+1)) / ((1 - a) (K c + 1)), where the pass does not grow."""
    points = curve(accepting(0.6, 8), costs(0.1, growth=0.0), 8)
    for k in range(1, 9):
        assert points[k].tau == pytest.approx((1 - 0.6 ** (k + 1)) / 0.4)
        assert points[k].speedup == pytest.approx(points[k].tau / (0.1 * k + 1))


def test_positions_that_were_not_seen_have_the_rate_of_the_others() -> None:
    points = curve(accepting(0.5, 2, 64), costs(0.0), 4)
    assert [point.observed for point in points] == [True, True, True, False, False]
    assert survival(accepting(0.5, 2, 64), 4) == pytest.approx([0.5, 0.25, 0.125, 0.0625])


def test_a_drafter_that_gives_less_than_it_is_asked_for() -> None:
    """Half of the rounds give nothing: they cost a plain round, and no larger K changes that."""
    stats = Statistics(
        rounds=8,
        emitted=16,
        accepted=8,
        drafted=8,
        reached=[4, 4],
        rejected_at=[0, 0],
        ended_at=[4, 0],
        shapes=[RoundShape(2, 0, "", 4), RoundShape(2, 2, "", 4)],
    )
    stats.check_identities()
    points = curve(stats, costs(0.0), 4)
    assert points[2].tau == 2
    assert points[2].speedup == pytest.approx(2 / (1 + GROWTH))
    assert points[1].tau == 1.5
    # Positions 3 and 4 have the rate of all, 8 of 12; a round that gave both drafts would give four.
    assert points[4].tau == pytest.approx(1 + 0.5 + 0.5 + 1 / 3 + 2 / 9)
    assert points[4].speedup == pytest.approx(points[4].tau / (1 + 2 * GROWTH))


def test_rounds_of_several_k_are_no_bias() -> None:
    """Rounds that asked for one draft say nothing about the second position."""
    stats = accepting(0.5, 2, 64)
    stats.merge(accepting(0.5, 1, 64))
    assert survival(stats, 2) == pytest.approx([0.5, 0.25])


def test_nothing_asked_for_is_plain_decoding() -> None:
    stats = Statistics(rounds=3, emitted=3, shapes=[RoundShape(0, 0, "", 3)])
    assert [(point.k, point.speedup) for point in curve(stats, costs(0.1))] == [(0, 1.0)]
    assert curve(Statistics(), costs(0.1)) == curve(stats, costs(0.1))


@pytest.mark.parametrize("k", [1, 2, 5, 16])
@pytest.mark.parametrize("c", [0.0, 0.05, 0.3])
def test_break_even(k: int, c: float) -> None:
    priced = costs(c)
    alpha = break_even_alpha(priced, k)
    assert alpha is not None
    if k == 1:
        assert alpha == pytest.approx(c + priced.r(2) - 1)
    assert tau(alpha, k) == pytest.approx(k * c + priced.r(k + 1))


def test_no_alpha_pays_for_a_drafter_as_dear_as_the_target() -> None:
    assert break_even_alpha(costs(1.1), 1) is None
    assert break_even_alpha(costs(0.0, growth=0.0), 4) == 0


def test_tokens_that_were_taken_back_are_not_predicted() -> None:
    """The measured speedup is of those that stayed."""
    price = calibrated.costs()
    last = make_round(3, 3, 3, keep=0, cut=EndReason.STOP)
    rounds = [make_round(1, 3, 3), make_round(2, 3, 1), replace(last, taken_back=2)]
    stats = calibrated.statistics_of(rounds, price, speedup=1.5)
    assert (stats.emitted, stats.tokens) == (6, 4)
    took = sum(price.of_round(round_) for round_ in rounds)
    assert stats.predicted_speedup == pytest.approx(4 * price.t1_ms / took)
    none_left = calibrated.statistics_of([rounds[1], rounds[2]], price)
    assert none_left.tokens == 0
    assert none_left.predicted_speedup is None
