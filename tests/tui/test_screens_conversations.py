"""The saved conversations, from the list."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.nasty import NASTY, assert_harmless, drawn
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from engine.context import Message, load_context
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.screens.conversations import ConversationsScreen, Delete
from tui.screens.message import ErrorModal

OPEN = object()
Test = Callable[[App[None], Pilot[None]], Awaitable[None]]


class Open:
    """The open conversation, as the app holds it."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def change(self, conversation: Conversation) -> None:
        self.conversation = conversation


def visit(
    store: ConversationStore, current: Conversation | Open, test: Test, size: tuple[int, int] = (80, 24)
) -> object:
    results: list[object] = [OPEN]
    holder = current if isinstance(current, Open) else Open(current)

    async def run() -> None:
        app: App[None] = App()
        async with app.run_test(size=size) as pilot:
            screen = ConversationsScreen(store, lambda: holder.conversation, holder.change, now=lambda: 2e10)
            app.push_screen(screen, results.append)
            await pilot.pause()
            await test(app, pilot)
            await pilot.pause()

    asyncio.run(run())
    return results[-1]


def press(*keys: str) -> Test:
    async def test(app: App[None], pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    return test


def two(tmp_path: Path) -> tuple[ConversationStore, Conversation, Conversation]:
    """A store with two conversations; the first one is the older."""
    store = ConversationStore(tmp_path / "store")
    first = store.save(Conversation().add(Message("user", "first")))
    second = store.save(Conversation().add(Message("user", "second")))
    os.utime(store.folder / f"{first.id}.json", (1e9, 1e9))
    return store, first, second


def test_open_another(tmp_path: Path) -> None:
    store, first, second = two(tmp_path)
    changed = second.add(Message("user", "unsaved"))
    opened = visit(store, changed, press("down", "enter"))
    assert isinstance(opened, Conversation) and opened.messages == first.messages
    assert second.id is not None
    assert len(store.load(second.id)) == 2, "the open one was saved first"
    assert visit(store, second, press("enter")) is second, "it is open already"


def test_new_and_leave(tmp_path: Path) -> None:
    store, _, second = two(tmp_path)
    assert visit(store, second, press("n")) == Conversation()
    assert visit(store, second, press("escape")) is None


def test_rename(tmp_path: Path) -> None:
    store, _, second = two(tmp_path)
    current = Open(second)
    assert visit(store, current, press("r", *" x", "enter", "escape")) is None, "it stays open"
    assert current.conversation.title == "second x"
    assert current.conversation.undo().messages == (), "its undo steps stay"

    async def rename_the_other(app: App[None], pilot: Pilot[None]) -> None:
        await pilot.press("down", "r", *" y", "enter")
        options = app.screen.query_one(OptionList)
        assert options.highlighted is not None
        chosen = options.get_option_at_index(options.highlighted)
        assert "first y" in str(chosen.prompt), "the cursor follows it to its new place"
        await pilot.press("escape")

    assert visit(store, current, rename_the_other) is None
    assert {saved.title for saved in store.list()} == {"second x", "first y"}
    assert store.restore()[0].title == "second x", "the open one is what a restart brings back"


def test_what_happens_while_the_list_is_open_is_kept(tmp_path: Path) -> None:
    store, _, second = two(tmp_path)
    current = Open(second)

    async def test(app: App[None], pilot: Pilot[None]) -> None:
        current.change(store.save(current.conversation.add(Message("assistant", "an answer that came"))))
        await pilot.press("n")

    assert visit(store, current, test) == Conversation()
    assert second.id is not None
    assert len(store.load(second.id)) == 2


def test_delete_asks(tmp_path: Path) -> None:
    store, _, second = two(tmp_path)
    assert visit(store, second, press("down", "d", "enter", "escape")) is None
    assert len(store.list()) == 2, "the safe answer has the focus"
    assert visit(store, second, press("down", "d", "y", "escape")) is None
    assert [saved.id for saved in store.list()] == [second.id]
    assert visit(store, second, press("d", "y")) == Delete(second.id or "")
    assert len(store.list()) == 1, "the open one is deleted by who may still write into it"


def test_import_and_export(tmp_path: Path) -> None:
    store, _, second = two(tmp_path)
    path = tmp_path / "out.json"

    async def write(app: App[None], pilot: Pilot[None]) -> None:
        for answer in ("", "n", "y"):
            await pilot.press("e")
            app.screen.query_one(Input).value = str(path)
            await pilot.press("enter", *answer)
        assert load_context(str(path)) == second.messages

    visit(store, second, write)

    async def read(app: App[None], pilot: Pilot[None]) -> None:
        await pilot.press("i")
        app.screen.query_one(Input).value = str(tmp_path / "none.json")
        await pilot.press("enter")
        assert isinstance(app.screen, ErrorModal)
        await pilot.press("escape", "i")
        app.screen.query_one(Input).value = str(path)
        await pilot.press("enter")

    imported = visit(store, second, read)
    assert isinstance(imported, Conversation)
    assert (imported.messages, imported.id) == (second.messages, None)


def test_damaged_files_are_listed(tmp_path: Path) -> None:
    store, first, second = two(tmp_path)
    path = store.folder / f"{first.id}.json"
    path.write_text("{", encoding="utf-8")

    async def test(app: App[None], pilot: Pilot[None]) -> None:
        assert "is damaged" in drawn(app)
        await pilot.press("r", "enter")
        assert isinstance(app.screen, ErrorModal), "it cannot be renamed, and opening it says why"

    visit(store, second, test)
    assert path.exists()


def test_buttons_and_nasty_titles(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path / "store")
    current = Conversation()
    for text in NASTY:
        current = store.save(Conversation().add(Message("user", text)).renamed(text))

    async def test(app: App[None], pilot: Pilot[None]) -> None:
        for _ in NASTY:
            assert_harmless(app)
            for button in ("#rename", "#delete"):
                await pilot.click(button)
                assert_harmless(app)
                await pilot.press("escape")
            await pilot.press("down")
        await pilot.click("#close")

    assert visit(store, current, test, size=(60, 20)) is None
