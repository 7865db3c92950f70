"""Prompt lookup: the longest known suffix, its latest earlier occurrence, and copying on past the end."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.runs import context
from support.tables import TableModel, settings

from engine.drafters.base import Scored
from engine.drafters.lookup import LONGEST, LookupDrafter, NgramIndex
from engine.draws import Draws
from engine.sampling import Law

texts = st.lists(st.integers(0, 3), max_size=40)


def brute_force(tokens: list[int], k: int) -> list[int]:
    """The same by looking everywhere."""
    for n in range(min(LONGEST, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == tokens[-n:]:
                written = list(tokens)
                for at in range(start + n, start + n + k):
                    written.append(written[at])
                return written[len(tokens) :]
    return []


@given(texts, st.integers(1, 9))
@example([1, 2, 3, 1, 2, 9, 2, 3, 1, 2], 4)
@example([7, 7], 5)
@example([1, 2, 1, 2, 1], 6)
def test_it_is_the_search_by_brute_force(tokens: list[int], k: int) -> None:
    index = NgramIndex()
    index.sync(tokens)
    assert index.copy(k) == brute_force(tokens, k)


@given(st.lists(st.tuples(st.integers(0, 40), texts), max_size=8), st.integers(1, 6))
def test_whatever_happened_before(edits: list[tuple[int, list[int]]], k: int) -> None:
    """Tokens are appended, taken back and replaced; the index follows."""
    index, tokens = NgramIndex(), list[int]()
    for keep, more in edits:
        tokens = tokens[:keep] + more
        index.sync(tokens)
        assert index.tokens == tokens
        assert index.copy(k) == brute_force(tokens, k)


def test_the_index_keeps_its_own_copy() -> None:
    """The list of committed tokens grows in place between two calls."""
    index, tokens = NgramIndex(), [1, 2, 3]
    index.sync(tokens)
    tokens.append(1)
    assert index.tokens == [1, 2, 3]
    index.sync(tokens)
    assert index.copy(2) == [2, 3]


def test_it_prefers_the_longest_then_the_latest() -> None:
    index = NgramIndex()
    index.sync([1, 2, 3, 40, 9, 2, 3, 50, 9, 1, 2, 3])
    assert index.copy(1) == [40], "three tokens long, though a shorter match is later"
    index.sync([2, 3, 40, 9, 2, 3, 50, 9, 7, 2, 3])
    assert index.copy(1) == [50], "of equal length the later one"


@pytest.mark.parametrize("tokens", [[1], [1, 2, 3]])
def test_without_a_match_it_says_so(tokens: list[int]) -> None:
    drafter = LookupDrafter(context(TableModel(lambda _: (1.0,), 1).as_lm()))
    draft = drafter.propose(tokens, 4, Law(settings()), Draws(0))
    assert draft.ids.shape == (0,)
    assert draft.ids.dtype == torch.int64
    assert draft.reason == "no match"


def test_its_drafts_are_certain_and_its_time_is_counted() -> None:
    drafter = LookupDrafter(context(TableModel(lambda _: (1.0,), 1).as_lm()))
    assert list(drafter.prefill([1, 2])) == []
    assert drafter.prefill_cost([1, 2]) == 0
    assert drafter.model_info is None
    draft = drafter.propose([1, 2, 1], 3, Law(settings()), Draws(0))
    assert draft.ids.tolist() == [2, 1, 2]
    assert draft.q is None
    assert draft.top is None
    assert draft.reason is None
    drafter.observe(Scored([2, 1, 2], 1))
    assert drafter.take_ms() > 0
    assert drafter.take_ms() == 0
