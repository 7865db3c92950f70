"""Chunked search finds what sorting would, ties and broken rows included."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.largest import CHUNK, Chunks, chunk_size

WIDTHS = st.sampled_from([1, 3, 40, 128, 129, 700])


def rows_with_ties(count: int, width: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Few different values, so that many entries are equal; some are excluded.  # (count, width)"""
    rows = torch.randint(-6, 6, (count, width), generator=torch.Generator().manual_seed(seed)).to(dtype) / 4
    return rows.masked_fill(rows == -1.5, -torch.inf)


def chunks(rows: Tensor, size: int, divisor: float = 1.0) -> Chunks:
    return Chunks(rows, torch.float64, size, divisor)


sizes = st.sampled_from([1, 2, 16, CHUNK])


@given(st.integers(1, 4), WIDTHS, st.integers(0, 999), sizes)
def test_the_first_of_the_largest(count: int, width: int, seed: int, size: int) -> None:
    rows = rows_with_ties(count, width, seed)
    assert torch.equal(chunks(rows, size).argmax(), rows.argmax(-1))


@given(st.integers(1, 4), WIDTHS, st.integers(0, 999), sizes, st.integers(1, 5))
def test_the_k_largest(count: int, width: int, seed: int, size: int, k: int) -> None:
    rows = rows_with_ties(count, width, seed)
    values, places = chunks(rows, size).topk(k)
    lowest = torch.finfo(torch.float64).min  # stands for -inf where a chunk was filled up
    expected = rows.topk(min(k, width)).values
    assert torch.equal(values.clamp(min=lowest), expected.clamp(min=lowest))
    assert torch.equal(rows.gather(1, places), expected)
    assert all(len(set(row)) == len(row) for row in places.tolist()), "no entry twice"


@given(st.integers(1, 4), WIDTHS, st.integers(0, 999), sizes, st.integers(1, 60), st.sampled_from([1.0, 0.7]))
def test_candidates_have_all_that_top_k_keeps(
    count: int, width: int, seed: int, size: int, k: int, divisor: float
) -> None:
    """Whatever is not below the k-th, as ``TopKLogitsWarper`` keeps ties; in the order of row and place."""
    rows = rows_with_ties(count, width, seed)
    k = min(k, -(-width // size))
    row, place, value = chunks(rows, size, divisor).candidates(k)
    found = list(zip(row.tolist(), place.tolist(), strict=True))
    assert found == sorted(set(found))
    assert torch.equal(value, rows[row, place] / divisor)
    least = rows.topk(min(k, width)).values[:, -1:]
    assert {tuple(at) for at in (rows >= least).nonzero().tolist()} <= set(found)


@given(st.integers(1, 4), WIDTHS, st.integers(0, 999), sizes, st.sampled_from([1.0, 0.7]))
def test_the_sum(count: int, width: int, seed: int, size: int, divisor: float) -> None:
    rows = rows_with_ties(count, width, seed)
    rows[:, 0] = 1.0  # something is left
    expected = (rows / divisor).logsumexp(-1, keepdim=True)
    assert torch.allclose(chunks(rows, size, divisor).logsumexp(), expected, rtol=0, atol=1e-12)


@pytest.fixture(params=[1, 2])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_gives_the_same_bits_alone(dtype: torch.dtype) -> None:
    """On one thread and on two, and half precision gives what the widened row gives."""
    rows = (torch.randn(13, 49_152, generator=torch.Generator().manual_seed(1)) * 4).to(dtype)
    together = Chunks(rows, torch.float32, divisor=0.7)
    assert torch.equal(together.argmax(), rows.float().argmax(-1))
    largest, sums = together.topk(4)[0], together.logsumexp()  # (13, 4), (13, 1)
    assert torch.equal(sums, Chunks(rows.float(), torch.float32, divisor=0.7).logsumexp())
    for at in range(13):
        alone = Chunks(rows[at : at + 1], torch.float32, divisor=0.7)
        assert torch.equal(alone.topk(4)[0][0], largest[at])
        assert torch.equal(alone.logsumexp()[0], sums[at])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rows_are_left_alone(dtype: torch.dtype) -> None:
    rows = rows_with_ties(3, 256, 5, dtype)
    kept = rows.clone()
    found = Chunks(rows, torch.float32)
    found.topk(3)
    found.logsumexp()
    assert torch.equal(rows, kept)
    with pytest.raises(AssertionError, match="spent"):
        found.topk(3)


@pytest.mark.parametrize("width", [256, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_may_lie_column_by_column(dtype: torch.dtype, width: int) -> None:
    """As a pass may leave them, and as a slice of wider rows."""
    rows = rows_with_ties(5, width, 6, dtype)
    wider = torch.cat([rows, rows.new_zeros(5, 9)], dim=1)
    expected = Chunks(rows, torch.float32)
    for laid in (rows.t().contiguous().t(), wider[:, :width]):
        assert not laid.is_contiguous()
        kept, found = laid.clone(), Chunks(laid, torch.float32)
        assert torch.equal(found.argmax(), expected.argmax())
        assert torch.equal(found.topk(4)[1], expected.topk(4)[1])
        assert torch.equal(found.logsumexp(), Chunks(rows, torch.float32).logsumexp())
        assert torch.equal(laid, kept)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 5, 299])
def test_a_broken_row_is_told(bad: float, at: int) -> None:
    rows = rows_with_ties(3, 300, 2)
    rows[1, at] = bad
    found = chunks(rows, 16)
    assert found.finite().tolist() == [True, False, True]
    assert found.argmax()[1] == at
    row, place, value = found.candidates(2)
    assert (1, at) in zip(row.tolist(), place.tolist(), strict=True)
    assert not value[row == 1].isfinite().all()
    assert found.logsumexp().isfinite()[:, 0].tolist() == [True, False, True]
    excluded = torch.full((1, 300), -torch.inf, dtype=torch.float64)
    assert not chunks(excluded, 16).finite()


def test_most_chunks_need_not_be_searched() -> None:
    for width, k in ((49_152, 4), (49_152, 50), (151_936, 256), (384, 40), (10, 7)):
        size = chunk_size(width, k)
        assert CHUNK % size == 0
        assert size == 1 or width // size >= 4 * k
