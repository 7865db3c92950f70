"""Nothing that a terminal obeys, and nothing that hides, passes ``visible``."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.safe_text import VisibleStream, visible, visible_bytes

NASTY = st.text(
    st.one_of(
        st.characters(codec=None, exclude_categories=()),
        st.sampled_from(
            "a \n\t\r\x1b\x7f\x9b\u200d\u200c\ufe0f\ufe0e\u202e\u2764\U0001f525\u0915\u094d\U000e0067"
        ),
    )
)
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [/] [red]x[/] text\n", "plain [/] [red]x[/] text\n"),
        ("\x1b]52;c;aGk=\x07", "\u241b]52;c;aGk=\u2407"),
        ("a\rb\tc\x00", "a\u240db\u2409c\u2400"),
        ("\x7f\x9b31m", "\u2421<U+009B>31m"),
        ("\u202eevil\u202c\u2066\u061c", "<U+202E>evil<U+202C><U+2066><U+061C>"),
        ("pass\u200bword\ufeff\u00ad", "pass<U+200B>word<U+FEFF><U+00AD>"),
        ("\u2028\u2029\x85", "<U+2028><U+2029><U+0085>"),
        ("\ud800\uffff\U0001fffe", "<U+D800><U+FFFF><U+1FFFE>"),
        ("hi\U000e0041\U000e007f", "hi<U+E0041><U+E007F>"),
        ("a\u200db", "a<U+200D>b"),
        ("\u200d", "<U+200D>"),
        ("a\ufe0f", "a<U+FE0F>"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f<U+FE0F>"),
    ],
)
def test_dangerous_characters_get_a_visible_form(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # family
        "\u2764\ufe0f\u200d\U0001f525",  # heart on fire
        "\U0001f3f3\ufe0f\u200d\U0001f308",  # rainbow flag
        "\U0001f44b\U0001f3fd",  # skin tone
        "\U0001f1e9\U0001f1ea",  # regional flag
        "1\ufe0f\u20e3",  # keycap
        "\u0915\u094d\u200d\u0937",  # Devanagari with a joiner
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian with a non-joiner
        "\u845b\U000e0100",  # ideographic variation
        "na\u00efve cafe\u0301 \u65e5\u672c\u8a9e \ud55c\uae00 \ufffd",
    ],
)
def test_real_scripts_and_emoji_stay(text: str) -> None:
    assert visible(text) == text


@given(NASTY)
def test_output_is_safe_and_stable(text: str) -> None:
    shown = visible(text)
    assert not OBEYED.search(shown)
    assert visible(shown) == shown
    assert "\n" not in visible(text, "")


@given(NASTY)
def test_ascii_forms(text: str) -> None:
    shown = visible(text, "", ascii_only=True)
    assert {c for c in shown if c > "\x7f"} <= set(text)
    assert not OBEYED.search(shown)


def test_keep_takes_only_harmless_controls() -> None:
    assert visible("a\tb", "\n\t") == "a\tb"
    with pytest.raises(AssertionError, match="control"):
        visible("a", "\x1b")


@given(st.lists(NASTY))
def test_a_stream_equals_the_whole(parts: list[str]) -> None:
    stream = VisibleStream()
    shown = "".join(map(stream.feed, parts)) + stream.finish()
    assert shown == visible("".join(parts))


def test_a_joined_emoji_survives_being_streamed() -> None:
    stream = VisibleStream()
    assert stream.feed("\U0001f468\u200d") == "\U0001f468"
    assert stream.feed("\U0001f469") == "\u200d\U0001f469"


@pytest.mark.parametrize(
    ("piece", "shown", "ascii_shown"),
    [
        (b" the", "\u00b7the", "~the"),
        (b"a b ", "a b\u00b7", "a b~"),
        (b"   ", "\u00b7\u00b7\u00b7", "~~~"),
        (b"\n\n", "\u23ce\u23ce", "\\n\\n"),
        (b"\tx", "\u2192x", "\\tx"),
        (b"\xe2\x82", "<E2><82>", "<E2><82>"),
        (b"ok\xff", "ok<FF>", "ok<FF>"),
        (b"\x1b[2J", "\u241b[2J", "<U+001B>[2J"),
        (b"", "", ""),
        ("\u00e9\u00a0".encode(), "\u00e9<U+00A0>", "\u00e9<U+00A0>"),
    ],
)
def test_pieces(piece: bytes, shown: str, ascii_shown: str) -> None:
    assert visible_bytes(piece) == shown
    assert visible_bytes(piece, ascii_only=True) == ascii_shown


@given(st.binary())
def test_pieces_are_one_safe_line(piece: bytes) -> None:
    shown = visible_bytes(piece)
    assert not OBEYED.search(shown)
    assert "\n" not in shown


def test_speed_does_not_depend_on_what_is_in_it() -> None:
    """Linear: a hostile text takes no more than seconds, where a quadratic rule would take minutes."""
    text = "\u200d\ufe0f\x1b" * 200_000
    start = time.perf_counter()
    visible(text)
    assert time.perf_counter() - start < 10
