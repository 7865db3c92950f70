"""The palette has every action of the app and of its panes, each with its key, and carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.app import ANSWERED, Driven, driven
from support.bursts import type_at_once
from support.nasty import drawn
from textual.command import CommandList, CommandPalette

from tui.actions import ACTIONS, PANES
from tui.screens.help import own_bindings
from tui.screens.palette import Commands, Entry, PaletteInput


def run(folder: Path, test: Callable[[Driven], Awaitable[None]], **launch: Any) -> None:
    async def go() -> None:
        async with driven(folder, messages=ANSWERED, **launch) as app:
            await test(app)

    asyncio.run(go())


def entries(app: Driven) -> dict[str, Entry]:
    return {entry.title: entry for entry in Commands(app.screen)._entries()}


async def look_for(app: Driven, words: str) -> list[str]:
    """What the palette lists for some words."""
    await app.press("ctrl+p")
    await app.top("Palette")
    app.screen.query_one(PaletteInput).value = words
    rows = app.screen.query_one(CommandList)
    await app.until(lambda: rows.option_count > 0 and words in _asked(app), "the palette")
    await app.pilot.pause(0.3)
    return [str(option.prompt) for option in rows.options]


def _asked(app: Driven) -> str:
    return app.screen.query_one(PaletteInput).value


def test_every_action_and_its_key_is_listed(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        listed = entries(app)
        for action in ACTIONS:
            if action.when(app.app.now):
                assert bool(listed[action.title].key) == bool(action.keys)
        texts = {(entry.title.partition(": ")[0], entry.key) for entry in listed.values()}
        for name, keys in {"context": "eadyKJorst", "output": "mt/", "rounds": "fF/", "prompt": "v/"}.items():
            for key in keys:
                assert (name.capitalize(), key) in texts, f"{key} of {name}"
        for name in PANES:
            kinds = [each.tooltip for each in own_bindings(type(app.app.live.pane(name)))]
            assert all(kinds), f"{name} has a key without an explanation"
        assert {"Preset: builtin", "Preset: qwen3", "Theme: light"} <= {*listed}
        assert not any("[" in entry.help for entry in listed.values()), "it would be markup"

    run(tmp_path, test)


def test_an_action_of_a_pane_is_found_and_carried_out(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        (found,) = await look_for(app, "duplic")
        assert found.split("\n")[0].split() == ["Context:", "Duplicate", "y"]
        await app.press("enter")
        await app.until(lambda: len(app.lab.conversation) == len(ANSWERED) + 1, "the copy")
        assert app.app.focused is app.app.live.pane("context")
        assert any(row.startswith("Rounds: With text") for row in await look_for(app, "with a text"))

    run(tmp_path, test)


def test_an_enter_in_the_same_breath_means_what_was_typed(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("ctrl+p")
        await app.top("Palette")
        type_at_once(app.app, "duplicate\r")
        await app.until(lambda: len(app.lab.conversation) == len(ANSWERED) + 1, "the copy")
        assert not app.lab.running and not app.lab.state.run
        await app.press("ctrl+p")
        await app.top("Palette")
        type_at_once(app.app, "no such thing\r")
        await app.pilot.pause(0.3)
        assert isinstance(app.screen, CommandPalette), "what is not found does nothing"

    run(tmp_path, test)


def test_the_keys_of_the_user_are_shown(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        listed = entries(app)
        assert listed["Run"].key == "F11" and listed["Context: Edit"].key == "ctrl+e"

    run(tmp_path, test, keymap={"run.start": "f11", "context.edit": "ctrl+e"})


def test_a_preset_brings_its_settings(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await look_for(app, "Preset: qwen3")
        await app.press("enter")
        await app.until(lambda: app.lab.config.verify.model_name == "Qwen/Qwen3-8B", "the preset")
        assert app.app.config_path is None
        assert "preset qwen3" in app.said

    run(tmp_path, test, load=False, config_path=tmp_path / "mine.toml")


def test_over_a_dialog_it_lists_the_keys_of_the_dialog(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("f2")
        await app.top("SettingsScreen")
        listed = entries(app)
        assert listed["Save"].key == "ctrl+s" and "Run" not in listed
        await look_for(app, "Filter")
        await app.press("enter")
        await app.until(lambda: app.screen.focused is app.screen.query("#filter").first(), "the filter")

    run(tmp_path, test)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_ascii(tmp_path: Path, size: tuple[int, int]) -> None:
    async def test(app: Driven) -> None:
        await look_for(app, "Context")
        assert isinstance(app.screen, CommandPalette)
        lines = drawn(app.app).split("\n")
        search = next(line for line in lines if "> " in line)
        assert search.isascii()

    run(tmp_path, test, size=size, ascii=True)
