"""The one source of chance: uniform, independent, a function of its key, and never an impossible id."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from engine.draws import Draws, Stream

SEEDS = (0, 1, 2**63 - 1)
FAIL = 1e-6


def table(seed: int, positions: int, count: int, stream: Stream = Stream.ACCEPT) -> np.ndarray:
    """Uniform draws of many positions.  # (positions, count)"""
    draws = Draws(seed)
    return (
        torch.stack([draws.uniform(position, stream, count) for position in range(positions)])
        .double()
        .numpy()
    )


def wide(seed: int, positions: int, stream: Stream, index: int) -> np.ndarray:
    """The draws behind ``categorical``.  # (positions,)"""
    draws = Draws(seed)
    return np.array([draws._wide_uniform(position, stream, index) for position in range(positions)])


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform(seed: int) -> None:
    u = table(seed, 3000, 4)
    assert u.min() >= 0
    assert u.max() < 1
    assert kstest(u.ravel(), "uniform").pvalue > FAIL
    assert kstest(wide(seed, 3000, Stream.TARGET, 0), "uniform").pvalue > FAIL


def test_uniform_is_exact_in_float32() -> None:
    """24 bits: neither the float32 of the laws nor a comparison rounds a draw up to 1."""
    u = Draws(3).uniform(0, Stream.ACCEPT, 10_000)
    assert u.dtype == torch.float32
    scaled = u.double() * 2**24
    assert torch.equal(scaled, scaled.round())


def test_neighbours_are_independent() -> None:
    """Indices of one position, positions in a row, streams, seeds, and the two kinds of draw."""
    n = 3000
    u = table(5, n, 3)
    columns = {
        "index 0": u[:, 0],
        "index 1": u[:, 1],
        "index 2": u[:, 2],
        "draft stream": table(5, n, 1, Stream.DRAFT)[:, 0],
        "target stream": table(5, n, 1, Stream.TARGET)[:, 0],
        "next seed": table(6, n, 1)[:, 0],
        "wide, same key": wide(5, n, Stream.ACCEPT, 0),
        "wide, draft 0": wide(5, n, Stream.DRAFT, 0),
        "wide, draft 1": wide(5, n, Stream.DRAFT, 1),
        "wide, target": wide(5, n, Stream.TARGET, 0),
    }
    pairs = list(itertools.combinations(columns.items(), 2))
    for (a, x), (b, y) in pairs:
        assert len(set(x) & set(y)) < n / 100, f"{a} repeats {b}"
    pairs += [((name, x[1:]), ("the position before", x[:-1])) for name, x in columns.items()]
    for (a, x), (b, y) in pairs:
        cells = np.histogram2d(x, y, bins=4, range=[[0, 1], [0, 1]])[0].ravel()
        assert chisquare(cells).pvalue > FAIL, f"{a} depends on {b}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_draw_is_a_function_of_its_key(seed: int) -> None:
    weights = torch.rand(50, generator=torch.Generator().manual_seed(0))
    one, other = Draws(seed), Draws(seed)
    other.uniform(3, Stream.DRAFT, 7)
    other.categorical(weights, 9, Stream.ACCEPT, 4)
    for position, stream in itertools.product((0, 1, 2**40), Stream):
        assert torch.equal(one.uniform(position, stream, 5), other.uniform(position, stream, 5))
        for index in (3, 0, 1):
            ours, theirs = (
                int(draws.categorical(weights, position, stream, index)) for draws in (one, other)
            )
            assert ours == theirs
    assert not torch.equal(one.uniform(0, Stream.DRAFT, 5), Draws(seed ^ 1).uniform(0, Stream.DRAFT, 5))


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 12))
def test_index_i_does_not_depend_on_the_count(seed: int, position: int, a: int, b: int) -> None:
    shorter, longer = sorted((a, b))
    draws = Draws(seed)
    assert torch.equal(
        draws.uniform(position, Stream.ACCEPT, longer)[:shorter],
        draws.uniform(position, Stream.ACCEPT, shorter),
    )


positive = st.builds(
    lambda exponent, digits: digits * 2.0**exponent, st.integers(-149, 100), st.integers(1, 2**24 - 1)
)
"""Any positive float32, denormal ones included."""


@given(
    st.lists(st.one_of(st.just(0.0), positive), min_size=1, max_size=40),
    positive,
    st.integers(0, 39),
    st.integers(0, 2**63 - 1),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_an_impossible_id_is_never_drawn(
    weights: list[float], one: float, at: int, seed: int, dtype: torch.dtype
) -> None:
    """With denormal, huge and equal weights, and however many zeros are at either end."""
    weights[at % len(weights)] = one
    law = torch.tensor(weights, dtype=dtype)
    for index in range(3):
        drawn = Draws(seed).categorical(law, 1, Stream.DRAFT, index)
        assert drawn.dtype == torch.int64
        assert drawn.shape == ()
        assert law[drawn] > 0


class Extreme(Draws):
    """A draw at the end of its range."""

    def __init__(self, u: float) -> None:
        super().__init__(seed=0)
        self.u = u

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> float:
        return self.u


@pytest.mark.parametrize(
    "weights", [[0, 0, 3, 0], [0, 1e-45, 0], [0, 3e38, 3e38, 0], [1], [0, 1e-45, 3e38, 0]]
)
@pytest.mark.parametrize("u", [0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("smallest", [1e-45, 5e-324])
def test_the_ends_of_the_range(weights: list[float], u: float, smallest: float) -> None:
    """In float32, and in float64 where u times the smallest total is the total itself."""
    dtype = torch.float32 if smallest == 1e-45 else torch.float64
    law = torch.tensor([smallest if weight == 1e-45 else weight for weight in weights], dtype=dtype)
    drawn = int(Extreme(u).categorical(law, 0, Stream.TARGET))
    possible = law.nonzero().flatten().tolist()
    assert drawn in possible
    if u == 0:
        assert drawn == possible[0]
    if u > 0.5:
        assert drawn == possible[-1]


@pytest.mark.parametrize("at", [0, 1, 77_777, 149_999])
def test_a_large_vocabulary(at: int) -> None:
    one_hot = torch.zeros(150_000)
    one_hot[at] = 1e-30
    assert {int(Draws(seed).categorical(one_hot, 0, Stream.TARGET)) for seed in range(5)} == {at}
    flat = torch.ones(150_000)
    drawn = [int(Draws(seed).categorical(flat, 0, Stream.TARGET)) for seed in range(300)]
    assert kstest(np.array(drawn) / 150_000, "uniform").pvalue > FAIL
    assert len(set(drawn)) > 295


def test_categorical_has_the_law_of_its_weights() -> None:
    weights = torch.tensor([0.0, 5.0, 1.0, 0.5, 0.0, 3.5])
    draws = Draws(11)
    drawn = [int(draws.categorical(weights, position, Stream.DRAFT, 1)) for position in range(5000)]
    counts = np.bincount(drawn, minlength=6)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert chisquare(counts[[1, 2, 3, 5]], np.array([0.5, 0.1, 0.05, 0.35]) * 5000).pvalue > FAIL


def test_undefined_weights_stay_inside_the_vocabulary() -> None:
    """A broken model is noticed when the round reads its numbers; until then no table may be overrun."""
    for weights in ([float("nan"), 1.0], [1.0, float("nan")], [float("nan")] * 3, [0.0, 0.0]):
        assert 0 <= int(Draws(1).categorical(torch.tensor(weights), 0, Stream.TARGET)) < len(weights)
