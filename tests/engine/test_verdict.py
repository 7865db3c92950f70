"""The sentence that says why: gain or loss first, a reason that was measured, then what would help."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibrated import costs, drawn_rounds, short, statistics_of
from support.scripted import make_round

from engine.costs import Costs
from engine.events import Round
from engine.verdict import explain, least_alpha, outcome
from engine.what_if import Estimate

LOOKUP = Estimate("lookup", 4, 100, 70.0, 120.0, 1.2)


def evenly(k: int, accepted: Sequence[int], times: int = 10) -> list[Round]:
    """Rounds of K drafts with these numbers of accepted ones, over and over."""
    return [make_round(at, k, n) for at, n in enumerate([*accepted] * times, 1)]


ACCEPTED = [3, 1, 1, 2, 3, 1, 0]
"""Of three drafts: alpha 11 / 16 = 0.69."""


def said(rounds: list[Round], price: Costs | None, speedup: float | None, *others: Estimate) -> str | None:
    told = explain(statistics_of(rounds, price, speedup), others)
    return None if told is None else told.sentence


CASES: dict[str, tuple[tuple[list[Round], Costs | None, float | None], str]] = {
    "a draft that costs too much": (
        (evenly(3, ACCEPTED), costs(0.9), 0.71),
        "Slower: drafting one token costs 0.90 of a plain step; at alpha 0.69 no K pays: break-even",
    ),
    "too many drafts": (
        (evenly(8, [0, 3, 1, 1, 2, 3, 1, 0]), costs(0.15), 0.89),
        "Slower: drafting 8 tokens costs 1.20 plain steps; K = 2 would give 1.56x.",
    ),
    "a pass that grows": (
        (evenly(8, [0, 3, 1, 1, 2, 3, 1, 0]), costs(0.01, 0.2), 0.87),
        "Slower: a pass over 9 tokens takes 2.60 times one over a single token; K = 2 would give 1.50x.",
    ),
    "host time": (
        (evenly(3, [0, 1, 0, 0]), costs(0.01, 0.01, host_ms=40.0), 0.61),
        "Slower: the host work of a round costs 1.00 of a plain step; at alpha 0.20 no K pays: break-even",
    ),
    "drafts that are seldom right": (
        (evenly(1, [0] * 15 + [1]), costs(0.1), 0.94),
        "Slower: the target accepts only 6% of the drafts it judges; at alpha 0.06 no K pays: break-even",
    ),
    "a drafter that seldom offers anything": (
        ([short(r, 4) for r in evenly(0, [0] * 9)] + evenly(4, [0]), costs(0.1, 0.1), 0.89),
        "Slower: only 10% of the rounds had a draft",
    ),
    "a gain": (
        (evenly(3, [3, 3, 2, 1]), costs(0.1), 2.34),
        "Faster: a round brings 3.25 tokens and takes 1.39 plain steps",
    ),
    "no difference": (
        (evenly(3, ACCEPTED), costs(0.6, 0.1), 1.01),
        "No difference that can be measured: ",
    ),
    "a prediction": (
        (evenly(3, ACCEPTED), costs(0.9), None),
        "Slower by the prediction (0.68x): drafting one token costs 0.90 of a plain step",
    ),
    "no costs": (
        (evenly(3, ACCEPTED), None, 0.8),
        "Slower: what its parts cost was not measured before it.",
    ),
    "costs that do not explain it": (
        (evenly(3, ACCEPTED), costs(0.1), 0.6),
        "Slower: the costs measured before lead to 1.85x and do not explain it.",
    ),
    "nothing was asked for": (
        (evenly(0, [0]), costs(0.1), 0.95),
        "Slower: nothing was drafted.",
    ),
    "nothing came": (
        ([short(r, 4) for r in evenly(0, [0])], costs(0.1), 0.9),
        "Slower: the drafter offered nothing",
    ),
    "nothing came, but it is slower than that explains": (
        ([short(r, 4) for r in evenly(0, [0])], costs(0.1), 0.5),
        "Slower: the drafter offered nothing (the costs measured before lead to 0.71x).",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    (rounds, price, speedup), expected = CASES[name]
    told = said(rounds, price, speedup)
    assert told is not None
    assert told.startswith(expected), told


def test_nothing_is_said_of_nothing() -> None:
    assert said([], costs(), 1.2) is None
    assert said(evenly(3, ACCEPTED), None, None) is None


def test_another_method_is_named_where_it_does_better_than_every_k() -> None:
    dear, cheap = costs(0.9), costs(0.05)
    assert (said(evenly(3, ACCEPTED), dear, 0.7, LOOKUP) or "").endswith(
        ": break-even alpha is 0.93; lookup would give 1.2x."
    )
    assert "lookup" not in (said(evenly(3, ACCEPTED), cheap, 1.9, LOOKUP) or "")
    slow = Estimate("lookup", 4, 100, 99.0, 120.0, 1.02)
    assert "lookup" not in (said(evenly(3, ACCEPTED), dear, 0.7, slow) or "")


def test_a_better_k_is_told_from_the_one_in_use() -> None:
    stats = statistics_of(evenly(3, [3, 3, 3, 2]), costs(0.05), 2.0)
    told = explain(stats)
    assert told is not None
    (advice,) = told.advice
    assert advice.startswith("K = ")
    assert advice.endswith(", though drafts so long were not tried")
    best = int(advice.split()[2])
    assert best > 3
    same = explain(stats, k=best)
    assert same is not None
    assert same.advice == (f"K = {best} is about the best",)


def test_a_k_that_is_better_by_noise_only_is_not_told() -> None:
    stats = statistics_of(drawn_rounds(200, 4, 0.8), costs(0.1), 2.2)
    assert stats.best_k != 4
    told = explain(stats)
    assert told is not None
    assert told.advice == ("K = 4 is about the best",)


@given(st.floats(0.01, 20.0))
def test_noise_is_no_outcome(speedup: float) -> None:
    assert outcome(speedup) == (1 if speedup > 1.03 else -1 if speedup < 0.97 else 0)


@given(st.floats(0.0, 1.5), st.floats(0.0, 0.5), st.integers(1, 8), st.floats(0.0, 1.0), st.floats(0.1, 4.0))
def test_the_first_word_is_what_was_measured(
    c: float, growth: float, k: int, alpha: float, speedup: float
) -> None:
    told = explain(statistics_of(drawn_rounds(20, k, alpha), costs(c, growth), speedup))
    assert told is not None
    assert told.sentence.startswith({1: "Faster:", 0: "No difference", -1: "Slower:"}[outcome(speedup)])
    assert told.sentence.endswith(".")


@given(st.floats(0.0, 2.0), st.floats(0.0, 0.5))
def test_below_the_least_alpha_no_k_pays(c: float, growth: float) -> None:
    price, least = costs(c, growth), least_alpha(costs(c, growth))
    for k in range(1, 17):
        work = price.round_ms(k, k) / price.t1_ms
        if least is None:
            assert k + 1 < work + 1e-9
        else:
            below = max(least - 1e-6, 0.0)
            assert sum(below**i for i in range(k + 1)) <= work + 1e-6
