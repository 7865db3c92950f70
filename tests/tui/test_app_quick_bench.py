"""The quick bench in the app, by keys: on a scripted engine, and once on tiny models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.app import CONFIG, QUESTION, Driven, driven
from support.nasty import assert_harmless, drawn
from support.sessions import configured
from support.trials import small_plan
from support.tuning import DONE, bench, endless, results

from engine.bench.trials.events import Progress
from engine.errors import UserError
from engine.session import Session
from tui import bench_work
from tui.bench_lines import bench_lines, progress_line, views
from tui.bench_work import write_report
from tui.screens import measuring
from tui.screens.bench import BenchScreen


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "EVERY_S", 0.05)


def go(
    test: Callable[[Driven, BenchScreen], Awaitable[None]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[..., Any] = bench,
    **options: Any,
) -> None:
    """A bench, from its key on."""
    monkeypatch.setattr(bench_work, "quick_bench", work)

    async def scenario() -> None:
        async with driven(folder, **options) as app:
            await app.press("Q")
            screen = await app.top("BenchScreen")
            assert isinstance(screen, BenchScreen)
            await test(app, screen)

    asyncio.run(scenario())


async def over(app: Driven) -> None:
    await app.until(lambda: "Done in 12 s" in drawn(app.app), "the end of the bench")


@pytest.mark.parametrize(("size", "ascii_only"), [((80, 24), True), ((120, 36), False), ((200, 50), False)])
def test_the_table(
    size: tuple[int, int], ascii_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(app: Driven, screen: BenchScreen) -> None:
        await over(app)
        shown = drawn(app.app)
        for words in (
            "Quick bench: lookup",
            "2 prompts together",
            "speedup",
            "0.77x",
            "K = 4",
            "chat",
            "repeat",
        ):
            assert words in shown, (words, shown)
        assert "slower than plain decoding" in shown, "what loses is said"
        assert max(map(len, shown.split("\n"))) <= size[0]
        assert not ascii_only or shown.isascii()
        assert_harmless(app.app)
        await app.press("right")
        assert "2 prompts together" not in drawn(app.app)
        await app.press("left")
        assert "2 prompts together" in drawn(app.app)
        await app.pilot.resize_terminal(60, 20)
        await app.until(lambda: max(map(len, drawn(app.app).split("\n"))) <= 60, "the narrow table")

    go(test, tmp_path, monkeypatch, size=size, ascii=ascii_only)


def test_a_report_is_written_by_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def test(app: Driven, screen: BenchScreen) -> None:
        await over(app)
        await app.press("e")
        await app.top("TextModal")
        await app.press("ctrl+u", *"report.txt")
        await app.until(lambda: ".md or .html" in drawn(app.app), "the complaint")
        await app.press("enter")
        assert type(app.screen).__name__ == "TextModal"
        await app.press("ctrl+u", *"report.md", "enter")
        await app.top("BenchScreen")
        await app.until(lambda: "Wrote" in app.said, "the toast")
        text = (tmp_path / "report.md").read_text("utf-8")
        assert "# Speculative against plain decoding" in text and "K = 4" in text

    go(test, tmp_path, monkeypatch)


def test_reports(tmp_path: Path) -> None:
    page = write_report(DONE, str(tmp_path / "a.html")).read_text("utf-8")
    named = replace(DONE, facts={**DONE.facts, "models": ["mine/\x1b[2Jmodel"]})
    for ending in ("md", "html"):
        text = write_report(named, str(tmp_path / f"b.{ending}")).read_text("utf-8")
        assert "\x1b" not in text and "mine/\u241b" in text, "a terminal may be what shows it"
    assert page.startswith("<!doctype html>") and "&lt;64&gt;" in page
    with pytest.raises(UserError, match=r"neither \.md nor \.html"):
        write_report(DONE, str(tmp_path / "a.pdf"))


def test_escape_ends_it_and_the_conversation_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(number: int) -> Progress:
        return Progress(number, 112, 150.0, "this pair, K = 2", "1", "chat", 1)

    async def test(app: Driven, screen: BenchScreen) -> None:
        await app.until(lambda: "about 2 min left" in drawn(app.app), "the progress")
        assert "of 112 answers" in drawn(app.app)
        await app.press("e", "right")
        assert app.screen is screen, "there is nothing to write or to choose yet"
        await app.press("escape")
        await app.top("LiveScreen")
        await app.ended()
        assert app.lab.config == CONFIG and app.lab.conversation.messages == QUESTION
        await app.press("ctrl+r")
        await app.until(lambda: app.lab.answered, "an answer")

    go(test, tmp_path, monkeypatch, endless(told))


def test_the_end_of_a_bench_cancels_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(app: Driven, screen: BenchScreen) -> None:
        await over(app)
        await app.press("escape")
        await app.ended()
        assert not app.session._cancelled.is_set()

    go(test, tmp_path, monkeypatch)


@pytest.mark.parametrize("width", [40, 78, 118, 198])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    found = results()
    assert views(found) == ("", "chat", "repeat")
    for view in views(found):
        assert max(map(len, bench_lines(found, view, width))) <= width


def test_progress_in_words() -> None:
    first = Progress(0, 20, None, "a", "1", "chat", 1)
    assert progress_line(first) == "0 of 20 answers; chat: a"


def test_tiny_models_from_the_key_to_the_table(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.calibrate.BUDGET_S", 0.05)
    monkeypatch.setattr("engine.bench.trials.build.quick_plan", lambda *_: small_plan(target))

    async def scenario() -> None:
        async with driven(tmp_path, config=configured(target), session_factory=Session) as app:
            await app.press("Q")
            screen = await app.top("BenchScreen")
            assert isinstance(screen, BenchScreen)
            await app.until(lambda: screen.finished, "the table")
            assert screen.results is not None
            assert [cell.k for cell in screen.results.cells] == [0, 2, 4]
            assert {cell.category for cell in screen.results.by_category} == {"chat", "repeat"}
            assert all(cell.identical == 1.0 for cell in screen.results.cells)
            await app.until(lambda: "2 prompts together" in drawn(app.app), "its drawing")
            await app.press("escape")
            await app.top("LiveScreen")
            assert app.lab.conversation.messages == QUESTION and app.lab.state.run == 0

    asyncio.run(scenario())
