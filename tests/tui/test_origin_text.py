"""Every character of an answer is shown once, in the style of its token where that can be told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.scripted import make_round

from engine.events import EndReason, Origin
from tui.origin_text import OriginText

A, C, B = Origin.ACCEPTED, Origin.CORRECTION, Origin.BONUS


def test_segments_follow_the_tokens() -> None:
    text = OriginText()
    assert text.add_round(make_round(1, 2, 2, pieces=[b"one", b" two", b" three"])) == [
        ("one two", A),
        (" three", B),
    ]
    assert text.add_round(make_round(2, 2, 0, pieces=[b"x", b"y", b" four"])) == [(" four", C)]


def test_text_held_back_keeps_its_origin() -> None:
    text = OriginText()
    assert text.add_round(make_round(1, 1, 1, pieces=[b"ab", b"cd"], text="ab")) == [("ab", A)]
    assert text.add_round(make_round(2, 1, 1, pieces=[b"ef", b"gh"], text="cdef")) == [("cd", B), ("ef", A)]
    assert text.finish("gh") == [("gh", B)]


def test_a_character_over_two_tokens_belongs_to_the_first() -> None:
    text = OriginText()
    assert text.add_round(make_round(1, 1, 1, pieces=[b"\xe6\x97", b"\xa5!"])) == [("\u65e5", A), ("!", B)]


def test_tokens_that_are_not_shown_are_passed_over() -> None:
    text = OriginText()
    first = make_round(1, 1, 1, pieces=[b"hi", b"<eos>"], text="hi", cut=EndReason.EOS)
    assert text.add_round(first) == [("hi", A)]
    assert text.finish("") == []
    assert text.add([(b"<special>", B), (b"more", A)], "more") == [("more", A)]


def test_text_that_the_pieces_do_not_spell_is_plain_and_gets_in_step_again() -> None:
    text = OriginText()
    assert text.add([(b"\xff", A), (b"abc", B)], "\ufffdab") == [("\ufffdab", None)]
    assert text.add([(b"def", A)], "cdef") == [("c", None), ("def", A)]


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(st.binary(max_size=4), st.sampled_from([A, B, C]))), st.text(max_size=5))
    ),
    st.text(max_size=5),
)
def test_no_character_is_lost(parts: list[tuple[list[tuple[bytes, Origin]], str]], tail: str) -> None:
    text = OriginText()
    for tokens, shown in parts:
        assert "".join(part for part, _ in text.add(tokens, shown)) == shown
    assert "".join(part for part, _ in text.finish(tail)) == tail


@given(st.lists(st.tuples(st.text(min_size=1, max_size=4), st.sampled_from([A, B, C]))), st.data())
def test_held_text_is_styled_by_its_token(tokens: list[tuple[str, Origin]], data: st.DataObject) -> None:
    text = OriginText()
    told: list[Origin | None] = []
    held = ""
    for piece, origin in tokens:
        held += piece
        count = data.draw(st.integers(0, len(held)))
        for part, found in text.add([(piece.encode(), origin)], held[:count]):
            told += [found] * len(part)
        held = held[count:]
    for part, found in text.finish(held):
        told += [found] * len(part)
    assert told == [origin for piece, origin in tokens for _ in piece]
