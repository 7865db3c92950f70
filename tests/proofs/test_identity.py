"""Proof B: one step of the vectorised code gives p, in float64.

By tokens: min(p, q) + (1 - a) * norm(residual) == p. By blocks: the first token of a round, over all its
drafts. By inversion (``match``): each id's part of [0, 1) is as long as its probability.
"""

from __future__ import annotations

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.draws import Draws, Stream
from engine.verify import Block, Match, residual

EXACT = 1e-12

weights = st.one_of(
    st.just(0.0), st.just(1.0), st.floats(1e-12, 1.0), st.floats(1e-300, 1e-200), st.floats(0.5, 1e6)
)


@st.composite
def laws(draw: st.DrawFn, size: int) -> Tensor:
    """A law over ``size`` ids with zeros, ties, peaks and tiny probabilities."""
    drawn = draw(st.lists(weights, min_size=size, max_size=size))
    drawn[draw(st.integers(0, size - 1))] += 1.0
    law = torch.tensor(drawn, dtype=torch.float64)
    return law / law.sum()


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, int]:
    """p (K+1, V), q (K, C) with C <= V, drafts (K,) and the number of the first rejected draft."""
    k, v = draw(st.integers(1, 3)), draw(st.integers(2, 7))
    c = draw(st.integers(1, v))
    p = torch.stack([draw(laws(v)) for _ in range(k + 1)])
    q = torch.stack([draw(laws(c)) for _ in range(k)])
    if c == v:  # some rows agree, bit for bit
        for row in draw(st.sets(st.integers(0, k - 1))):
            q[row] = p[row]
    drafts = torch.tensor(draw(st.lists(st.integers(0, c - 1), min_size=k, max_size=k)))
    return p, q, drafts, draw(st.integers(0, k - 1))


def normalised(weights: Tensor) -> Tensor:
    assert bool((weights >= 0).all())
    assert bool(weights.sum() > 0)
    return weights / weights.sum()


@given(rounds())
def test_drawn_drafts(case: tuple[Tensor, Tensor, Tensor, int]) -> None:
    p, q, drafts, n = case
    v, c = p.shape[1], q.shape[1]
    q_all = torch.cat([q[n], torch.zeros(v - c, dtype=torch.float64)])
    accepted = torch.minimum(p[n], q_all)
    left = normalised(residual(p, q, drafts, torch.tensor(n)))
    emitted = accepted + (1 - accepted.sum()).clamp(min=0) * left
    assert torch.allclose(emitted, p[n], rtol=0, atol=EXACT)
    if accepted.sum() < 1 - EXACT:
        assert bool((left[p[n] <= q_all] == 0).all()), (
            "what the drafter offers often enough is not drawn again"
        )


@given(rounds())
def test_deterministic_drafts(case: tuple[Tensor, Tensor, Tensor, int]) -> None:
    p, _, drafts, n = case
    x = int(drafts[n])
    left = normalised(residual(p, None, drafts, torch.tensor(n)))
    emitted = (1 - p[n, x]).clamp(min=0) * left
    emitted[x] += p[n, x]
    assert torch.allclose(emitted, p[n], rtol=0, atol=EXACT)


@given(rounds())
def test_after_a_full_accept_it_is_the_last_row_of_p(case: tuple[Tensor, Tensor, Tensor, int]) -> None:
    p, q, drafts, _ = case
    k = torch.tensor(len(drafts))
    assert torch.equal(residual(p, q, drafts, k), p[-1])
    assert torch.equal(residual(p, None, drafts, k), p[-1])


@given(laws(6))
def test_without_drafts_it_is_p(law: Tensor) -> None:
    nothing = torch.empty(0, dtype=torch.long)
    assert torch.equal(residual(law[None], None, nothing, torch.tensor(0)), law)


@pytest.mark.parametrize("peak", [0.0, 1e-9, 0.5, 1 - 1e-9, 1.0])
def test_named_rows(peak: float) -> None:
    """Peaked, equal and disjoint rows, the ones the papers warn of."""
    p = torch.tensor([[peak, 1 - peak, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    for q_row in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1 / 3] * 3, p[0].tolist()):
        q = torch.tensor([q_row], dtype=torch.float64)
        accepted = torch.minimum(p[0], q[0])
        left = normalised(residual(p, q, torch.tensor([0]), torch.tensor(0)))
        emitted = accepted + (1 - accepted.sum()) * left
        assert torch.allclose(emitted, p[0], rtol=0, atol=EXACT)


# -- blocks


class RejectsAll(Draws):
    """Uniform numbers next to 1; keeps what the token is to be drawn from."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.weights = torch.empty(0)

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return torch.full((count,), 1 - 2.0**-53, dtype=torch.float64)

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        self.weights = weights
        return weights.argmax()


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """p and q of two places: the first rows, then a row for each first draft.  # (1 + V, V) each"""
    v = draw(st.integers(2, 4))
    p, q = (torch.stack([draw(laws(v)) for _ in range(v + 1)]) for _ in range(2))
    for row in draw(st.sets(st.integers(0, v))):
        q[row] = p[row]
    return p, q


@hypothesis.settings(max_examples=60)
@given(trees())
def test_the_first_token_of_a_block(case: tuple[Tensor, Tensor]) -> None:
    """None stands with probability (1 - h_1)(1 - h_2); the h and the remainder are the shipped rule's."""
    p, q = case
    v = p.shape[1]
    emitted = torch.zeros(v, dtype=torch.float64)
    for x1 in range(v):
        for x2 in range(v):
            weight = q[0, x1] * q[1 + x1, x2]
            if weight == 0:
                continue
            rows = torch.stack([p[0], p[1 + x1], p[0]])
            draws = RejectsAll()
            judgement = Block().judge(rows, q[[0, 1 + x1]], torch.tensor([x1, x2]), draws, 0)
            assert judgement.h is not None
            none = (1 - judgement.h).prod()
            emitted[x1] += weight * (1 - none)
            if int(judgement.n_accepted) == 0:
                emitted += weight * none * normalised(draws.weights)
            else:
                assert none < 1e-15
    assert torch.allclose(emitted, p[0], rtol=0, atol=EXACT)


# -- inversion


class At(Draws):
    """Every number is the same."""

    def __init__(self, u: float) -> None:
        super().__init__(seed=0)
        self.u = u

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> float:
        return self.u


@given(laws(5), st.lists(st.integers(0, 4), max_size=3))
def test_each_id_has_a_part_as_long_as_its_probability(law: Tensor, drafts: list[int]) -> None:
    """And what ``match`` commits in the first place is the token drawn there, whatever was drafted."""
    end = 0.0
    for x, p_x in enumerate(law.tolist()):
        start, end = end, end + p_x
        if p_x > 1e-9:
            for u in (start + p_x * 1e-3, (start + end) / 2, end - p_x * 1e-3):
                rows = torch.stack([law] * (len(drafts) + 1))
                judgement = Match().judge(rows, None, torch.tensor(drafts, dtype=torch.long), At(u), 0)
                first = [*drafts[: int(judgement.n_accepted)], int(judgement.token)][0]
                assert first == x
