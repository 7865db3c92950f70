"""The answer, token by token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.panes import (
    NASTY_PIECES,
    answered,
    assert_safe,
    finished,
    fold,
    plain_step,
    rows,
    run,
    shown,
    started,
    style_at,
    with_rounds,
)
from support.scripted import make_round
from textual.events import MouseScrollUp
from textual.selection import SELECT_ALL

from engine.events import EndReason
from tui.state import RevealNext, Trail, reduce
from tui.widgets.flow import TokenFlow
from tui.widgets.messages import BranchRequested, TokenSelected
from tui.widgets.output import OutputPane

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
CHARS = st.sampled_from(
    [
        *"ab \n\t",
        "\u65e5",
        "\u0301",
        "\u200d",
        "\u200c",
        "\ufe0f",
        "\u2764",
        FAMILY,
        "\U0001f1e9",
        "\x1b",
        "\xff",
    ]
)
PIECES = st.lists(st.one_of(st.lists(CHARS, max_size=6).map("".join).map(str.encode), st.binary(max_size=4)))


def flow_text(flow: TokenFlow) -> list[str]:
    return ["".join(run.text for run in row.runs) for row in flow.rows]


@given(PIECES, st.integers(1, 30))
def test_rows_do_not_depend_on_how_the_tokens_came(pieces: list[bytes], width: int) -> None:
    whole = TokenFlow(width)
    whole.append(pieces)
    whole.finish()
    parts = TokenFlow(width)
    for piece in pieces:
        parts.append([piece])
    parts.finish()
    assert [row.runs for row in parts.rows] == [row.runs for row in whole.rows]


@given(PIECES, st.integers(12, 30))
def test_rows_keep_the_text_and_the_width(pieces: list[bytes], width: int) -> None:
    flow = TokenFlow(width)
    flow.append(pieces)
    flow.finish()
    source = "".join(run.source for row in flow.rows for run in row.runs)
    assert source == b"".join(pieces).decode("utf-8", "surrogateescape")
    assert all(cell_len(text) <= width for text in flow_text(flow))
    tokens = [run.token for row in flow.rows for run in row.runs]
    assert tokens == sorted(tokens)


@pytest.mark.parametrize(
    ("pieces", "width", "expected"),
    [
        ([b"one", b" two", b" three"], 8, ["one two", "three"]),
        ([b"one", b" two"], 3, ["one", "two"]),
        ([b"abcdefgh"], 3, ["abc", "def", "gh"]),
        ([b"a\n", b"\n", b"b"], 5, ["a\n", "\n", "b"]),
        (["\u65e5\u672c\u8a9e".encode()], 5, ["\u65e5\u672c", "\u8a9e"]),
        ([b"a\tb"], 9, ["a   b"]),
        ([b"e", "\u0301".encode(), b"x"], 9, ["e\u0301x"]),
        ([FAMILY.encode()[:5], FAMILY.encode()[5:]], 9, [FAMILY]),
        ([b"\xe2", b"\x82", b"\xac"], 9, ["\u20ac"]),
        ([b"\xe2", b"x"], 9, ["<E2>x"]),
        ([b"\xff\x1b"], 9, ["<FF>\u241b"]),
    ],
)
def test_wrapping(pieces: list[bytes], width: int, expected: list[str]) -> None:
    flow = TokenFlow(width)
    flow.append(pieces)
    assert [text.rstrip(" ") for text in flow_text(flow)] == expected


def test_half_a_character_waits_and_is_a_chip_only_at_the_end() -> None:
    flow = TokenFlow(20)
    flow.append([b"a", b"\xe2\x82"])
    assert flow_text(flow) == ["a"]
    flow.finish()
    assert flow_text(flow) == ["a<E2><82>"]
    assert [run.token for run in flow.rows[0].runs] == [0, 1]


def test_a_cluster_belongs_to_its_first_token() -> None:
    flow = TokenFlow(20)
    flow.append(["\U0001f468".encode(), "\u200d\U0001f469".encode(), b"!"])
    assert [(run.text, run.token) for run in flow.rows[0].runs] == [
        ("\U0001f468\u200d\U0001f469", 0),
        ("!", 2),
    ]


def test_marks_are_styles_and_the_last_line_explains_them() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            state = with_rounds(
                [
                    make_round(1, 2, 1, pieces=[b"good", b" bad", b" fixed"]),
                    make_round(2, 1, 1, pieces=[b" fine", b" more"]),
                ]
            )
            pane.show(state)
            await pilot.pause()
            assert rows(pane)[0] == "good fixed fine more"
            assert rows(pane)[-1].split() == ["accepted", "correction", "bonus"]
            assert style_at(pane, "good") == (False, False, False, False)
            assert style_at(pane, "fixed") == (True, True, False, False)
            assert style_at(pane, "more") == (True, False, False, False)
            await pilot.press("m")
            assert style_at(pane, "fixed") == (False, False, False, False)

    run(scenario)


def test_blanks_and_line_ends_are_visible_with_marks_only() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            pane.show(answered([b"a", b"  ", b"b", b"\n", b"c\td"]))
            await pilot.pause()
            assert rows(pane)[:2] == ["a\u00b7\u00b7b\u23ce", "c\u2192  d"]
            await pilot.press("m")
            assert rows(pane)[:2] == ["a  b", "c   d"]
            copied = pane.get_selection(SELECT_ALL)
            assert copied is not None
            assert copied[0] == "a  b\nc\td"

    run(scenario)


def test_copying_gives_the_text_not_the_screen() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (24, 8)) as (pane, pilot, _):
            text = "def f(x):\n    return x  # a comment that is wrapped\n\n\u65e5\u672c\u8a9e done"
            pane.show(answered([word.encode() for word in text.split("|")]))
            await pilot.pause()
            copied = pane.get_selection(SELECT_ALL)
            assert copied is not None
            assert copied[0] == text

    run(scenario)


def test_the_cursor_goes_from_token_to_token_and_says_what_is_chosen() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, app):
            pane.show(answered([b"one", b" two", b"\n", b" three"]))
            await pilot.pause()
            await pilot.press("enter", "b")
            assert app.told == []
            await pilot.press("left", "h", "h")
            assert pane.cursor == 1
            assert style_at(pane, "two")[3]
            assert rows(pane)[-1].startswith("2/4 \u00b7two bonus, round 1, id 101")
            await pilot.press("enter", "b", "down")
            assert pane.cursor == 3
            await pilot.pause()
            assert [type(message) for message in app.told] == [TokenSelected, BranchRequested]
            assert [getattr(message, "index", None) for message in app.told] == [1, 1]
            await pilot.press("escape")
            assert pane.cursor is None

    run(scenario)


def test_a_click_chooses_a_token() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, app):
            pane.show(answered([b"one", b" two"]))
            await pilot.click(OutputPane, offset=(6, 1))
            await pilot.pause()
            assert [getattr(message, "index", None) for message in app.told] == [1]

    run(scenario)


def test_the_view_follows_its_tail_until_the_user_scrolls() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (30, 8)) as (pane, pilot, _):
            state = answered([f"line {n}\n".encode() for n in range(40)])
            pane.show(state)
            await pilot.pause()
            assert pane.follows
            assert any("line 39" in row for row in rows(pane))
            await pilot.press("k", "k")
            assert not pane.follows
            at = pane.scroll_offset.y
            pane.show(answered([b"new\n", b"newer"], state))
            await pilot.pause()
            assert pane.scroll_offset.y == at
            await pilot.press("G")
            assert pane.follows
            assert rows(pane)[-2] == "newer"
            await pilot.press("g")
            assert rows(pane)[0].startswith("line 0")
            await pilot.press("ctrl+d")
            assert pane.scroll_offset.y == pane.page // 2

    run(scenario)


def test_16000_tokens_cost_no_more_a_frame_than_the_first() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (60, 12)) as (pane, pilot, _):
            state = answered([f" w{n % 97}".encode() for n in range(16_000)])
            pane.show(state)
            await pilot.pause()
            for _ in range(20):
                laid_out, built = pane.laid_out, pane.built
                state = answered([b" more", b" words"], state)
                pane.show(state)
                await pilot.pause()
                assert pane.laid_out - laid_out <= 2
                assert pane.built - built <= 3

    run(scenario)


def test_a_search_finds_over_row_ends_and_counts() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (24, 8)) as (pane, pilot, _):
            words = [" alpha", " beta", " gamma"] * 10
            state = answered([word.encode() for word in words])
            pane.show(state)
            await pilot.pause()
            await pilot.press("slash", *"gamma alp", "enter")
            assert "of 9" in rows(pane)[-1]
            first = pane.finder.current
            await pilot.press("n")
            assert pane.finder.current != first
            await pilot.press("N")
            assert pane.finder.current == first
            assert any(
                segment.style is not None and segment.style.reverse
                for y in range(pane.size.height - 1)
                for segment in pane.render_line(y)
            )
            pane.show(answered([b" alpha", b" beta"], state))
            assert len(pane.finder.places) == 10
            await pilot.press("escape")
            assert rows(pane)[-1].startswith("accepted")

    run(scenario)


def test_typing_a_search_does_nothing_else() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, app):
            pane.show(answered([b"a", b" b"]))
            await pilot.press("slash", "m", "b", "q", "backspace")
            assert pane.marks
            assert rows(pane)[-1].startswith("/mb")
            await pilot.press("escape")
            assert app.told == []
            assert rows(pane)[-1].startswith("accepted")

    run(scenario)


THINKING = [b"<think>", b"\nwell", b" now", b"</think>", b"\n\n", b"Yes", b"."]


def test_thinking_is_folded_into_a_line() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            state = answered(THINKING[:2])
            pane.show(state)
            await pilot.pause()
            assert rows(pane)[0] == "\u25b8 thinking: 2 tokens, 100% of the drafts accepted\u2026"
            state = answered(THINKING[2:], state)
            pane.show(state)
            await pilot.pause()
            assert rows(pane)[0] == "\u25b8 thinking: 4 tokens, 100% of the drafts accepted"
            assert "Yes." in rows(pane)
            assert not any("well" in row for row in rows(pane))
            await pilot.press("t")
            assert rows(pane)[1:5] == ["<think>\u23ce", "well now</think>", "\u23ce", "\u23ce"]
            await pilot.press("t")
            assert not any("well" in row for row in rows(pane))

    run(scenario)


def test_thinking_that_the_prompt_opened() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            pane.show(answered([b"hm", b"</think>", b"Yes"], started(prompt_pieces=(b"<think>", b"\n"))))
            await pilot.pause()
            assert rows(pane)[0].startswith("\u25b8 thinking: 2 tokens")
            assert rows(pane)[1] == "Yes"

    run(scenario)


def test_stepping_shows_no_token_before_its_step() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            state = reduce(with_rounds([make_round(1, 1, 1, pieces=[b"a", b"b"])]), RevealNext())
            state = reduce(state, make_round(2, 2, 1, pieces=[b"c", b"d", b"e"]))
            seen = []
            while True:
                pane.show(state)
                await pilot.pause()
                seen.append(rows(pane)[0])
                if state.revealed is None:
                    break
                state = reduce(state, RevealNext())
            assert seen == ["ab", "ab", "abc", "abc", "abce"]

    run(scenario)


def test_tokens_that_are_taken_back_go() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            state = answered([b"a", b"b", b"c", b"d"])
            pane.show(state)
            await pilot.pause()
            pane.show(fold(state, [plain_step(1, b"!")]))
            assert rows(pane)[0] == "abcd!"
            pane.show(finished(state))
            assert rows(pane)[0] == "abcd"

    run(scenario)


def test_another_width_wraps_again_and_keeps_the_place() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (60, 10)) as (pane, pilot, _):
            pane.show(answered([f" word{n}".encode() for n in range(400)]))
            await pilot.pause()
            await pilot.press("g", *["j"] * 5)
            top = rows(pane)[0].split()[0]
            await pilot.resize_terminal(30, 10)
            await pilot.pause()
            assert top in rows(pane)[0]
            assert_safe(pane)

    run(scenario)


@pytest.mark.parametrize("size", [(20, 5), (80, 24)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_nasty_text(size: tuple[int, int], ascii_only: bool) -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), size, ascii_only=ascii_only) as (pane, pilot, _):
            state = started()
            pieces: Sequence[bytes] = [
                piece for nasty in NASTY_PIECES for piece in (nasty, b"\x1b", nasty[:1])
            ]
            for at in range(0, len(pieces), 2):
                state = answered(pieces[at : at + 2], state)
                pane.show(state)
                assert_safe(pane)
            pane.show(finished(state))
            await pilot.press("left", "left", "slash", "x", "enter", "g")
            assert_safe(pane)
            for y in range(0, pane.row_total(), 4):
                pane.scroll_to(y=y, animate=False)
                assert_safe(pane)

    run(scenario)


def test_an_empty_pane_says_what_to_do() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (40, 8)) as (pane, pilot, _):
            assert "No model is loaded yet." in rows(pane)[0]
            pane.show(started())
            await pilot.pause()
            assert rows(pane)[0].startswith("No answer yet")

    run(scenario)


def test_the_wheel_scrolls_and_stops_the_following() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (30, 8)) as (pane, pilot, _):
            pane.show(answered([f"line {n}\n".encode() for n in range(40)]))
            await pilot.pause()
            at = pane.scroll_offset.y
            pane.post_message(MouseScrollUp(pane, 5, 5, 0, 0, 0, False, False, False))
            await pilot.pause()
            assert pane.scroll_offset.y < at
            assert not pane.follows

    run(scenario)


def test_what_came_while_the_pane_was_hidden_is_there_when_it_is_shown() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            pane.display = False
            await pilot.pause()
            pane.show(answered([b"one", b" two"]))
            pane.display = True
            await pilot.pause()
            assert rows(pane)[0] == "one two"

    run(scenario)


def test_escape_is_left_to_the_app_when_there_is_nothing_to_leave() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            pane.show(answered([b"one", b" two"]))
            await pilot.press("left")
            assert pane.check_action("leave", ()) is True
            await pilot.press("escape")
            assert pane.check_action("leave", ()) is False

    run(scenario)


def test_a_new_run_starts_over() -> None:
    async def scenario() -> None:
        async with shown(OutputPane()) as (pane, pilot, _):
            state = finished(answered([b"old", b" text"]), EndReason.CANCELLED)
            pane.show(state)
            await pilot.press("left")
            pane.show(fold(started(plain=True), [plain_step(1, b"new")]))
            await pilot.pause()
            assert rows(pane)[0] == "new"
            assert rows(pane)[-1].startswith("plain")
            assert isinstance(pane._output, Trail)

    run(scenario)


def test_a_token_of_a_round_without_drafts_is_no_bonus() -> None:
    async def scenario() -> None:
        async with shown(OutputPane(), (40, 8)) as (pane, pilot, _):
            pane.show(with_rounds([make_round(1, 1, 1, pieces=[b"one", b"two"])]))
            await pilot.pause()
            assert rows(pane)[-1] == "accepted  correction  bonus"
            bonus = next(segment.style for segment in pane.render_line(0) if segment.text == "two")
            nothing_drafted = make_round(2, 0, 0, pieces=[b"three"])
            pane.show(with_rounds([make_round(1, 1, 1, pieces=[b"one", b"two"]), nothing_drafted]))
            await pilot.pause()
            assert rows(pane)[-1] == "accepted  correction  bonus  plain"
            plain = next(segment.style for segment in pane.render_line(0) if segment.text == "three")
            assert bonus is not None and plain is not None
            assert bonus.bold and not plain.bold and bonus.color != plain.color
            pane.select(2)
            assert "plain, round 2" in rows(pane)[-1]

    run(scenario)
