"""Proof B: one step of the vectorised code, min(p, q) + (1 - a) * norm(residual) == p, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.verify import residual

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
