"""The suffix automaton: against a search by brute force, and what a token costs."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.drafters import suffix_automaton
from engine.drafters.suffix_automaton import LINKS, SEPARATOR, Match, SuffixAutomaton

texts_of = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=16), min_size=1, max_size=4)


def longest_match(texts: list[list[int]]) -> Match | None:
    """By looking everywhere: the longest suffix of the last text, its latest occurrence with a follower."""
    newest = texts[-1]
    for length in range(len(newest), 0, -1):
        run = newest[-length:]
        found, offset = None, 0
        for text in texts:
            for end in range(length, len(text)):
                if text[end - length : end] == run:
                    found = Match(length, offset + end)
            offset += len(text) + 1
        if found:
            return found
    return None


def automaton_of(*texts: list[int]) -> SuffixAutomaton:
    made = SuffixAutomaton()
    for text in texts:
        made.begin()
        for token in text:
            made.append(token)
    return made


@given(texts_of)
@example([[7] * 30])
@example([[0, 1, 0, 1, 0], [0, 1, 0, 1, 0, 1]])
@example([[1, 2], [1, 2], [2, 1, 2]])
@example([[0] * 9, [0] * 9, [0] * 4])
def test_it_is_the_search_by_brute_force(texts: list[list[int]]) -> None:
    """After every token, in texts too short for any place to be left out."""
    tried = SuffixAutomaton()
    for number, text in enumerate(texts):
        tried.begin()
        for size, token in enumerate(text, 1):
            tried.append(token)
            assert tried.match() == longest_match([*texts[:number], text[:size]])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=150))
@example([0] * 100)
@example([*[0] * 60, 1, 0, 2, 1, 0])
def test_a_long_text_has_the_right_length_and_a_true_occurrence(text: list[int]) -> None:
    match, true = automaton_of(text).match(), longest_match([text])
    assert (match and match.length) == (true and true.length)
    if match:
        assert text[match.follower - match.length : match.follower] == text[-match.length :]
        assert match.follower < len(text)


def test_every_place_is_noted_without_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of links is all that keeps a place from being the latest: this text shows it."""
    text = [*[0] * (LINKS + 20), 1, 2, 0]
    match = automaton_of(text).match()
    assert match == Match(1, LINKS)
    monkeypatch.setattr(suffix_automaton, "LINKS", len(text))
    assert automaton_of(text).match() == longest_match([text]) == Match(1, LINKS + 20)


def test_begin_without_a_text_changes_nothing() -> None:
    tried = SuffixAutomaton()
    tried.begin()
    assert (tried.tokens, tried.start, tried.match()) == ([], 0, None)
    tried.append(5)
    tried.begin()
    tried.begin()
    assert (tried.tokens, tried.start, tried.match()) == ([5, SEPARATOR], 2, None)


def test_a_copy_ends_with_an_earlier_text_and_repeats_the_newest() -> None:
    tried = automaton_of([1, 2, 3], [4, 5])
    assert tried.copy(1, 1) == [2]
    assert tried.copy(1, 9) == [2, 3]
    assert tried.copy(4, 5) == [4, 5, 4, 5, 4]
    assert tried.copy(5, 3) == [5, 5, 5]


class Counting(list[Any]):
    """Counts how often one of its items is looked up."""

    lookups = 0

    def __getitem__(self, index: Any) -> Any:
        self.lookups += 1
        return super().__getitem__(index)


def work(tokens: list[int], every: int | None = None) -> float:
    """States visited and links followed per token; with ``every``, in texts of so many tokens."""
    tried = SuffixAutomaton()
    tried._next, tried._link = Counting(tried._next), Counting(tried._link)
    for number, token in enumerate(tokens):
        if every and number % every == 0:
            tried.begin()
        tried.append(token)
        if suffix_automaton.LINKS:
            tried.match()
    return (tried._next.lookups + tried._link.lookups) / len(tokens)


def fibonacci(size: int) -> list[int]:
    """The Fibonacci word: as many repetitions as a text without cubes of a letter has."""
    older, newer = [0], [0, 1]
    while len(newer) < size:
        older, newer = newer, newer + older
    return newer[:size]


def drawn(alphabet: int) -> Callable[[int], list[int]]:
    return lambda size: random.Random(4).choices(range(alphabet), k=size)


@pytest.mark.parametrize(
    ("links", "bound"), [(LINKS, LINKS + 20), (0, 20)], ids=["with the places", "growth alone"]
)
@pytest.mark.parametrize("every", [None, 500], ids=["one text", "many texts"])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda size: [0] * size, id="aaaa"),
        pytest.param(lambda size: [0, 1] * (size // 2), id="abab"),
        pytest.param(fibonacci, id="fibonacci"),
        pytest.param(drawn(2), id="two letters"),
        pytest.param(drawn(50_000), id="all different"),
        pytest.param(lambda size: [0] * (size // 2) + [1] + [0] * (size // 2 - 1), id="aaabaaa"),
    ],
)
def test_a_token_costs_the_same_in_a_long_text(
    make: Callable[[int], list[int]],
    every: int | None,
    links: int,
    bound: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """O(1) amortised: steps per token are bounded, in 1,000 tokens as in 20,000."""
    monkeypatch.setattr(suffix_automaton, "LINKS", links)
    assert work(make(1_000), every) < bound
    assert work(make(20_000), every) < bound


def test_the_steps_are_counted() -> None:
    """A search that walked all suffixes would be seen: here is one."""
    tried = SuffixAutomaton()
    tried._link = Counting(tried._link)
    for _ in range(300):
        tried.append(0)
        state = tried._newest
        while state:
            state = tried._link[state]
    assert tried._link.lookups > 300 * 100


@pytest.mark.parametrize("alphabet", [1, 3, 50_000])
def test_the_size_of_a_token(alphabet: int) -> None:
    """At most two states, and less than 700 bytes (measured: 360 to 580)."""
    tokens = drawn(alphabet)(20_000)
    tracemalloc.start()
    try:
        tried = automaton_of(tokens)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 700 * len(tokens)
    assert len(tried._link) <= 2 * len(tokens)


def test_texts_seen_before_take_no_more_states() -> None:
    text = drawn(3)(500)
    once, often = automaton_of(text), automaton_of(*itertools.repeat(text, 19), text[:-1])
    assert len(often._link) <= len(once._link) + 1
    assert often.match() == Match(499, 18 * 501 + 499), "all of it, in the text before"
