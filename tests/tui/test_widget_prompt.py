"""The prompt pane: tokens with their ids, or as text."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from support.nasty import NASTY, assert_harmless, drawn
from support.scripted import TARGET
from support.story import started
from textual.app import ComposeResult

from tui.state import Phase, ViewState, reduce
from tui.themes import ThemedApp
from tui.widgets.prompt import PromptPane

PIECES = (b"<|im_start|>", b"user", b"\n", b"Hello", b" you", b"\xf0\x9f", b"\x98\x80", b"<|im_end|>")


class PaneApp(ThemedApp[None]):
    ascii = False

    def compose(self) -> ComposeResult:
        yield PromptPane()


def prompt_of(pieces: tuple[bytes, ...], reused: int = 0) -> ViewState:
    event = replace(started(prompt=pieces), prompt=tuple(range(100, 100 + len(pieces))), reused=reused)
    return reduce(ViewState(target=TARGET), event)


def test_tokens_and_text() -> None:
    async def run() -> None:
        app = PaneApp()
        async with app.run_test(size=(44, 14)) as pilot:
            pane = app.query_one(PromptPane)
            assert "Load one" in drawn(app)
            pane.show(ViewState(target=TARGET, phase=Phase.READY))
            await pilot.pause()
            assert "Send a message" in drawn(app)
            pane.show(prompt_of(PIECES, reused=3))
            await pilot.pause()
            rows = drawn(app).split("\n")
            assert "= " in rows[1] and "100  <|im_start|>" in rows[1]
            assert "=" not in rows[4] and "103  Hello" in rows[4]
            assert "104  \u00b7you" in rows[5] and "<F0><9F>" in rows[6]
            assert "8 tokens, 2 special, = 3 re-used" in drawn(app)
            pane.focus()
            await pilot.press("slash", *"103", "enter")
            assert "1 of 1" in drawn(app)
            await pilot.press("escape", "v")
            assert "Hello you\U0001f600<|im_end|>" in drawn(app)
            await pilot.press("v")
            assert "103  Hello" in drawn(app)

    asyncio.run(run())


def test_long_prompts_are_cheap() -> None:
    async def run() -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 20)) as pilot:
            pane = app.query_one(PromptPane)
            state = prompt_of(tuple(b" token%d" % number for number in range(8000)))
            pane.show(state)
            await pilot.pause()
            built, start = pane.built, time.process_time()
            for _ in range(100):
                pane.show(state)
            assert time.process_time() - start < 0.5
            pane.focus()
            await pilot.press("pagedown", "j")
            await pilot.pause()
            assert pane.built - built < 60, "only rows that come on screen are made"
            await pilot.press("v", "G", "v")
            assert pane.row_total() == 8000

    asyncio.run(run())


def test_nasty_text_does_nothing() -> None:
    async def run() -> None:
        app = PaneApp()
        async with app.run_test(size=(50, 30)) as pilot:
            pane = app.query_one(PromptPane)
            for ascii_only in (False, True):
                app.ascii = ascii_only
                pane.refresh_layout()
                pane.show(prompt_of((*(text.encode() for text in NASTY), b"\x9b", b"\xe2", b"")))
                await pilot.pause()
                assert_harmless(app)
                pane.action_view()
                await pilot.pause()
                assert_harmless(app)
                pane.show(ViewState())

    asyncio.run(run())
