"""Tuning in the app, by keys: on a scripted engine, and once on tiny models."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.app import CONFIG, QUESTION, Driven, driven
from support.nasty import assert_harmless, drawn
from support.sessions import configured
from support.tuning import PLAIN, TUNED, endless, tuning

from engine import tune as tune_module
from engine.errors import DoesNotFit
from engine.session import Session
from engine.tune_ranking import Trying
from tui.screens import measuring
from tui.screens.tune import TuneScreen

TOML = """# mine
[draft]
method = "lookup"  # no model
num_draft_tokens = 5

[verify]
model_name = "scripted"
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "EVERY_S", 0.05)


def go(
    test: Callable[[Driven, TuneScreen], Awaitable[None]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[..., Any] = tuning,
    **options: Any,
) -> None:
    """Tuning, from its key on."""
    monkeypatch.setattr(tune_module, "tune", work)

    async def scenario() -> None:
        async with driven(folder, **options) as app:
            await app.press("K")
            screen = await app.top("TuneScreen")
            assert isinstance(screen, TuneScreen)
            await test(app, screen)

    asyncio.run(scenario())


async def over(app: Driven, screen: TuneScreen) -> None:
    await app.until(lambda: "Done in 22 s" in drawn(app.app), "the end of tuning")


@pytest.mark.parametrize(("size", "ascii_only"), [((80, 24), True), ((120, 36), False), ((200, 50), False)])
def test_the_ranking(
    size: tuple[int, int], ascii_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        shown = drawn(app.app)
        for words in (
            *("80 tokens of prompt", "1.42x", "1.38 .. 1.47", "2.31", "timed", "predicted"),
            *("plain decoding", "lookup, as it is set", "The fastest is lookup, K = 8", "this context"),
            "Left out: model mine/[b]",
        ):
            assert words in shown, (words, shown)
        assert not ascii_only or shown.isascii()
        best = next(line for line in shown.split("\n") if "1.42x" in line)
        assert "lookup" in best and "timed" in best, "a row is one line"
        assert_harmless(app.app)

    go(test, tmp_path, monkeypatch, size=size, ascii=ascii_only)


def test_enter_uses_the_best_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        await app.press("enter")
        await app.top("LiveScreen")
        assert app.lab.config.draft.num_draft_tokens == 8
        await app.until(lambda: app.session.changed[-1].draft.num_draft_tokens == 8, "the engine's turn")
        assert app.lab.conversation.messages == QUESTION and app.lab.state.run == 0
        assert not app.session._cancelled.is_set(), "nothing is left to cancel"

    go(test, tmp_path, monkeypatch)


def test_s_saves_it_and_the_comments_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML, "utf-8")

    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        await app.press("s")
        await app.top("LiveScreen")
        assert app.lab.config.draft.num_draft_tokens == 8
        assert path.read_text("utf-8") == TOML.replace("= 5", "= 8")
        await app.until(lambda: "Saved in" in app.said, "the toast")

    go(test, tmp_path, monkeypatch, config_path=path)


def test_a_preset_is_not_saved_and_the_lines_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        await app.press("down", "down", "s")  # plain decoding
        await app.top("ErrorModal")
        shown = drawn(app.app)
        assert "not saved" in shown and 'num_draft_tokens = "auto"' in shown and "[draft]" in shown
        assert app.lab.config.draft.num_draft_tokens == "auto", "it is in use all the same"

    go(test, tmp_path, monkeypatch)


def test_escape_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(app: Driven, screen: TuneScreen) -> None:
        await app.until(lambda: "s of at most 30: try" in drawn(app.app), "the first runs")
        await app.press("enter", "s")
        assert app.screen is screen, "there is nothing to take yet"
        await app.press("escape")
        await app.top("LiveScreen")
        await app.ended()
        assert app.lab.config == CONFIG and app.app.measuring is None
        await app.press("ctrl+r")
        await app.until(lambda: app.lab.answered, "an answer")

    go(test, tmp_path, monkeypatch, endless(lambda number: Trying(f"try {number}", number / 100, 30.0)))


def test_a_failure_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        yield Trying("plain decoding", 0.0, 30.0)
        raise DoesNotFit("the pair needs 34 GB, 16 GB are free", "use a smaller dtype")

    monkeypatch.setattr(tune_module, "tune", fails)

    async def scenario() -> None:
        async with driven(tmp_path) as app:
            await app.press("K")
            await app.top("ErrorModal")
            assert "34 GB" in drawn(app.app)
            assert [type(screen).__name__ for screen in app.app.screen_stack] == ["LiveScreen", "ErrorModal"]
            assert app.lab.config == CONFIG

    asyncio.run(scenario())


def test_many_rows_leave_room_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = dataclasses.replace(TUNED, rows=TUNED.rows * 10)

    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        shown = drawn(app.app)
        for words in ("Tune:", "known by", "The fastest is", "use it", "esc"):
            assert words in shown, (words, shown)

    go(test, tmp_path, monkeypatch, lambda *_, **__: iter([many]), size=(80, 24))


def test_where_nothing_pays_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = dataclasses.replace(TUNED, rows=(PLAIN, dataclasses.replace(TUNED.rows[1], speedup=0.8)))

    async def test(app: Driven, screen: TuneScreen) -> None:
        await over(app, screen)
        shown = drawn(app.app)
        assert "No drafter pays here: K = 0" in shown and "K = 5, is 0.80x" in shown

    go(test, tmp_path, monkeypatch, lambda *_, **__: iter([lost]))


def test_it_is_drawn_once_a_second_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "EVERY_S", 0.5)
    drawings = 0
    draw = TuneScreen.draw

    def counted(self: TuneScreen) -> None:
        nonlocal drawings
        drawings += 1
        draw(self)

    monkeypatch.setattr(TuneScreen, "draw", counted)

    async def test(app: Driven, screen: TuneScreen) -> None:
        await app.pilot.pause(1.1)
        assert 1 <= drawings <= 4, "however much is told"
        await app.press("escape")

    go(test, tmp_path, monkeypatch, endless(lambda number: Trying(str(number), 0.0, 30.0)))


def test_tiny_models_from_the_key_to_the_setting(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.calibrate.BUDGET_S", 0.05)
    monkeypatch.setattr(tune_module, "TOKENS", 10)
    monkeypatch.setattr(tune_module, "PASSES", 1)
    config = configured(target)

    async def scenario() -> None:
        async with driven(tmp_path, config=config, session_factory=Session) as app:
            await app.press("K")
            screen = await app.top("TuneScreen")
            assert isinstance(screen, TuneScreen)
            await app.until(lambda: screen.finished, "the ranking")
            assert any(row.measured for row in screen.rows if not row.is_plain)
            chosen = screen.rows[0]
            await app.press("enter")
            await app.top("LiveScreen")
            for key, value in chosen.settings:
                assert getattr(app.lab.config.draft, key.removeprefix("draft.")) == value
            assert app.lab.conversation.messages == QUESTION and app.lab.state.run == 0
            app.lab.start()
            await app.until(lambda: app.lab.answered, "an answer with it")

    asyncio.run(scenario())
