"""How fast the run is."""

from __future__ import annotations

import dataclasses

import pytest
from support.panes import SETTINGS, assert_safe, finished, fold, rows, run, shown, started, with_rounds
from support.scripted import make_round

from engine.events import BaselineFinished, BaselineProgress, BaselineStarted, SegmentStarted
from tui.state import ViewState
from tui.widgets.gauge import GaugePane


def measured(state: ViewState, ms_a_token: float, *, identical: bool | None = None) -> ViewState:
    """The state after plain decoding was timed."""
    tokens = state.total.tokens
    difference = 3 if identical is False else None
    ended = BaselineFinished(0, 0, tokens, (), ms_a_token * tokens, 300.0, identical, difference, True)
    return fold(state, [BaselineStarted(0, 0, tokens), ended])


def ran(count: int = 8) -> ViewState:
    return finished(with_rounds(make_round(n, 3, n % 4) for n in range(1, count + 1)))


def value(pane: GaugePane, label: str) -> list[str]:
    """What stands behind a label."""
    row = next(
        row for row in (pane.build_row(y).text for y in range(pane.row_total())) if row.startswith(label)
    )
    return row.removeprefix(label).split()


def test_without_a_baseline_there_is_no_speedup() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.show(ran())
            await pilot.pause()
            text = "\n".join(rows(pane))
            assert "plain decoding was not measured yet" in " ".join(text.split())
            assert value(pane, "speedup") == ["--", "--", "--"]
            assert value(pane, "plain") == ["--", "--", "--"]
            assert value(pane, "predicted") == ["--", "best", "K", "--"]
            assert value(pane, "tau") == ["2.50", "2.50", "2.50"]
            assert value(pane, "TTFT") == ["360", "ms", "memory", "--"]
            assert "1.0x" in text

    run(scenario)


def test_a_gain_and_a_loss_are_told_in_digits_and_words() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            state = ran()
            pane.show(measured(state, 40.0))
            await pilot.pause()
            speedup = 40.0 / (state.total.decode_ms / state.total.tokens)
            assert value(pane, "speedup")[0] == f"{speedup:.2f}x"
            assert "\u2577" in "".join(rows(pane)) or "\u2500" in "".join(rows(pane)[:3])
            assert "times as fast as plain decoding" in " ".join(" ".join(rows(pane)).split())
            gain = next(segment.style for segment in pane.render_line(0))
            pane.show(measured(state, 10.0, identical=False))
            await pilot.pause()
            assert any("Slower than plain" in row for row in rows(pane))
            assert "token 4 is the first that differs" in " ".join(" ".join(rows(pane)).split())
            loss = next(segment.style for segment in pane.render_line(0))
            assert gain is not None and loss is not None
            assert gain.color != loss.color

    run(scenario)


def test_positions_time_and_tokens_a_round() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.show(ran(8))
            await pilot.pause()
            text = rows(pane)
            at = text.index("accepted up to draft")
            assert text[at + 1].split() == ["1", "2", "3"]
            assert text[at + 3].split() == ["75%", "50%", "25%"]
            assert any("verify 40.1 ms" in row for row in text)
            at = text.index("tokens a round (up to 4)")
            assert text[at + 1] == "\u2585\u2586\u2588\u2583" * 2

    run(scenario)


def test_a_change_of_settings_starts_a_segment_beside_the_run() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            state = with_rounds(make_round(n, 3, 3) for n in range(1, 5))
            state = fold(state, [SegmentStarted(0, 0, 2, SETTINGS), make_round(5, 3, 0)])
            pane.show(state)
            await pilot.pause()
            assert value(pane, "rounds") == ["1", "5", "1"]
            assert value(pane, "tau") == ["1.00", "3.40", "1.00"]

    run(scenario)


def test_the_timing_of_plain_decoding_and_an_older_one() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            state = ran()
            pane.show(fold(state, [BaselineStarted(0, 0, 20), BaselineProgress(0, 0, 5, 20)]))
            await pilot.pause()
            assert "Timing plain decoding: 5 of 20 tokens." in rows(pane)
            pane.show(measured(state, 40.0, identical=True))
            await pilot.pause()
            assert "Plain decoding wrote the same tokens." in rows(pane)

    run(scenario)


def test_what_this_run_wrote_is_not_told_of_another_runs_plain_decoding() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            state = measured(ran(), 40.0, identical=True)
            assert state.reference is not None
            pane.show(
                dataclasses.replace(state, reference=dataclasses.replace(state.reference), reference_run=6)
            )
            await pilot.pause()
            text = " ".join(rows(pane))
            assert "Plain decoding as timed in run 6." in text and "wrote the same" not in text

    run(scenario)


def test_a_difference_within_the_noise_is_neither_gain_nor_loss() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            state = ran()
            pane.show(measured(state, 0.99 * state.total.decode_ms / state.total.tokens))
            await pilot.pause()
            text = " ".join(" ".join(rows(pane)).split())
            assert value(pane, "speedup")[0] == "0.99x"
            assert "Slower" not in text and "does not pay" not in text
            pane.compact = True
            await pilot.pause()
            assert rows(pane)[0].split()[:2] == ["0.99x", "tok/s"]

    run(scenario)


def test_a_narrow_pane_has_the_run_beside_the_segment() -> None:
    async def scenario() -> None:
        # As wide as on a screen of 100 columns.
        async with shown(GaugePane(), (29, 50)) as (pane, pilot, _):
            pane.show(measured(ran(), 40.0))
            await pilot.pause()
            assert value(pane, "tau") == ["2.50", "2.50"]
            assert "segment" in " ".join(rows(pane)) and " run" in " ".join(rows(pane))

    run(scenario)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
def test_the_one_line_has_whole_measures_only(width: int) -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (width, 10)) as (pane, pilot, _):
            pane.compact = True
            pane.styles.height = 1
            pane.show(measured(ran(), 40.0))
            pane.show_memory(1_234_000_000)
            await pilot.pause()
            line = rows(pane)[0]
            assert "\u2026" not in line and line.startswith("2.28x faster")
            assert ("mem 1.2 GB" in line) == (width >= 100)
            assert ("alpha 0.67" in line) == (width >= 60)

    run(scenario)


def test_memory_is_given_by_the_app() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.show_memory(1_234_000_000)
            await pilot.pause()
            assert value(pane, "TTFT") == ["--", "memory", "1.2", "GB"]

    run(scenario)


def test_only_rows_that_differ_are_painted() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.show(ran())
            await pilot.pause()
            built = pane.built
            pane.show_memory(5_000_000)
            await pilot.pause()
            assert pane.built == built + 1

    run(scenario)


def test_the_compact_form_is_one_line() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (110, 10)) as (pane, pilot, _):
            pane.compact = True
            pane.styles.height = 1
            pane.show(measured(ran(), 40.0))
            await pilot.pause()
            assert pane.size == (110, 1)
            assert rows(pane)[0].split()[:2] == ["2.28x", "faster"]
            assert "tau 2.50" in rows(pane)[0]
            pane.show(measured(ran(), 10.0))
            assert rows(pane)[0].split()[:2] == ["0.57x", "slower"]

    run(scenario)


@pytest.mark.parametrize("size", [(20, 5), (31, 50), (46, 50), (120, 50)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_width(size: tuple[int, int], ascii_only: bool) -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), size, ascii_only=ascii_only) as (pane, pilot, _):
            many = with_rounds(make_round(n, 40, n % 41) for n in range(1, 60))
            for state in (ViewState(), started(), ran(), many, measured(finished(many), 40.0)):
                pane.show(state)
                await pilot.pause()
                assert_safe(pane)
                if ascii_only:
                    assert all(pane.build_row(y).text.isascii() for y in range(pane.row_total()))
            pane.compact = True
            await pilot.pause()
            assert_safe(pane)

    run(scenario)


def test_what_came_while_the_pane_was_hidden_is_there_when_it_is_shown() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.display = False
            await pilot.pause()
            pane.show(ran())
            pane.display = True
            await pilot.pause()
            assert value(pane, "rounds") == ["8", "8", "8"]

    run(scenario)


def test_a_replay_says_so() -> None:
    async def scenario() -> None:
        async with shown(GaugePane(), (60, 40)) as (pane, pilot, _):
            pane.show(ViewState(replay=True))
            await pilot.pause()
            assert pane.border_title == "Gauge, REPLAY"

    run(scenario)
