"""Keys one after the other: a key is handed on only when all that the one before started is done.

Textual puts a key into the queue of the widget that has the focus at that moment, and carries out a binding
only when the key comes back from there. Keys that come in one read, as from a fast hand or a paste, would go
on to the old place meanwhile: of "e" and a text, the text would reach the pane and not the editor that "e"
opens. Here a key waits until the one before has passed every queue and a new screen has its focus. Letters
for a text field wait for nothing: the field's own queue keeps them in order.
"""

from __future__ import annotations

from collections import deque

from textual import events, on
from textual.app import App, ReturnType
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, TextArea

_QUIET_PASSES = 2
"""Passes through the queues with nothing new: what a key asks for by a message comes in between."""
_MOST_PASSES = 12
_PATIENCE_S = 0.5
"""A place that is closed meanwhile answers nothing."""


class _Passed(Message):
    """Goes the way of a key, and so arrives after it."""

    def __init__(self, place: Widget, number: int) -> None:
        super().__init__()
        self.place, self.number = place, number


class KeyOrder(App[ReturnType]):
    """An app that takes keys one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._held: deque[events.Key | events.Paste] = deque()
        self._number = 0  # of the key on its way
        self._on_its_way = False
        self._passes = self._quiet = 0
        self._patience: Timer | None = None

    async def on_event(self, event: events.Event) -> None:
        """Hold keys back while one is on its way."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded or not self.screen_stack:
            await super().on_event(event)
        elif self._on_its_way or self._held:
            self._held.append(event)
        else:
            await self._hand_on(event)

    async def _hand_on(self, event: events.Key | events.Paste) -> None:
        place = self._place
        await super().on_event(event)
        types = isinstance(event, events.Paste) or event.is_printable
        if types and isinstance(place, Input | TextArea) and place is self._place:
            return
        self._on_its_way = True
        self._number += 1
        self._passes = self._quiet = 0
        self._patience = self.set_timer(_PATIENCE_S, self._go_on)
        self._follow(place)

    @property
    def _place(self) -> Widget:
        """Where a key goes now."""
        return self.focused or self.screen

    def _follow(self, place: Widget) -> None:
        if not place.post_message(_Passed(place, self._number)):
            self.call_later(self._looked_after, None)

    @on(_Passed)
    async def _came(self, event: _Passed) -> None:
        event.stop()
        if event.number == self._number and self._on_its_way:
            await self._looked_after(event.place)

    async def _looked_after(self, place: Widget | None) -> None:
        """One pass more, until nothing new happens."""
        if not self.screen_stack:
            return
        now = self._place
        self._passes += 1
        self._quiet = self._quiet + 1 if now is place else 0
        if self._quiet >= _QUIET_PASSES or self._passes >= _MOST_PASSES:
            await self._go_on()
        else:
            self._follow(now)

    async def _go_on(self) -> None:
        self._on_its_way = False
        if self._patience is not None:
            self._patience.stop()
            self._patience = None
        while self._held and not self._on_its_way and self.screen_stack:
            await self._hand_on(self._held.popleft())
