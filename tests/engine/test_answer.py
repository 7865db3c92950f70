"""Commit: a block ends exactly where plain decoding would, in ids, in text and in the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.answer import Answer, Commit, Limits
from engine.events import EndReason

Outcome = tuple[list[int], str, EndReason | None]

PIECES = (
    b"a",
    b"b",
    b"ab",
    b"bab",
    b"\xc3",  # a lead byte, with the next one the letter e with an acute accent
    b"\xa9",
    b"\xe6\x97",  # two thirds of the sign for day
    b"\xa5",
    b"\xff",  # never UTF-8
    b"",
    "\U0001f680".encode(),
    b"<special>",
)
SPECIAL = PIECES.index(b"<special>")
EMPTY = PIECES.index(b"")


class Tokens:
    special_ids = frozenset({SPECIAL})

    def piece(self, id_: int, /) -> bytes:
        return PIECES[id_]


def text_bytes(id_: int) -> bytes:
    return b"" if id_ == SPECIAL else PIECES[id_]


def by_the_book(ids: Sequence[int], limits: Limits, prompt_length: int) -> Outcome:
    """Token by token, everything looked at again from the start each time."""
    most = min(limits.max_new_tokens, limits.context_length - prompt_length)
    for n in range(1, len(ids) + 1):
        starts = [len(b"".join(map(text_bytes, ids[:i]))) for i in range(n)]
        data = b"".join(map(text_bytes, ids[:n]))
        found = [at for stop in limits.stop if (at := data.find(stop.encode())) >= 0]
        if found:
            at = min(found)
            kept = sum(start <= at for start in starts)
            return list(ids[:kept]), data[:at].decode("utf-8", "replace"), EndReason.STOP
        if ids[n - 1] in limits.eos_ids:
            return list(ids[:n]), data.decode("utf-8", "replace"), EndReason.EOS
        if n == most:
            full = prompt_length + n == limits.context_length
            reason = EndReason.CONTEXT if full else EndReason.MAX_NEW_TOKENS
            return list(ids[:n]), data.decode("utf-8", "replace"), reason
    return list(ids), b"".join(map(text_bytes, ids)).decode("utf-8", "replace"), None


def commit_all(ids: Sequence[int], limits: Limits, blocks: Sequence[int]) -> tuple[Outcome, list[Commit]]:
    """In blocks of these sizes, over and over."""
    answer = Answer([1, 2, 3], Tokens(), limits)
    commits: list[Commit] = []
    at = 0
    while at < len(ids) and (not commits or commits[-1].cut is None):
        size = blocks[len(commits) % len(blocks)]
        before = list(answer.tokens)
        commits.append(answer.commit(ids[at : at + size]))
        at += size
        assert answer.tokens == [*before, *commits[-1].tokens][: len(answer.tokens)]
        assert len(answer.tokens) == len(before) + len(commits[-1].tokens) - commits[-1].taken_back
        assert commits[-1].taken_back == 0 or not commits[-1].tokens
        assert answer.budget >= 0
    cut = commits[-1].cut if commits else None
    text = "".join(commit.text for commit in commits)
    return (answer.new_tokens, text + answer.finish(cut is EndReason.STOP), cut), commits


stops = st.lists(
    st.sampled_from(["ab", "aba", "b", "bba", "\u00e9", "\u65e5a", "ba\u65e5", "\U0001f680", "abababab"]),
    max_size=3,
    unique=True,
)


@given(
    st.lists(st.integers(0, len(PIECES) - 1), max_size=24),
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    stops,
    st.sets(st.sampled_from([0, SPECIAL, EMPTY, 8]), max_size=2),
    st.integers(1, 30),
    st.integers(4, 30),
)
@settings(max_examples=300)
@example([2], [1], ["b", "ab"], set(), 30, 30)  # one token completes two stop strings
@example([0, 3], [1], ["bab", "ab"], set(), 30, 30)
@example([0, 0, 0, 1, 0], [3, 1], ["aab", "abab"], set(), 30, 30)
@example([2, 2, 2, SPECIAL, 1], [2], ["abababb"], {SPECIAL}, 30, 30)
@example([4, 6, 7, 4, 5], [1], ["\u65e5"], set(), 30, 30)
def test_any_partition_is_one_token_at_a_time(
    ids: list[int], blocks: list[int], stop: list[str], eos: set[int], most: int, room: int
) -> None:
    limits = Limits(most, room, frozenset(eos), tuple(stop))
    expected = by_the_book(ids, limits, prompt_length=3)
    for sizes in (blocks, [1], [100]):
        outcome, commits = commit_all(ids, limits, sizes)
        assert outcome == expected
        streamed = ""
        for commit in commits:
            streamed += commit.text
            assert expected[1].startswith(streamed), "text that was shown is never withdrawn"


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=60), st.integers(1, 9))
def test_the_text_is_the_decoded_bytes(ids: list[int], size: int) -> None:
    (kept, text, cut), _ = commit_all(ids, Limits(100, 1000), [size])
    assert kept == ids
    assert cut is None
    assert text == b"".join(map(text_bytes, ids)).decode("utf-8", "replace")


def test_the_token_in_which_the_stop_begins_is_kept() -> None:
    answer = Answer([0], Tokens(), Limits(9, 99, stop=("bb",)))
    commit = answer.commit([0, 3, 1, 0])  # "a" "bab" "b" "a"
    assert commit == Commit(tokens=(0, 3), text="aba", cut=EndReason.STOP, taken_back=0)
    assert answer.finish(stopped=True) == ""


def test_a_stop_that_began_in_earlier_blocks_takes_tokens_back() -> None:
    answer = Answer([0], Tokens(), Limits(9, 99, stop=("baab",)))
    first = answer.commit([0, 1, 0])
    assert (first.text, first.cut) == ("a", None), "what may turn into the stop is held back"
    second = answer.commit([0])
    assert (second.text, second.tokens) == ("", (0,))
    third = answer.commit([1, 0])
    assert third == Commit(tokens=(), text="", cut=EndReason.STOP, taken_back=2)
    assert answer.new_tokens == [0, 1]


def test_text_held_back_for_a_stop_that_does_not_come() -> None:
    answer = Answer([0], Tokens(), Limits(9, 99, stop=("abb",)))
    assert answer.commit([0, 1]).text == ""
    assert answer.commit([0]).text == "ab"
    assert answer.finish(stopped=False) == "a"


@pytest.mark.parametrize(("ids", "final"), [([0, 4], "\ufffd"), ([10, 6], "\ufffd"), ([9], "")])
def test_a_broken_end_is_flushed(ids: list[int], final: str) -> None:
    answer = Answer([0], Tokens(), Limits(9, 99))
    answer.commit(ids)
    assert answer.finish(stopped=False) == final


def test_a_one_token_answer() -> None:
    (ids, text, cut), _ = commit_all([2], Limits(1, 99), [1])
    assert (ids, text, cut) == ([2], "ab", EndReason.MAX_NEW_TOKENS)


def test_special_tokens_give_no_text_and_end_the_answer_only_if_told() -> None:
    (ids, text, cut), _ = commit_all([0, SPECIAL, 1], Limits(9, 99), [3])
    assert (ids, text, cut) == ([0, SPECIAL, 1], "ab", None)
    (ids, text, cut), _ = commit_all([0, SPECIAL, 1], Limits(9, 99, frozenset({SPECIAL})), [3])
    assert (ids, text, cut) == ([0, SPECIAL], "a", EndReason.EOS)


def test_a_stop_wins_over_the_end_of_sequence_and_the_limit() -> None:
    """All three at once: plain decoding looks at the text first."""
    _, commits = commit_all([0, 1], Limits(2, 5, frozenset({1}), ("ab",)), [2])
    assert commits[-1].cut is EndReason.STOP
    _, commits = commit_all([0, 1], Limits(2, 5, frozenset({1})), [2])
    assert commits[-1].cut is EndReason.EOS
    _, commits = commit_all([0, 0], Limits(2, 5), [2])
    assert commits[-1].cut is EndReason.CONTEXT


def test_memory_does_not_grow_with_the_text() -> None:
    answer = Answer([0], Tokens(), Limits(10**6, 10**6, stop=("abbbbbba",)))
    for _ in range(500):
        answer.commit([0, 3, 10, 4])
    assert len(answer._tail) < 30


@given(
    st.lists(st.integers(0, len(PIECES) - 1), max_size=9),
    st.integers(0, 9),
    st.sampled_from(["abb", "ba", "é"]),
)
def test_an_answer_goes_on_after_given_tokens_as_if_it_had_written_them(
    ids: list[int], split: int, stop: str
) -> None:
    limits = Limits(100, 200, stop=(stop, "x" * 9))
    split = min(split, len(ids))
    (whole_ids, whole_text, reason), _ = commit_all(ids, limits, [1])
    before = by_the_book(ids[:split], limits, 3)
    if before[2] is not None:
        return  # a stop string among the given tokens stops nothing: the user wants it there
    answer = Answer([1, 2, 3, *ids[:split]], Tokens(), limits)
    text = answer.begin_after(ids[:split])
    commit = answer.commit(ids[split:])
    text += commit.text + answer.finish(stopped=commit.cut is EndReason.STOP)
    assert commit.cut is reason
    if len(whole_ids) >= split and text == whole_text:
        assert ids[:split] + answer.new_tokens == whole_ids
        return
    # The stop string began in the given tokens: those stay, with what they say.
    assert reason is EndReason.STOP
    assert answer.new_tokens == []
    assert text.startswith(whole_text.rstrip("\ufffd"))


def test_a_stop_string_that_was_given_whole_stops_nothing() -> None:
    answer = Answer([1, 2, 2], Tokens(), Limits(9, 99, stop=("ab", "a" * 20)))
    assert answer.begin_after([2]) == "ab"
    assert answer.commit([0]).cut is None
    assert answer.commit([1]).cut is EndReason.STOP
