"""Text fields keep every character and draw none that a terminal obeys; the chat line sends and recalls."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from support.nasty import NASTY, assert_harmless
from textual import events, on
from textual.app import App, ComposeResult

from tui.widgets.inputs import ChatInput, SafeInput, SafeTextArea, same_length


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
