"""The app under load: text that is meant to harm, long runs, screens at rest, what its import loads."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.app import QUESTION, Driven, driven
from support.nasty import NASTY, assert_harmless
from support.scripted import TARGET, Script, make_round
from support.story import opening

from engine.context import Message
from engine.errors import ModelNotFound
from engine.events import LoadFinished, Notice

ROOT = Path(__file__).parents[2]


def test_the_import_is_light() -> None:
    code = "import tui.app, tui.start, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "numpy", "tokenizers", "safetensors"} & set(done.stdout.split())


def harmless(app: Driven) -> None:
    """Nothing on the screen is obeyed by a terminal."""
    assert_harmless(app.app)


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_text_reaches_the_terminal_as_it_is(
    tmp_path: Path, size: tuple[int, int], ascii_only: bool
) -> None:
    texts = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in NASTY]
    pieces = [text.encode("utf-8", "replace")[:40] for text in texts]
    rounds = tuple(
        make_round(number, 3, number % 4, pieces=[(pieces * 4)[number + slot] for slot in range(4)])
        for number in range(1, len(pieces) + 1)
    )
    script = Script(
        rounds=rounds, notices=tuple(Notice(0, 0, "test", text) for text in texts[:3]), tail=texts[0]
    )
    messages = tuple(Message("user", text) for text in texts if text.strip())

    async def go() -> None:
        async with driven(tmp_path, script, size=size, messages=messages, ascii=ascii_only) as app:
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.ended()
            for key in ("1", "2", "3", "4", "5", "6"):
                await app.press(key, "g")
                harmless(app)
                for _ in range(3):
                    await app.press("pagedown")
                    harmless(app)
            await app.press("2", "left", "b")
            await app.top("AlternativesModal")
            harmless(app)
            await app.press("escape", "1", "e")
            await app.top("EditorModal")
            harmless(app)
            await app.press("escape")
            app.app.show_error(ModelNotFound(texts[0], texts[1]))
            await app.top("ErrorModal")
            harmless(app)

    asyncio.run(go())


async def at_rest(app: Driven, seconds: float = 1.5) -> float:
    """Share of a core that the process uses while nothing happens."""
    await app.pilot.pause(0.4)
    process = psutil.Process()
    before, start = process.cpu_times(), time.monotonic()
    await asyncio.sleep(seconds)
    after = process.cpu_times()
    spent: float = after.user + after.system - before.user - before.system
    return spent / (time.monotonic() - start)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 20), (200, 50)])
def test_screens_at_rest_cost_nothing(tmp_path: Path, size: tuple[int, int]) -> None:
    screens = {"": "LiveScreen", "f1": "HelpScreen", "f2": "SettingsScreen", "f3": "ModelPicker"}
    if size == (120, 36):
        screens |= {"f4": "ConversationsScreen", "ctrl+o": "JumpScreen", "ctrl+p": "Palette"}

    async def go() -> None:
        async with driven(tmp_path, size=size) as app:
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.ended()
            for key, name in screens.items():
                if key:
                    await app.press(key)
                await app.top(name)
                share = await at_rest(app)
                assert share < 0.015, f"{name} at {size}: {share:.1%} of a core"
                if key:
                    await app.press("escape")

    asyncio.run(go())


def test_ten_thousand_rounds_leave_memory_bounded(tmp_path: Path) -> None:
    script = Script(rounds=tuple(make_round(number, 3, number % 4) for number in range(1, 10_001)))

    async def go() -> None:
        async with driven(tmp_path, script) as app:
            app.app.change({"run.rounds": 10_000, "run.baseline": "off"})
            gc.collect()
            before = psutil.Process().memory_info().rss
            app.lab.start()
            await app.until(lambda: len(app.lab.state.rounds) == 10_000, "all rounds", patience=120)
            await app.ended()
            gc.collect()
            grown = psutil.Process().memory_info().rss - before
            assert grown < 120e6, f"{grown / 1e6:.0f} MB for 10,000 rounds"

    asyncio.run(go())


def test_a_late_frame_costs_what_an_early_one_does(tmp_path: Path) -> None:
    """40,000 tokens in the panes; ten rounds come with each frame."""

    async def go() -> None:
        async with driven(tmp_path, load=False) as app:
            for event in (LoadFinished(0, 0, "target", TARGET, 1.0), *opening()):
                app.lab.take(event)

            def add(until: int) -> None:
                for number in range(len(app.lab.state.rounds) + 1, until + 1):
                    app.lab.take(make_round(number, 3, 3))

            async def cost() -> float:
                app.app.show()
                await app.pilot.pause(0.1)
                costs = []
                for _ in range(9):
                    add(len(app.lab.state.rounds) + 10)
                    start = time.thread_time()
                    app.app.show()
                    costs.append(time.thread_time() - start)
                    await app.pilot.pause(0.05)
                return sorted(costs)[len(costs) // 2]

            add(100)
            early = await cost()
            add(10_000)
            late = await cost()
            assert app.lab.state.running and len(app.lab.state.output) > 40_000
            assert late < 2 * early + 0.004, f"{early * 1e3:.1f} ms, later {late * 1e3:.1f} ms"

    asyncio.run(go())


def test_the_engine_outlives_what_cannot_be_run(tmp_path: Path) -> None:
    script = Script(run_error=ModelNotFound("gone"))

    async def go() -> None:
        async with driven(tmp_path, script, messages=QUESTION) as app:
            await app.press("ctrl+r")
            await app.top("ErrorModal")
            await app.press("escape")
            app.session.script = Script()
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")

    asyncio.run(go())


def test_a_load_that_fails_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        script = Script(load_error=ModelNotFound("there is no model 'x'", "look at the list"))
        async with driven(tmp_path, script, load=False) as app:
            await app.press("y")
            await app.top("ErrorModal")
            await app.press("escape")
            assert not app.lab.loaded
            assert not app.lab.state.running

    asyncio.run(go())
