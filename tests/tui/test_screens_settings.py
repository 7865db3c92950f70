"""The form over the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bursts import type_at_once
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Select, Static

from engine.config import Config, known_keys, load_config, parse_config
from tui.screens.message import ConfirmModal, ErrorModal, TextModal
from tui.screens.settings import SettingsScreen
from tui.screens.settings_row import FieldRow
from tui.settings_form import Kind, Reach, changed, check, fields, matching, tables, texts_of

CONFIG = load_config("config.example.toml")
OPEN = object()
Test = Callable[[App[None], SettingsScreen, Pilot[None]], Awaitable[None]]


def fill(
    test: Test, config: Config = CONFIG, path: Path | None = None, size: tuple[int, int] = (80, 24)
) -> object:
    """What the form gives after a test did something with it."""
    results: list[object] = [OPEN]

    async def run() -> None:
        app: App[None] = App()
        async with app.run_test(size=size) as pilot:
            screen = SettingsScreen(config, path)
            app.push_screen(screen, results.append)
            await pilot.pause()
            await test(app, screen, pilot)
            await pilot.pause()

    asyncio.run(run())
    return results[-1]


def row(screen: SettingsScreen, key: str) -> FieldRow:
    return screen.query_one(f"#field-{key.replace('.', '-')}", FieldRow)


async def put(screen: SettingsScreen, pilot: Pilot[None], **values: Any) -> None:
    for key, value in values.items():
        control: Any = row(screen, key.replace("__", ".")).control
        control.value = value
    await pilot.pause()


def test_every_key_is_there_with_its_sentence() -> None:
    form = fields()
    assert tuple(field.key for field in form) == known_keys()
    assert all(field.sentence.endswith(".") for field in form)
    assert set(tables()) == {field.table for field in form}
    assert {field.kind for field in form} == set(Kind)
    reaches = {field.key: field.reach for field in form}
    assert reaches["draft.num_draft_tokens"] is Reach.ROUND
    assert reaches["sampling.seed"] is Reach.ROUND
    assert reaches["run.rounds"] is Reach.RUN
    assert reaches["verify.model_name"] is Reach.RELOAD


@pytest.mark.parametrize("source", ["config.example.toml", "builtin", "qwen3"])
def test_texts_mean_the_configuration(source: str) -> None:
    config = load_config(source, ['run.stop=["a, b", "\\u001b[31m"]', "sampling.top_p=0.123456789012345"])
    texts = texts_of(config)
    assert check(texts, fields()).config == config
    assert changed(texts, texts, fields()) == []
    assert "\x1b" not in "".join(texts.values())


@given(st.sampled_from(known_keys()), st.text(max_size=12))
def test_any_text_is_taken_or_told(key: str, text: str) -> None:
    texts = {**texts_of(CONFIG), key: text}
    checked = check(texts, fields())
    assert (checked.config is None) == bool(checked.problems)
    assert all(problem.strip() for problem in checked.problems.values())


def test_problems_are_in_plain_words() -> None:
    texts = {**texts_of(CONFIG), "draft.num_draft_tokens": "100", "run.device": "gpu", "run.rounds": "x"}
    problems = check(texts, fields()).problems
    assert problems["draft.num_draft_tokens"] == "must be at most 64, not 100."
    assert "Did you mean 'cpu'?" in problems["run.device"]
    assert problems["run.rounds"] == "must be a whole number, not 'x'."
    texts = {**texts_of(CONFIG), "verify.verify_strategy": "greedy_match", "sampling.temperature": "1"}
    assert "greedy_match is temperature 0" in check(texts, fields()).problems["sampling.temperature"]


def test_filtering() -> None:
    assert matching(fields(), "TEMPER") == {"sampling.temperature"}
    assert matching(fields(), "") == set(known_keys())


def test_changes_are_marked_and_applied() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        assert "nothing changed" in drawn(app)
        await put(screen, pilot, draft__num_draft_tokens="7", draft__sample_strategy="greedy")
        assert "* num_draft_tokens" in drawn(app) and "2 changed; models are loaded again" in drawn(app)
        assert row(screen, "draft.sample_strategy").query_one(".reach", Static).content == "reload"
        await pilot.press("f2")

    config = fill(test)
    assert isinstance(config, Config)
    assert (config.draft.num_draft_tokens, config.draft.sample_strategy) == (7, "greedy")


def test_nothing_is_loaded_again_where_nothing_is_loaded() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        app.lab = SimpleNamespace(loaded=False)  # type: ignore[attr-defined]
        await put(screen, pilot, draft__num_draft_tokens="7", draft__sample_strategy="greedy")
        text = drawn(app)
        assert "2 changed" in text and "loaded again" not in text
        assert row(screen, "draft.sample_strategy").query_one(".reach", Static).content == "next run"

    fill(test)


def test_the_keys_are_shown_and_go_from_field_to_field() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        text = drawn(app)
        assert "ctrl+s Save" in text and "F2 Apply" in text and "F3 Filter" in text and "esc Close" in text
        seen = []
        for _ in range(6):
            seen.append(app.focused)
            await pilot.press("down")
        assert len({*seen}) == 6 and any(isinstance(each, Select) for each in seen)
        await pilot.press("f3")
        assert app.focused is screen.query_one("#filter")

    fill(test)


def test_what_was_typed_before_a_save_is_saved(tmp_path: Path) -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        control = row(screen, "verify.model_name").control
        control.focus()
        await pilot.press("ctrl+u")
        type_at_once(app, "some/other-model\x13")
        await wait_until(pilot, lambda: app.screen is not screen)

    path = tmp_path / "x.toml"
    config = fill(test, path=path)
    assert isinstance(config, Config) and config.verify.model_name == "some/other-model"
    assert "some/other-model" in path.read_text("utf-8")


def test_what_is_wrong_is_said_and_not_applied() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        await put(screen, pilot, run__rounds="-3")
        screen.query_one("#filter", Input).value = "draft"
        await pilot.press("f2")
        assert app.focused is row(screen, "run.rounds").control, "the focus goes where it is wrong"
        await wait_until(pilot, lambda: "must be at least 1, not -3" in drawn(app))
        assert "1 field to put right" in drawn(app)
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, SettingsScreen)

    assert fill(test) is OPEN


def test_a_method_without_a_model_asks_for_none() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        await put(screen, pilot, draft__method="lookup")
        assert row(screen, "draft.model_name").control.disabled
        await pilot.press("f2")

    config = fill(test)
    assert isinstance(config, Config) and config.draft.model_name is None


def test_filter_box_and_keys() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        screen.query_one("#filter").focus()
        await pilot.press(*"thinking")
        assert row(screen, "run.thinking").display and not row(screen, "run.rounds").display
        assert "[draft]" not in drawn(app)
        await pilot.press("tab")
        assert app.focused is row(screen, "run.thinking").control
        await pilot.press("slash")
        assert app.focused is screen.query_one("#filter")
        await pilot.press("backspace", "down")
        await pilot.press("escape")

    assert fill(test) is None


def test_leaving_with_changes_asks() -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        await put(screen, pilot, run__ignore_eos=True)
        await pilot.press("escape")
        assert [type(each) for each in app.screen_stack[1:]] == [SettingsScreen, ConfirmModal]
        await wait_until(pilot, lambda: "Leave the settings?" in drawn(app))
        await pilot.press("n")
        assert app.screen is screen
        await pilot.press("escape", "y")

    assert fill(test) is None


def test_saving_keeps_comments(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '# my file\n[draft]\nmethod = "lookup" # why\n[verify]\nmodel_name = "x/y"\n', encoding="utf-8"
    )

    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        await put(screen, pilot, run__stop='["END"]')
        await pilot.press("ctrl+s")

    config = fill(test, load_config(str(path)), path)
    text = path.read_text("utf-8")
    assert "# my file" in text and "# why" in text and 'stop = ["END"]' in text
    assert parse_config(text, "x") == config


def test_a_preset_asks_where_to_save(tmp_path: Path) -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, TextModal)
        app.screen.query_one(Input).value = str(tmp_path / "none" / "x.toml")
        await pilot.press("enter")
        assert isinstance(app.screen, ErrorModal)
        await pilot.press("escape", "ctrl+s")
        app.screen.query_one(Input).value = str(tmp_path / "x.toml")
        await pilot.press("enter")
        assert screen.path == tmp_path / "x.toml"

    config = fill(test, load_config("builtin"))
    assert parse_config((tmp_path / "x.toml").read_text("utf-8"), "x") == config


@pytest.mark.parametrize("size", [(60, 20), (120, 36)])
def test_nasty_text_does_nothing(size: tuple[int, int]) -> None:
    async def test(app: App[None], screen: SettingsScreen, pilot: Pilot[None]) -> None:
        for text in NASTY:
            line = text.replace("\n", " ")
            await put(screen, pilot, draft__model_name=line, draft__num_draft_tokens=line)
            assert_harmless(app)

    fill(test, size=size)
