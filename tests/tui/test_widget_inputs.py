"""Text fields keep every character and draw none that a terminal obeys; the chat line sends and recalls."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bursts import type_at_once
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from textual import events, on
from textual.app import App, ComposeResult
from textual.widgets import Select

from tui.widgets.inputs import ChatInput, SafeInput, SafeSelect, SafeTextArea, same_length


class FieldsApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def compose(self) -> ComposeResult:
        yield SafeInput()
        yield SafeTextArea()
        yield ChatInput()

    @on(ChatInput.Submitted)
    def _sent(self, event: ChatInput.Submitted) -> None:
        self.sent.append(event.text)


@given(st.text())
def test_every_position_stays(text: str) -> None:
    assert len(same_length(text)) == len(text)


def test_fields_are_harmless_and_faithful() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            line, area = app.query_one(SafeInput), app.query_one(SafeTextArea)
            for text in NASTY:
                line.value = text.replace("\n", " ")
                area.load_text(text)
                area.focus()
                await pilot.pause()
                assert_harmless(app)
                assert line.value == text.replace("\n", " ")
                line.focus()
                await pilot.press("left", "shift+left")
                assert_harmless(app)
            chat = app.query_one(ChatInput)
            chat.focus()
            app.post_message(events.Paste("\x1b[31mred\nnext"))
            await pilot.pause()
            assert chat.text == "\x1b[31mred\nnext"
            assert_harmless(app)

    asyncio.run(run())


def test_chat_line() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            chat = app.query_one(ChatInput)
            chat.focus()
            await pilot.press("enter", "space", "enter")
            assert app.sent == []
            chat.load_text("")
            await pilot.press("h", "i", "ctrl+j", "x")
            assert (chat.text, chat.size.height) == ("hi\nx", 2)
            await pilot.press("enter")
            assert (app.sent, chat.text) == (["hi\nx"], "")
            await pilot.press("b", "enter", "d", "r", "up", "up", "up")
            assert chat.text == "hi\nx"
            await pilot.press("down", "down", "down")
            assert chat.text == "dr"
            chat.put_back("lost")
            assert chat.text == "lost\ndr"
            chat.load_text("\n" * 30)
            await pilot.pause()
            assert chat.size.height == 6

    asyncio.run(run())


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525"


def test_keys_that_come_at_once_stay_in_order() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            app.query_one(ChatInput).focus()
            await pilot.pause()
            type_at_once(app, "Say hi to all of the ten penguins\rand to the other one\r")
            await wait_until(pilot, lambda: len(app.sent) == 2)
            assert app.sent == ["Say hi to all of the ten penguins", "and to the other one"]
            for kind in (SafeInput, SafeTextArea):
                field: Any = app.query_one(kind)
                field.focus()
                await pilot.pause()
                type_at_once(app, "lost\x15hello\x7f\x7fp you\x01Do \x05!")
                await pilot.pause(0.1)
                text = field.value if isinstance(field, SafeInput) else field.text
                assert text == "Do help you!"

    asyncio.run(run())


def test_typed_joiners_stay() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            for kind in (SafeInput, SafeTextArea, ChatInput):
                field: Any = app.query_one(kind)
                field.focus()
                await pilot.pause()
                type_at_once(app, FAMILY)
                await pilot.pause(0.1)
                assert (field.value if isinstance(field, SafeInput) else field.text) == FAMILY

    asyncio.run(run())


def test_copying_is_told() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            app.query_one(SafeInput).value = "four"
            app.query_one(SafeTextArea).load_text("and a half")
            for kind, words in ((SafeInput, "Copied 4 characters"), (SafeTextArea, "Copied 10 characters")):
                field: Any = app.query_one(kind)
                field.focus()
                field.action_select_all()
                await pilot.press("ctrl+c")
                assert words in "".join(str(toast.message) for toast in app._notifications)
            app.query_one(SafeInput).focus()
            await pilot.press("ctrl+x")
            assert app.query_one(SafeInput).value == "" and app.clipboard == "four"

    asyncio.run(run())


def test_escape_leaves_the_chat_line() -> None:
    async def run() -> None:
        app = FieldsApp()
        async with app.run_test(size=(60, 24)) as pilot:
            app.query_one(ChatInput).focus()
            await pilot.press("a", "escape")
            assert app.focused is None
            assert app.query_one(ChatInput).text == "a"

    asyncio.run(run())


class ChoiceApp(App[None]):
    ascii = True

    def compose(self) -> ComposeResult:
        yield SafeSelect([("one", "1"), ("two", "2")], allow_blank=False)
        yield SafeInput()


def test_down_does_not_open_a_choice() -> None:
    async def run() -> None:
        app = ChoiceApp()
        async with app.run_test(size=(60, 24)) as pilot:
            select = app.query_one(Select)
            select.focus()
            await pilot.press("down", "up")
            assert not select.expanded
            assert drawn(app).split("\n")[1].strip(" \u258a\u258e").endswith("v")
            for key in ("space", "enter"):
                await pilot.press(key)
                assert select.expanded
                await pilot.press("escape")
            await pilot.press("enter", "down", "enter")
            assert select.value == "2"

    asyncio.run(run())
