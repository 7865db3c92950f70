"""Why a token stands or fell."""

from __future__ import annotations

import dataclasses

import pytest
from support.panes import (
    NASTY_PIECES,
    SETTINGS,
    answered,
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

from engine.events import Alternative, Round, SegmentStarted
from tui.state import RevealNext, reduce
from tui.widgets.inspector import InspectorPane
from tui.widgets.messages import DraftSelected, RoundSelected

PIECES = [b" the", b" cat", b" sat", b" lay"]
LAW = (Alternative(1, b" a", 0.5), Alternative(101, b" cat", 0.25), Alternative(3, b"\xe2", 0.125))


def detailed(number: int = 1, n_accepted: int = 1, pieces: list[bytes] | None = None) -> Round:
    """A round of three drafts in which both models have their say."""
    round_ = make_round(number, 3, n_accepted, pieces=PIECES if pieces is None else pieces)
    drafts = tuple(dataclasses.replace(draft, q_top=LAW) for draft in round_.drafts)
    return dataclasses.replace(round_, drafts=drafts, p_top=(LAW,) * 4)


def test_the_newest_round_is_shown_where_it_was_decided() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            pane.show(with_rounds([detailed()]))
            await pilot.pause()
            text = rows(pane)
            assert text[0] == "round 1  K 3 (fixed), 1/3 accepted"
            assert text[1] == "\u00b7the x\u00b7cat .\u00b7sat >\u00b7lay"
            assert style_at(pane, "\u00b7cat")[3]
            assert text[2].startswith("Rejected: the target gives it 40 %")
            assert any(row.startswith("q  0.5000 \u2588") for row in text)
            assert any(row.startswith("p  0.4000 \u2588") for row in text)
            assert "p/q 0.8   u 0.2500" in text
            at = text.index("target's likeliest")
            assert text[at + 1].split()[:2] == ["\u00b7a", "0.500"]
            assert text[at + 2].split()[0] == "\u258c\u00b7cat"
            assert text[at + 3].split()[:2] == ["<E2>", "0.125"]
            assert "drafter's likeliest" in text
            assert "time 43.9 ms" in text
            assert any("draft 2.2 ms" in row and "verify 40.1 ms" in row for row in text)

    run(scenario)


def test_left_and_right_go_through_the_round() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, app):
            state = with_rounds([detailed(1), detailed(2)])
            pane.show(state)
            await pilot.press("left", "left", "right", "l", "l", "l")
            await pilot.pause()
            told = [(m.index, m.slot) for m in app.told if isinstance(m, DraftSelected)]
            assert told == [(1, 0), (1, 0), (1, 1), (1, 2), (1, 3), (1, 3)]
            assert rows(pane)[2].startswith("Correction:")
            pane.show(with_rounds([detailed(3)], state))
            assert rows(pane)[0].startswith("round 2")
            assert rows(pane)[-1] == "chosen round"
            await pilot.press("escape")
            await pilot.pause()
            assert rows(pane)[0].startswith("round 3")
            assert rows(pane)[-1] == "newest round"
            assert isinstance(app.told[-1], RoundSelected)

    run(scenario)


def test_a_chosen_round_stays_while_others_come() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            state = with_rounds([detailed(1, 3), detailed(2)])
            pane.show(state)
            pane.select(0)
            await pilot.pause()
            assert rows(pane)[2].startswith("Bonus:")
            assert ["q", "--"] in [row.split()[:2] for row in rows(pane)]
            pane.show(with_rounds([detailed(3)], state))
            assert rows(pane)[0].startswith("round 1")

    run(scenario)


def test_tokens_of_the_answer_lead_to_their_round() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            pane.show(with_rounds([detailed(1, 1), detailed(2, 1)]))
            pane.select_token(3)
            await pilot.pause()
            assert rows(pane)[0].startswith("round 2")
            assert pane.slot == 3
            pane.select_token(2)
            assert pane.slot == 0

    run(scenario)


def test_plain_steps_and_empty_rounds() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            assert rows(pane)[0].startswith("Nothing to look into yet.")
            pane.show(fold(started(plain=True), [plain_step(1, b" one")]))
            await pilot.pause()
            assert rows(pane)[0].startswith("Plain decoding drafts nothing.")
            pane.select_token(0)
            assert rows(pane)[0] == "\u00b7one  plain, id 1"
            assert rows(pane)[1].startswith("A plain step")
            empty = dataclasses.replace(make_round(1, 0, 0), k_reason="budget")
            pane.show(with_run_number(with_rounds([empty]), 2))
            assert rows(pane)[2].startswith("Nothing was drafted")

    run(scenario)


def test_greedy_runs_are_explained_as_such() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            greedy = dataclasses.replace(SETTINGS, temperature=0.0)
            state = fold(started(), [SegmentStarted(0, 0, 1, greedy)])
            pane.show(with_rounds([detailed()], state))
            await pilot.pause()
            assert "at temperature 0" in rows(pane)[2]
            assert "target's likeliest, before temperature" in rows(pane)
            assert "drafter's likeliest, before temperature" in rows(pane)
            pane.select(0, 3)
            pane.show(with_rounds([detailed(1, 3)], state))
            assert "100 %" not in " ".join(rows(pane)) and "the target's likeliest token" in " ".join(
                rows(pane)
            )

    run(scenario)


def test_a_greedy_drafter_has_a_law_before_temperature_too() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            greedy = dataclasses.replace(SETTINGS, sample_strategy="greedy")
            pane.show(with_rounds([detailed()], fold(started(), [SegmentStarted(0, 0, 1, greedy)])))
            await pilot.pause()
            assert "target's likeliest" in rows(pane)
            assert "drafter's likeliest, before temperature" in rows(pane)

    run(scenario)


def test_a_low_pane_keeps_the_alternatives() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (29, 15)) as (pane, pilot, _):
            pane.show(with_rounds([detailed()]))
            await pilot.pause()
            text = rows(pane)
            at = next(y for y, row in enumerate(text) if row.split() == ["target", "drafter"])
            assert text[2].startswith("Rejected") and at > 2
            assert text[at + 1].split() == ["\u00b7a", "0.50"] * 2
            assert text[at + 3].split() == ["<E2>", "0.12"] * 2
            await pilot.resize_terminal(29, 40)
            await pilot.pause()
            assert "target's likeliest" in rows(pane)
            pane.show(with_rounds([make_round(1, 0, 0, pieces=[b"as"])], started()))
            pane.select(0)
            assert rows(pane)[1] == "as", "nothing was drafted: it is no bonus"

    run(scenario)


def test_stepping_shows_neither_p_nor_verdict_before_its_step() -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), (60, 30)) as (pane, pilot, _):
            state = reduce(with_rounds([detailed()]), RevealNext())
            state = reduce(state, detailed(2, 1))
            pane.show(state)
            await pilot.pause()
            text = rows(pane)
            assert text[1] == "?\u00b7the"
            assert text[2].startswith("Not judged yet")
            assert ["p", "--"] in [row.split()[:2] for row in text]
            assert "target's likeliest" not in text
            assert not any(row.startswith("time") for row in text)
            for _ in range(4):
                state = reduce(state, RevealNext())
            pane.show(state)
            assert rows(pane)[2].startswith("Rejected")

    run(scenario)


@pytest.mark.parametrize("size", [(20, 5), (60, 40)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_nasty_text(size: tuple[int, int], ascii_only: bool) -> None:
    async def scenario() -> None:
        async with shown(InspectorPane(), size, ascii_only=ascii_only) as (pane, _, _):
            state = started()
            for number, piece in enumerate(NASTY_PIECES, 1):
                round_ = detailed(number, number % 4, [piece, b"x", piece, piece])
                law = (Alternative(5, piece, 0.5), Alternative(6, piece, 1e-9))
                drafts = tuple(dataclasses.replace(draft, q_top=law) for draft in round_.drafts)
                reason = piece.decode("utf-8", "replace")
                state = reduce(
                    state, dataclasses.replace(round_, drafts=drafts, p_top=(law,) * 4, k_reason=reason)
                )
                pane.show(state)
                for slot in range(4):
                    pane.select(number - 1, slot)
                    assert_safe(pane)
            for y in range(0, pane.row_total(), 4):
                pane.scroll_to(y=y, animate=False)
                assert_safe(pane)
            pane.show(fold(answered(NASTY_PIECES), [plain_step(1, NASTY_PIECES[1])]))
            pane.select_token(len(NASTY_PIECES))
            assert_safe(pane)

    run(scenario)
