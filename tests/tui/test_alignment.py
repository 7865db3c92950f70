"""Two answers side by side: no token is lost or shown twice, and token N stands beside token N."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.nasty import NASTY, OBEYED

from tui.alignment import Line, Shown, align, parts_of, shown

PIECES = st.one_of(
    st.sampled_from(
        [b" the", b"quick", b"\n", b"\n    ", b":\n  ", b" ", b"   ", b"", b"\xe2\x82", b"a" * 40]
    ),
    st.sampled_from(["\u65e5\u672c\u8a9e".encode(), "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode()]),
    st.sampled_from([text.encode() for text in NASTY]),
    st.binary(max_size=12),
)
TEXTS = st.lists(PIECES, max_size=30).map(lambda pieces: [shown(piece) for piece in pieces])


def column(lines: list[Line], tokens: list[Shown], width: int) -> list[str]:
    """What a column shows, line by line; as the pane puts it together."""
    rows = []
    for line in lines:
        texts = [token.text for token in tokens[line.start : line.end]]
        if not line.is_whole:
            parts = parts_of(texts[0], width) if texts else []
            texts = parts[line.part : line.part + 1]
        rows.append("".join(texts))
    return rows


@given(first=TEXTS, second=TEXTS, width=st.integers(1, 30), data=st.data())
def test_every_token_appears_once_in_order(
    first: list[Shown], second: list[Shown], width: int, data: st.DataObject
) -> None:
    total = max(len(first), len(second))
    at = data.draw(st.one_of(st.none(), st.integers(0, total - 1))) if total else None
    lines = align(first, second, width, at)
    for tokens in (first, second):
        assert "".join(column(lines, tokens, width)) == "".join(token.text for token in tokens)
    firsts = [line for line in lines if not line.is_marker and line.part == 0]
    assert [index for line in firsts for index in range(line.start, line.end)] == [*range(total)]
    markers = [line.start for line in lines if line.is_marker]
    assert markers == ([] if at is None else [at, at])
    if at is not None:
        behind = lines[lines.index(Line(at, at, 1)) + 1]
        assert behind.start == at, "the line behind the marker begins with the token that differs"


@given(first=TEXTS, second=TEXTS, width=st.integers(2, 30))
def test_lines_fit_their_column(first: list[Shown], second: list[Shown], width: int) -> None:
    lines = align(first, second, width)
    for tokens in (first, second):
        assert all(cell_len(row) <= width for row in column(lines, tokens, width))


@given(tokens=TEXTS, width=st.integers(20, 60))
def test_lines_end_where_the_text_does(tokens: list[Shown], width: int) -> None:
    for line in align(tokens, [], width):
        inner = tokens[line.start : line.end]
        assert not any(token.ends_line for token in inner[:-1])
        assert not any(token.begins_line for token in inner[1:])


@given(st.binary(max_size=20), st.booleans())
def test_what_is_shown_is_harmless_and_never_nothing(piece: bytes, ascii_only: bool) -> None:
    token = shown(piece, ascii_only=ascii_only)
    assert token.text and not OBEYED.search(token.text)
    assert token.width == cell_len(token.text)


def test_blanks_and_line_ends() -> None:
    assert shown(b" word ").text == " word "
    assert shown(b"  ").text == "\u00b7\u00b7"
    assert shown(b"").text == "(nothing)"
    assert (shown(b"\n").ends_line, shown(b"\n").begins_line) == (True, False)
    assert (shown(b"\n   ").ends_line, shown(b"\n   ").begins_line) == (False, True)
    assert (shown(b":\n  ").ends_line, shown(b":\n  ").begins_line) == (True, False)


def test_a_wide_token_has_lines_of_its_own_beside_a_narrow_one() -> None:
    lines = align([shown(b"a"), shown(b"b" * 25), shown(b"c")], [shown(b"x"), shown(b"y"), shown(b"z")], 10)
    assert lines == [
        Line(0, 1),
        Line(1, 2, 0, is_whole=False),
        Line(1, 2, 1, is_whole=False),
        Line(1, 2, 2, is_whole=False),
        Line(2, 3),
    ]


def test_many_tokens_cost_their_number() -> None:
    tokens = [shown(b" word")] * 50_000
    assert len(align(tokens, tokens, 40, 49_999)) == 50_000 // 8 + 2 + 1
