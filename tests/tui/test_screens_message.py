"""Small dialogs, by keyboard and by mouse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest
from support.bursts import type_at_once
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from textual.app import App
from textual.binding import Binding, BindingType
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Button

from engine.config import load_config
from engine.context import Message
from engine.errors import DoesNotFit
from engine.events import Alternative, Failed
from tui.key_text import key_text
from tui.screens.branch import AlternativesModal, Branch
from tui.screens.conversations import ago
from tui.screens.editor import EditorModal
from tui.screens.help import HelpScreen, Topic, topic_of
from tui.screens.message import Choice, ChoiceModal, ConfirmModal, ErrorModal, TextModal
from tui.screens.settings import SettingsScreen
from tui.widgets.context import ContextPane
from tui.widgets.inputs import ChatInput, SafeInput

SCROLLBARS = re.compile("[\u2581-\u2588]")
"""Every screen of the app has those, so the app says how they are drawn."""
OPEN = object()
"""The result of a dialog that is still open."""


def ask(
    make: Callable[[], ModalScreen[Any]],
    *keys: str,
    size: tuple[int, int] = (80, 24),
    then: Callable[[App[None], Pilot[None]], Awaitable[None]] | None = None,
) -> object:
    """What a dialog gives after some keys."""
    results: list[object] = [OPEN]

    async def run() -> None:
        app: App[None] = App()
        async with app.run_test(size=size) as pilot:
            app.push_screen(make(), results.append)
            await pilot.pause()
            assert_harmless(app)
            await pilot.press(*keys)
            if then is not None:
                await then(app, pilot)

    asyncio.run(run())
    return results[-1]


def test_confirm() -> None:
    def make() -> ConfirmModal:
        return ConfirmModal("Sure?", "really")

    assert ask(make, "y") is True
    assert ask(make, "n") is False
    assert ask(make, "escape") is False
    assert ask(make, "enter") is True
    assert ask(lambda: ConfirmModal("Delete?", danger=True), "enter") is False
    assert ask(make, "tab", "tab") is OPEN

    async def click(app: App[None], pilot: Pilot[None]) -> None:
        await pilot.click("#no")

    assert ask(make, then=click) is False


def test_choice() -> None:
    choices = [Choice("a", "First", "detail"), Choice("b", "Second")]
    assert ask(lambda: ChoiceModal("Which?", choices), "down", "enter") == "b"
    assert ask(lambda: ChoiceModal("Which?", choices), "escape") is None


def test_text() -> None:
    def make() -> TextModal:
        return TextModal("Name?", "old", check=lambda text: "no x" if "x" in text else None)

    assert ask(make, "e", "enter") == "olde"
    assert ask(make, "x", "enter") is OPEN
    assert ask(make, "backspace", "backspace", "backspace", "enter") is OPEN
    assert ask(make, "escape") is None


def test_alternatives() -> None:
    shown = (
        Alternative(5, b" the", 0.61),
        Alternative(6, b"\xe2\x82", 0.2),
        Alternative(7, b"\x1b[31m", 0.02),
    )

    def make() -> AlternativesModal:
        return AlternativesModal(shown, 6, "at token 12")

    async def look(app: App[None], pilot: Pilot[None]) -> None:
        text = drawn(app)
        assert "61.0%" in text and "\u00b7the" in text and "<E2><82>  6  (now)" in text

    assert ask(make, then=look) is OPEN
    assert ask(make, "down", "down", "enter") == Branch(id=7)
    assert ask(make, "space", "h", "i", "enter") == Branch(text=" hi")
    assert ask(make, "x", "backspace", "down", "down", "enter") == Branch(id=7)
    assert ask(make, "down", "down", "down", "h", "enter") == Branch(text="h")
    assert ask(make, "down", "down", "down", "enter") is OPEN, "past the list the text counts"
    assert ask(make, "up", "up", "enter") == Branch(id=7)
    assert ask(make, "down", "enter") is None, "what stands there stays"
    assert ask(lambda: AlternativesModal((), None), "x", "enter") == Branch(text="x")
    assert ask(make, "escape") is None


def test_error_can_be_copied() -> None:
    async def copy(app: App[None], pilot: Pilot[None]) -> None:
        await pilot.press("c")
        assert app.clipboard.startswith("Not enough memory\nabout 9 GB\u241b needed")
        assert "lower run.max_new_tokens" in app.clipboard
        await pilot.press("enter")

    error = DoesNotFit("about 9 GB\x1b needed", "lower run.max_new_tokens")
    assert ask(lambda: ErrorModal.of(error), then=copy) is None
    failed = Failed(0, 0, "Unknown", "something", None)
    assert ask(lambda: ErrorModal.of(failed), "escape") is None


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (30, 10)])
def test_nasty_and_long_text_does_nothing(size: tuple[int, int]) -> None:
    for text in (" ".join(NASTY), "long " * 300):
        ask(lambda text=text: ErrorModal(text, text, text, text), size=size)  # type: ignore[misc]
    text = " ".join(NASTY)
    ask(lambda: ConfirmModal(text, text, yes=text, no=text), size=size)
    ask(lambda: ChoiceModal(text, [Choice("a", text, text)], text), size=size)
    ask(lambda: TextModal(text, text.replace("\n", ""), detail=text, check=lambda _: text), "x", size=size)
    ask(lambda: HelpScreen([Topic(text, text, ((text, text),))]), size=size)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ErrorModal("a", "b"), ("c Copy", "esc Close")),
        (lambda: ConfirmModal("a"), ("y Yes", "n No")),
        (lambda: ChoiceModal("a", [Choice("b", "c")]), ("enter take it",)),
        (lambda: TextModal("a"), ("enter OK", "esc Close")),
        (lambda: AlternativesModal((), None), ("enter take it", "esc Close")),
        (lambda: HelpScreen([]), ("up down pgup pgdn scroll",)),
    ],
)
def test_keys_are_shown(make: Callable[[], ModalScreen[Any]], words: tuple[str, ...]) -> None:
    async def look(app: App[None], pilot: Pilot[None]) -> None:
        assert all(word in drawn(app) for word in words), drawn(app)

    ask(make, then=look)


class PictureApp(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", priority=False)]
    ascii = True
    pictures = 0
    quitted = False

    def action_app_picture(self) -> None:
        self.pictures += 1

    async def action_quit(self) -> None:
        self.quitted = True


def test_pictures_and_quitting_in_a_dialog() -> None:
    async def run() -> None:
        app = PictureApp()
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(TextModal("Name?"))
            await pilot.press("f12", "ctrl+q")
            assert (app.pictures, app.quitted) == (1, True)

    asyncio.run(run())


def test_ascii_dialogs() -> None:
    async def run() -> None:
        app = PictureApp()
        async with app.run_test(size=(80, 24)) as pilot:
            for screen in (
                TextModal("Name?", "x"),
                ErrorModal("a", "b"),
                ChoiceModal("a", [Choice("b", "c")]),
                EditorModal(Message("user", "Hi"), "Edit"),
                SettingsScreen(load_config("builtin")),
            ):
                app.push_screen(screen)
                await pilot.pause()
                assert SCROLLBARS.sub("", drawn(app)).isascii(), drawn(app)
                if isinstance(screen, EditorModal):
                    await pilot.press("shift+tab", "enter")
                    assert drawn(app).isascii(), drawn(app)
                    await pilot.press("escape")
                await pilot.press("escape")

    asyncio.run(run())


def test_what_follows_an_enter_does_not_count() -> None:
    async def burst(app: App[None], pilot: Pilot[None]) -> None:
        type_at_once(app, "wrong\x15right\x7f\x7fht\rnot this")
        await wait_until(pilot, lambda: not isinstance(app.screen, TextModal))

    assert ask(lambda: TextModal("Name?", "old"), then=burst) == "right"


def test_help_of_panes() -> None:
    async def run() -> None:
        app: App[None] = App()
        async with app.run_test(size=(80, 24)) as pilot:
            chat = ChatInput()
            await app.mount(chat)
            topic = topic_of(chat, "Chat")
            assert topic is not None and topic.title == "Chat" and "Enter sends" in topic.text
            assert ("enter", "Send the message") in topic.keys
            assert topic_of(SafeInput()) is None and topic_of(Button()) is None
            app.push_screen(HelpScreen([topic]))
            await pilot.pause()
            assert "ctrl+j shift+enter alt+enter" in drawn(app)
            await pilot.press("j", "k", "q")
            assert not isinstance(app.screen, HelpScreen)

    asyncio.run(run())
    assert key_text("slash,question_mark,shift+up") == "/ ? shift+up"
    assert key_text("+") == "+"
    assert ContextPane.HELP


def test_ages() -> None:
    assert [ago(seconds) for seconds in (5, 60, 7200, 90_000)] == [
        *("just now", "1 minute ago", "2 hours ago", "1 day ago")
    ]
