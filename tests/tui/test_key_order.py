"""Keys that come in one read reach what they are meant for, whatever the ones before them open or close."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from support.bursts import type_at_once
from support.nasty import wait_until
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tui.key_order import KeyOrder
from tui.screens.message import ConfirmModal, TextModal
from tui.widgets.inputs import ChatInput


class Pane(Widget, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit"),
        Binding("w", "write"),
        Binding("x", "sink"),
    ]
    sunk = 0

    class Asked(Message):
        """A dialog is wanted."""

    def action_edit(self) -> None:
        self.post_message(self.Asked())

    def action_write(self) -> None:
        self.app.query_one(ChatInput).focus()

    def action_sink(self) -> None:
        self.sunk += 1


class PaneApp(KeyOrder[None]):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[object] = []

    def compose(self) -> ComposeResult:
        yield Pane()
        yield ChatInput()

    @on(Pane.Asked)
    def _asked(self) -> None:
        self.push_screen(TextModal("Name?"), self._named)

    def _named(self, name: str | None) -> None:
        self.got.append(name)
        if name == "ask":
            self.push_screen(ConfirmModal("Sure?"), self.got.append)

    @on(ChatInput.Submitted)
    def _sent(self, event: ChatInput.Submitted) -> None:
        self.got.append(event.text)


@pytest.mark.parametrize(
    ("typed", "got"),
    [
        ("eHello you\r", ["Hello you"]),
        ("ealso\x7f\x7f\x7fbc\re\x1befine\r", ["abc", None, "fine"]),
        ("eask\ry", ["ask", True]),
        ("eask\rnexx", ["ask", False]),
        (
            "wSay hi to all of the ten penguins\rand to me\r",
            ["Say hi to all of the ten penguins", "and to me"],
        ),
        ("wone\x0atwo\x15three\r\tew\r", ["one\nthree", "w"]),
    ],
)
def test_a_burst_goes_where_it_is_meant(typed: str, got: list[object]) -> None:
    async def run() -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 24)) as pilot:
            app.query_one(Pane).focus()
            await pilot.pause()
            type_at_once(app, typed)
            await wait_until(pilot, lambda: len(app.got) >= len(got))
            assert app.got == got

    asyncio.run(run())


def test_a_place_that_closes_holds_nothing_up() -> None:
    async def run() -> None:
        app = PaneApp()
        async with app.run_test(size=(60, 24)) as pilot:
            pane = app.query_one(Pane)
            pane.focus()
            await pilot.pause()
            type_at_once(app, "xx")
            await wait_until(pilot, lambda: pane.sunk == 2)
            type_at_once(app, "x")
            await pane.remove()
            other = Pane()
            await app.mount(other)
            other.focus()
            await pilot.pause()
            type_at_once(app, "xx")
            await wait_until(pilot, lambda: other.sunk == 2)

    asyncio.run(run())
