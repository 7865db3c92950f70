"""One line a round."""

from __future__ import annotations

import dataclasses

import pytest
from rich.cells import cell_len
from support.panes import (
    NASTY_PIECES,
    assert_safe,
    fold,
    plain_step,
    rows,
    run,
    shown,
    started,
    style_at,
    with_rounds,
    with_run_number,
)
from support.scripted import make_round

from engine.events import EndReason
from tui.state import RevealNext, ViewState, reduce
from tui.widgets.messages import RoundSelected
from tui.widgets.round_filter import RoundFilter
from tui.widgets.rounds import RoundsPane

PIECES = [b" the", b" cat", b" sat", b" lay"]


def mixed(count: int = 12) -> ViewState:
    """Rounds that accept 0, 1, 2, 3, 0, ... of three drafts; the last one ends the answer."""
    rounds = [make_round(n, 3, (n - 1) % 4) for n in range(1, count)]
    return with_rounds([*rounds, make_round(count, 3, 1, cut=EndReason.EOS)])


def test_a_line_tells_the_round() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (64, 8)) as (pane, pilot, _):
            pane.show(with_rounds([make_round(1, 3, 1, pieces=PIECES), make_round(2, 3, 3, pieces=PIECES)]))
            await pilot.pause()
            first, second = rows(pane)[:2]
            assert first.startswith("   1  \u00b7the x\u00b7cat .\u00b7sat >\u00b7lay")
            assert first.endswith("1/3   43.9ms")
            assert "\u00b7the \u00b7cat \u00b7sat +\u00b7lay" in second
            assert style_at(pane, "\u00b7cat") == (False, False, True, False)
            assert style_at(pane, "\u00b7lay") == (True, True, False, False)
            assert "rejected" in rows(pane)[-1]

    run(scenario)


LEGENDS = {
    70: "accepted  xrejected  .ignored  >correction  +bonus",
    48: "accepted  xrejected  .ignored  >corr  +bonus",
    40: "ok  xrej  .ign  >corr  +bonus",
    29: "ok xrej .ign >corr +bonus",
    20: "ok  x  .  >  +",
}


@pytest.mark.parametrize("width", LEGENDS)
def test_every_mark_is_explained_at_any_width(width: int) -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (width, 8)) as (pane, pilot, _):
            pane.show(mixed(3))
            await pilot.pause()
            assert rows(pane)[-1] == LEGENDS[width]

    run(scenario)


@pytest.mark.parametrize("width", [28, 40, 60])
def test_narrow_lines_cut_the_tokens_and_keep_the_count_and_the_time(width: int) -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (width, 8)) as (pane, pilot, _):
            pane.show(with_rounds([make_round(1, 7, 3, pieces=[b" a rather long piece"] * 8)]))
            await pilot.pause()
            row = rows(pane)[0]
            assert row.split()[-2] == "3/7" and row.split()[-1] in {"44ms", "43.9ms"}
            assert "\u2026" in row

    run(scenario)


def test_a_round_without_drafts_says_so() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 8)) as (pane, pilot, _):
            pane.show(with_rounds([make_round(1, 0, 0, pieces=[b" as"])]))
            await pilot.pause()
            assert rows(pane)[0].split() == ["1", "\u00b7as", "no", "draft", "--", "43.9ms"]
            assert "+\u00b7as" not in rows(pane)[0]

    run(scenario)


def test_the_cut_is_told_and_what_it_took_away_has_no_mark() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (70, 8)) as (pane, pilot, _):
            pane.show(with_rounds([make_round(1, 3, 3, pieces=PIECES, cut=EndReason.STOP, keep=1)]))
            await pilot.pause()
            assert "\u00b7the \u00b7cat \u00b7sat \u00b7lay ends: stop" in rows(pane)[0]

    run(scenario)


@pytest.mark.parametrize("width", [20, 24, 30, 40, 60, 120])
def test_narrow_lines_are_cut_with_an_ellipsis(width: int) -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (width, 8)) as (pane, pilot, _):
            long = [b" a rather long piece"] * 8
            pane.show(with_rounds([make_round(1, 7, 3, pieces=long, cut=EndReason.EOS)]))
            await pilot.pause()
            assert_safe(pane)
            assert "\u2026" in rows(pane)[0]
            assert cell_len(rows(pane)[0]) <= pane.row_width

    run(scenario)


def test_selecting_tells_the_app_and_stops_the_following() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 8)) as (pane, pilot, app):
            state = mixed(30)
            pane.show(state)
            await pilot.pause()
            assert rows(pane)[-2].startswith("  30")
            await pilot.press("up", "k", "down")
            assert pane.selected == 29
            await pilot.press("k")
            row = next(row for row in rows(pane) if row.startswith("\u258c"))
            assert row.split()[1] == "29"
            pane.show(with_rounds([make_round(31, 3, 1)], state))
            await pilot.pause()
            assert not pane.follows
            await pilot.press("G")
            assert pane.follows
            assert rows(pane)[-2].startswith("  31")
            await pilot.press("g")
            assert pane.selected == 0
            await pilot.press("escape")
            await pilot.pause()
            told = [message.index for message in app.told if isinstance(message, RoundSelected)]
            assert told == [29, 28, 29, 28, None, 0, None]

    run(scenario)


def test_a_click_selects() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 8)) as (pane, pilot, _):
            pane.show(mixed(3))
            await pilot.click(RoundsPane, offset=(10, 2))
            assert pane.selected == 1

    run(scenario)


def test_filters() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 16)) as (pane, pilot, _):
            state = mixed(12)
            pane.show(state)
            await pilot.pause()
            expected = {
                RoundFilter.REJECTED_AT_0: ["1", "5", "9"],
                RoundFilter.ALL_ACCEPTED: ["4", "8"],
                RoundFilter.HAS_CUT: ["12"],
            }
            for kind, numbers in expected.items():
                await pilot.press("f")
                assert pane.filter is kind
                listed = [pane.build_row(y).text.split()[0] for y in range(pane.row_total())]
                assert listed == numbers
                assert rows(pane)[-1].startswith(f"{len(numbers)} of 12 {kind.value}")
            await pilot.press("f", "F", *"w7.", "enter")
            assert [pane.build_row(y).text.split()[0] for y in range(pane.row_total())] == ["7"]
            assert '1 of 12 with the text "w7."' in rows(pane)[-1]
            pane.show(with_rounds([make_round(13, 3, 0, pieces=[b"w7.x", *PIECES[1:]])], state))
            assert pane.row_total() == 2
            await pilot.press("F", *"nowhere", "enter")
            assert rows(pane)[0].startswith("No round passes the filter.")
            await pilot.press("F", "enter")
            assert pane.filter is RoundFilter.ALL
            assert pane.row_total() == 13

    run(scenario)


def test_moving_goes_over_the_rounds_that_are_listed() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 16)) as (pane, pilot, _):
            pane.show(mixed(12))
            pane.select(6)
            pane.set_filter(RoundFilter.REJECTED_AT_0)
            await pilot.press("down")
            assert pane.selected == 8
            await pilot.press("up")
            assert pane.selected == 4

    run(scenario)


def test_a_search_goes_to_rounds_and_sees_what_is_cut_off() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (30, 8)) as (pane, pilot, app):
            pane.show(mixed(40))
            await pilot.pause()
            await pilot.press("slash", *"W9.3", "enter")
            assert pane.selected == 8
            assert "1 of 1" in rows(pane)[-1]
            assert isinstance(app.told[-1], RoundSelected)

    run(scenario)


def test_stepping_hides_verdicts() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 8)) as (pane, pilot, _):
            state = reduce(with_rounds([make_round(1, 3, 3)]), RevealNext())
            state = reduce(state, make_round(2, 2, 0, pieces=[b"a", b"b", b"c"]))
            seen = []
            while state.revealed is not None:
                pane.show(state)
                seen.append(rows(pane)[1])
                state = reduce(state, RevealNext())
            pane.show(state)
            await pilot.pause()
            seen.append(rows(pane)[1])
            assert [" ".join(row.split()) for row in seen] == [
                "2 ?a ?/2",
                "2 ?a ?b ?/2",
                "2 xa .b ?/2",
                "2 xa .b >c 0/2 43.9ms",
            ]

    run(scenario)


def test_a_hidden_round_is_not_given_away_by_the_filter() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane()) as (pane, _, _):
            state = reduce(with_rounds([make_round(1, 3, 0)]), RevealNext())
            pane.set_filter(RoundFilter.REJECTED_AT_0)
            state = reduce(state, make_round(2, 3, 0))
            pane.show(state)
            assert pane.row_total() == 1
            while state.revealed is not None:
                state = reduce(state, RevealNext())
            pane.show(state)
            assert pane.row_total() == 2

    run(scenario)


def test_other_settings_have_a_sign() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane()) as (pane, pilot, _):
            other = dataclasses.replace(make_round(2, 3, 0), settings_id=2)
            pane.show(with_rounds([make_round(1, 3, 0), other]))
            await pilot.pause()
            assert rows(pane)[1].startswith("   2\u2022")

    run(scenario)


def test_10000_rounds_cost_no_more_a_frame_than_the_first() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), (60, 12)) as (pane, pilot, _):
            state = with_rounds(make_round(n, 3, n % 4) for n in range(1, 10_001))
            pane.show(state)
            await pilot.pause()
            for n in range(10_001, 10_011):
                built = pane.built
                state = with_rounds([make_round(n, 3, n % 4)], state)
                pane.show(state)
                await pilot.pause()
                assert pane.built - built <= 2

    run(scenario)


@pytest.mark.parametrize("size", [(20, 5), (100, 24)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_nasty_text(size: tuple[int, int], ascii_only: bool) -> None:
    async def scenario() -> None:
        async with shown(RoundsPane(), size, ascii_only=ascii_only) as (pane, pilot, _):
            state = started()
            for number, piece in enumerate(NASTY_PIECES, 1):
                round_ = make_round(number, 2, number % 3, pieces=[piece, b"ok", piece], cut=EndReason.EOS)
                state = reduce(state, dataclasses.replace(round_, k_reason=piece.decode("utf-8", "replace")))
                pane.show(state)
                assert_safe(pane)
            await pilot.press("up", "up", "F", "enter", "slash", "x", "enter", "g")
            assert_safe(pane)

    run(scenario)


def test_plain_decoding_has_no_rounds() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane()) as (pane, pilot, _):
            assert rows(pane)[0].startswith("No model is loaded yet.")
            pane.show(fold(started(plain=True), [plain_step(1, b"a")]))
            await pilot.pause()
            assert rows(pane)[0].startswith("Plain decoding drafts nothing")
            await pilot.press("up", "down", "g", "G", "n")

    run(scenario)


def test_a_new_run_starts_over() -> None:
    async def scenario() -> None:
        async with shown(RoundsPane()) as (pane, pilot, _):
            pane.show(mixed(5))
            pane.select(2)
            pane.show(with_run_number(with_rounds([make_round(1, 1, 1)]), 2))
            await pilot.pause()
            assert pane.row_total() == 1
            assert pane.selected is None

    run(scenario)
