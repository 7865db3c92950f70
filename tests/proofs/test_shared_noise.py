"""Proofs A to C for the noise that drafter and target share (Daliri et al. 2024, arXiv 2408.07978).

The enumeration reads its probabilities off a triangle (tests/support/triangle.py). Here that triangle is held
against closed forms and against the shipped noise, and the shipped noise against its law.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from support.counting import FAIL, p_value
from support.labs import EXACT
from support.tables import KINDS, random_row
from support.triangle import WHOLE, area, joint, winning

from engine.draws import SharedNoise

ROWS = [
    (random_row(rng, 3, q_kind), random_row(rng, 3, p_kind))
    for rng in [np.random.default_rng(7)]
    for q_kind in KINDS
    for p_kind in KINDS
]


@pytest.fixture(autouse=True)
def _few_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of an id does not depend on how many ids are asked for at once; fewer are quicker."""
    monkeypatch.setattr("engine.draws._IDS", 8)


def test_the_noise_of_an_id_does_not_depend_on_the_number_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    few = SharedNoise(3)._exponential(5, 8)
    monkeypatch.setattr("engine.draws._IDS", 4096)
    many = SharedNoise(3)._exponential(5, 9_000)
    assert torch.equal(few, many[:8])


# -- the triangle


@pytest.mark.parametrize(("q", "p"), ROWS)
def test_both_margins_are_the_laws(q: tuple[float, ...], p: tuple[float, ...]) -> None:
    table = joint(q, p)
    for x in range(3):
        assert sum(table[x]) == pytest.approx(q[x], abs=EXACT)
        assert sum(row[x] for row in table) == pytest.approx(p[x], abs=EXACT)


@pytest.mark.parametrize(("q", "p"), ROWS)
def test_equal_winners_have_their_closed_form(q: tuple[float, ...], p: tuple[float, ...]) -> None:
    """P(x wins both) = 1 / sum_z max(q_z / q_x, p_z / p_x)."""
    table = joint(q, p)
    for x in range(3):
        expected = 0.0
        if q[x] > 0 and p[x] > 0:
            expected = 1 / sum(max(q[z] / q[x], p[z] / p[x]) for z in range(3))
        assert table[x][x] == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize(("q", "p"), ROWS)
def test_different_winners_have_their_integral(q: tuple[float, ...], p: tuple[float, ...]) -> None:
    """x wins under q and y under p for t = E_y / E_x in [q_y / q_x, p_y / p_x]; the third one loses both."""
    table = joint(q, p)
    for x in range(3):
        for y in {0, 1, 2} - {x}:
            expected = 0.0
            if q[x] > 0 and p[y] > 0:
                z = 3 - x - y
                a, b, c = q[z] / q[x], p[z] / p[y], q[y] / q[x]
                end = p[y] / p[x] if p[x] > 0 else np.inf
                if end > c:
                    # Split where the larger of the two bounds on the third one changes.
                    at = min(max(a / b, c), end) if b > 0 else end
                    parts = [(c, at), (at, end)]
                    expected = sum(
                        quad(lambda t, a=a, b=b: (1 + t + max(a, t * b)) ** -2, *part, epsabs=1e-12)[0]
                        for part in parts
                        if part[0] < part[1]
                    )
            assert table[x][y] == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(1e-12, 1.0), min_size=3, max_size=3))
def test_a_token_wins_with_its_probability(weights: list[float]) -> None:
    for x in range(3):
        assert area(winning(WHOLE, weights, x)) == pytest.approx(weights[x] / sum(weights), abs=EXACT)


# -- the shipped noise


@given(st.integers(0, 2**32), st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=2, max_size=8))
def test_the_token_has_the_least_noise_for_its_weight(position: int, weights: list[float]) -> None:
    """The vectorised argmin against a loop; drafter and target meet at the same position."""
    weights[0] += 0.5
    noise = SharedNoise(11)
    e = noise._exponential(position, len(weights)).tolist()
    race = {x: e[x] / weight for x, weight in enumerate(weights) if weight > 0}
    law = torch.tensor(weights, dtype=torch.float64)
    assert int(noise.target(law, position)) == min(race, key=lambda x: race[x])
    assert int(noise.draft(law, position - 3, 3)) == min(race, key=lambda x: race[x])


N = 10_000


@pytest.mark.parametrize("row", [0, 9, 16])
def test_winners_of_many_positions_have_their_joint_law(row: int) -> None:
    q, p = ROWS[row]
    noise = SharedNoise(100 + row)
    laws = [torch.tensor(law, dtype=torch.float32) for law in (q, p)]
    counts = Counter((int(noise.draft(laws[0], n, 0)), int(noise.target(laws[1], n))) for n in range(N))
    table = joint(q, p)
    assert p_value(counts, {(x, y): table[x][y] for x in range(3) for y in range(3)}) > FAIL


def test_neighbours_are_independent() -> None:
    """The noise of a position says nothing of the next one's, and that of an id nothing of the next id's."""
    noise = SharedNoise(5)
    e = torch.stack([noise._exponential(n, 8) for n in range(N)]).double()
    levels = (-(-e).exp()).add(1).mul(4).long().clamp(max=3)  # (N, 8) quarters of the law
    uniform = {(a, b): 1 / 16 for a in range(4) for b in range(4)}
    for first, second in ((levels[:-1, 0], levels[1:, 0]), (levels[:, 0], levels[:, 1])):
        counts = Counter(zip(first.tolist(), second.tolist(), strict=True))
        assert p_value(counts, uniform) > FAIL
    same = Counter(zip(levels[:, 2].tolist(), levels[:, 2].tolist(), strict=True))
    assert p_value(same, uniform) < FAIL, "what depends is seen to"
