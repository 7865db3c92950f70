"""The pane that explains the run's speed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.app import CONFIG, Driven, driven
from support.calibrated import calibrated, costs, drawn_rounds
from support.panes import assert_safe, finished, fold, rows, run, shown, started, style_at
from support.replays import HEADER, one_run, record, timed
from support.scripted import TARGET, Script

from engine.costs import Costs
from engine.events import BaselineFinished, LoadFinished
from tui.playable import open_recording
from tui.state import ViewState
from tui.widgets.inspector import InspectorPane
from tui.widgets.why import WhyPane

SIZE = (60, 44)


def ran(price: Costs | None, *, k: int = 5, alpha: float = 0.7, count: int = 40) -> ViewState:
    """A run after its costs were measured."""
    priced = [] if price is None else [calibrated(price)]
    return fold(started(), [*priced, *drawn_rounds(count, k, alpha)])


def ended(state: ViewState, speedup: float) -> ViewState:
    """The run's end, and plain decoding that makes such a speedup."""
    state = finished(state)
    ms = state.total.decode_ms * speedup
    plain = BaselineFinished(0, 0, state.total.tokens, (), ms, 1.0, None, None, complete=True)
    return fold(state, [plain])


def text_of(pane: WhyPane) -> list[str]:
    return [pane.build_row(y).text.rstrip() for y in range(pane.row_total())]


def row_of(pane: WhyPane, start: str) -> str:
    return next(text for text in text_of(pane) if text.lstrip().startswith(start))


def test_a_running_run_is_explained_by_the_prediction() -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), SIZE) as (pane, pilot, _):
            pane.show(ran(costs(0.1)))
            await pilot.pause()
            text = text_of(pane)
            assert text[0].startswith("Faster by the prediction (")
            assert row_of(pane, "0 ").split()[1] == "1.00x"
            assert sum(line.endswith("best") for line in text) == 1
            assert row_of(pane, "► 5").split()[2].endswith("x")
            assert [line.split()[0] for line in text if line.endswith("not observed")] == ["6"]
            assert row_of(pane, "t1").split() == ["t1", "40.0", "ms"]
            assert row_of(pane, "memory").endswith("12.0 of 15.0 GB/s, 80%")
            assert not any("oracle" in line for line in text), "what would have been is told of a whole run"

    run(scenario)


def test_after_the_end_it_tells_what_would_have_been() -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), SIZE) as (pane, pilot, _):
            pane.show(ended(ran(costs(0.9), k=3), 0.6))
            await pilot.pause()
            text = text_of(pane)
            assert text[0].startswith("Slower: drafting one token costs 0.90")
            assert row_of(pane, "measured").endswith("0.60x")
            assert "error" in row_of(pane, "predicted  ")
            assert row_of(pane, "static best").endswith("1.00x, K = 0")
            assert float(row_of(pane, "oracle").split()[1].rstrip("x")) >= 1.0
            assert row_of(pane, "lookup").split()[1].endswith("x,")

    run(scenario)


def test_what_is_not_known_is_said() -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), SIZE) as (pane, pilot, _):
            said = []
            for state in (ViewState(), ran(None), started(plain=True)):
                pane.show(state)
                await pilot.pause()
                said.append(" ".join(" ".join(rows(pane)).split()))
                assert pane.legend() == ()
                await pilot.press("down", "enter")
            assert "is measured before the first round" in said[0]
            assert "No costs were measured in this run" in said[1]
            assert "Plain decoding drafts nothing" in said[2]

    run(scenario)


def test_the_cursor_goes_over_every_k() -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), (60, 12)) as (pane, pilot, _):
            pane.show(ran(costs(0.1)))
            await pilot.pause()
            await pilot.press("enter")
            assert pane.cursor is None, "enter takes nothing that was not chosen"
            await pilot.press("down")
            assert pane.cursor == 5, "it begins at the present K"
            await pilot.press("up", "up")
            assert pane.cursor == 3
            assert style_at(pane, "  3 ")[3], "the K at the cursor is reversed"
            assert "K = 3 enter takes it" in rows(pane)[-1]
            await pilot.press(*["down"] * 20)
            assert pane.cursor == 16
            assert pane.scroll_offset.y > 8, "behind the last K the pane scrolls"
            await pilot.press(*["up"] * 30)
            assert pane.cursor == 0
            assert pane.scroll_offset.y == 0
            await pilot.press("escape")
            assert not pane.has_cursor()

    run(scenario)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("size", [(14, 6), (24, 10), (33, 15), (78, 18), (150, 44)])
def test_every_width(size: tuple[int, int], ascii_only: bool) -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), size, ascii_only=ascii_only) as (pane, pilot, _):
            pane.show(ended(ran(costs(0.2)), 1.4))
            await pilot.pause()
            await pilot.press("down", "end")
            assert_safe(pane)
            if ascii_only:
                assert all(text.isascii() for text in text_of(pane))

    run(scenario)


def test_a_pane_that_is_not_shown_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with shown(WhyPane(), SIZE) as (pane, pilot, _):
            pane.display = False
            await pilot.pause()

            def fail(*_: object, **__: object) -> None:
                raise AssertionError("it was explained without being seen")

            monkeypatch.setattr("tui.widgets.why.curve", fail)
            pane.show(ran(costs(0.1)))
            await pilot.pause()

    run(scenario)


# -- in the app


def play(
    test: Callable[[Driven], Awaitable[None]],
    folder: Path,
    script: Script | None = None,
    size: tuple[int, int] = (120, 36),
) -> None:
    async def go() -> None:
        async with driven(folder, script, size=size) as app:
            await test(app)

    asyncio.run(go())


async def written(app: Driven) -> None:
    """An answer, to its end."""
    app.lab.start()
    await app.until(lambda: app.lab.state.finished, "the answer")
    await app.ended()


PRICED = Script(rounds=tuple(drawn_rounds(30, 5, 0.8)), costs=costs(0.05))


def test_it_takes_the_place_of_the_inspector_and_gives_it_back(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        live = app.app.live
        await app.press("8")
        assert live.pane("why").region and not live.query_one(InspectorPane).region
        assert live.pane("gauge").region
        await written(app)
        await app.press("2", "left", "enter")
        await app.until(lambda: bool(live.query_one(InspectorPane).region), "the inspector")
        assert not live.pane("why").region

    play(test, tmp_path)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_enter_takes_the_k_at_the_cursor(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test(app: Driven) -> None:
        await written(app)
        await app.press("8", "down", "down", "enter")
        assert app.lab.config.draft.num_draft_tokens == 6
        assert "K is 6 from the next round on" in app.said
        await app.until(lambda: app.session.changed, "the engine's change")
        await app.press("enter")
        assert "K is 6 already" in app.said
        await app.press(*["up"] * 8, "enter")
        assert "K = 0 is plain decoding" in app.said
        assert app.lab.config.draft.num_draft_tokens == 6

    play(test, tmp_path, PRICED, size)


def test_a_replay_says_why_it_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    told = [*one_run(0)[:2], calibrated(costs()), *drawn_rounds(12, 3, 0.7)]
    record(path, timed([LoadFinished(0, 0, "target", TARGET, 1.0), *told]), HEADER)

    async def test(app: Driven) -> None:
        app.app.play(open_recording(path))
        await app.until(lambda: app.lab.replay is not None, "the recording")
        assert app.lab.replay is not None
        app.lab.replay.seek(len(app.lab.replay.tape))
        app.app.pump.wake()
        await app.until(lambda: len(app.lab.state.rounds) == 12, "its end")
        await app.press("8", "down", "down", "enter")
        assert "A recording stays as it was. Fork it with b to go on with K = 4." in app.said
        assert app.lab.config.draft.num_draft_tokens == CONFIG.draft.num_draft_tokens

    play(test, tmp_path)
