"""A trail behaves as a list that is copied at every change, and shares what it can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.trail import Trail

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(0, 9), st.lists(st.integers(), max_size=4)),
        st.tuples(st.just("take"), st.integers(0, 9), st.integers(-2, 12)),
    ),
    max_size=30,
)


@given(STEPS)
def test_it_is_a_list_that_nobody_changes(steps: list[tuple[str, int, list[int] | int]]) -> None:
    """Every step starts at any earlier trail, so trails part again and again; all stay what they were."""
    trails: list[Trail[int]] = [Trail()]
    lists: list[list[int]] = [[]]
    for _, choice, what in steps:
        origin = choice % len(trails)
        if isinstance(what, list):
            trails.append(trails[origin].extend(what))
            lists.append(lists[origin] + what)
        else:
            trails.append(trails[origin].take(what))
            lists.append(lists[origin][: max(0, what)])
    for trail, items in zip(trails, lists, strict=True):
        assert list(trail) == items
        assert len(trail) == len(items)
        assert trail == Trail(items)
        assert [trail[index - len(items)] for index in range(len(items))] == items


def test_going_on_shares_the_items_and_parting_copies_them() -> None:
    first = Trail([1, 2])
    second = first.append(3)
    assert second._items is first._items
    other = first.append(4)
    assert other._items is not first._items
    assert (list(first), list(second), list(other)) == ([1, 2], [1, 2, 3], [1, 2, 4])
    shorter = second.take(1)
    assert shorter._items is second._items
    assert list(shorter.append(9)) == [1, 9]
    assert list(second) == [1, 2, 3]


def test_an_empty_extension_is_the_same_trail() -> None:
    trail = Trail("ab")
    assert trail.extend([]) is trail


@pytest.mark.parametrize(
    "part", [slice(None), slice(1, 3), slice(-2, None), slice(None, None, -1), slice(9, 4)]
)
def test_slices_are_those_of_a_list(part: slice) -> None:
    longer = Trail(range(5)).append(5)
    assert longer.take(4)[part] == [0, 1, 2, 3][part]


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_past_the_end_is_an_error_even_where_the_list_goes_on(index: int) -> None:
    trail = Trail(range(9)).take(3)
    with pytest.raises(IndexError, match="of 3"):
        trail[index]


def test_equality_is_that_of_the_items() -> None:
    assert Trail([1]) != Trail([1, 2])
    assert Trail([1]) != [1]
    assert hash(Trail([1, 2])) == hash(Trail([0, 1, 2]).take(2).append(3).take(2))


def test_appending_one_by_one_copies_nothing() -> None:
    trail: Trail[int] = Trail()
    items = trail._items
    for number in range(20_000):
        trail = trail.append(number)
    assert trail._items is items
