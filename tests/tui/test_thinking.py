"""Thinking is what stands in the block that begins an answer, counted the same token by token and at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import make_round
from support.story import fold, opening

from engine.thinking import begin_thinking
from tui.state import NOTHING, Thinking, ThinkingStage, split_thinking

PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<th", "ink>", "</", "think>", "\n", " ", "a", "<", ">", "\u65e5"]
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("text", "opened", "thinking", "answer"),
    [
        ("", False, "", ""),
        ("Paris.", False, "", "Paris."),
        ("<think>\nhm\n</think>\n\nParis.", False, "hm", "Paris."),
        ("\n <think>hm", False, "hm", ""),
        ("<think></think>Paris.", False, "", "Paris."),
        ("hm</think> Paris.", True, "hm", "Paris."),
        ("hm", True, "hm", ""),
        ("<think>hm</think>Paris.", True, "hm", "Paris."),
        ("Write <think> in front.", False, "", "Write <think> in front."),
        ("a</think>b", False, "", "a</think>b"),
        ("<think>a</think>b<think>c</think>", False, "a", "b<think>c</think>"),
    ],
)
def test_the_block_is_taken_out(text: str, opened: bool, thinking: str, answer: str) -> None:
    assert split_thinking(text, opened) == (thinking, answer)


@given(PIECES, st.booleans())
def test_the_tokens_counted_are_those_of_the_block(pieces: list[str], opened: bool) -> None:
    text = "".join(pieces)
    inside = opened or text.lstrip().startswith("<think>")
    begin = text.find("<think>") + len("<think>") if text.lstrip().startswith("<think>") else 0
    end = text.find("</think>", begin)
    expected = 0
    if inside:
        whole = len(text) if end < 0 else end + len("</think>")
        lengths = [len("".join(pieces[:count])) for count in range(len(pieces) + 1)]
        expected = next((count for count, length in enumerate(lengths) if length >= whole), len(pieces))
    thinking = begin_thinking((b"<think>",) if opened else ())
    for piece in pieces:
        thinking = thinking.add(piece.encode())
    assert thinking.count == expected


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ((b"<|im_start|>", b"assistant\n", b"<think>", b"\n"), True),
        ((b"<", b"think", b">", b"\n\n"), True),
        ((b"<think>", b"\n\n", b"</think>", b"\n\n"), False),
        ((b"assistant\n",), False),
        ((), False),
    ],
)
def test_a_prompt_may_open_the_block(prompt: tuple[bytes, ...], opened: bool) -> None:
    assert begin_thinking(prompt).inside is opened


def test_the_state_counts_it_and_keeps_its_statistics_apart() -> None:
    inside = make_round(1, 2, 2, pieces=[b"<think>", b"hm", b"hm"])
    ending = make_round(2, 2, 1, pieces=[b"</think>", b"x", b"Pa"])
    answer = make_round(3, 2, 2, pieces=[b"ri", b"s", b"."])
    state = fold([*opening(), inside])
    assert (state.thinking.stage, state.thinking.count) == (ThinkingStage.INSIDE, 3)
    state = fold([ending, answer], state)
    assert (state.thinking.stage, state.thinking.count) == (ThinkingStage.PAST, 4)
    assert state.thinking.measures.counts == NOTHING.with_rounds([inside, ending]).counts
    assert split_thinking("".join(state.text)) == ("hmhm", "Paris.")

    opened = fold([*opening(prompt=(b"<think>", b"\n")), make_round(1, 1, 0, pieces=[b"x", b"hm"]), ending])
    assert (opened.thinking.count, opened.thinking.measures.rounds) == (2, 2)


def test_given_tokens_may_open_it_and_withdrawn_ones_leave_it() -> None:
    state = fold(opening(given=(b"<think>", b"a")))
    assert state.thinking.count == 2
    assert state.thinking.take_back(1).count == 1
    assert Thinking().take_back(0) == Thinking()
