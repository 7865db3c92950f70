"""What the screens of long measurements share: they are told from the engine's thread, and draw seldom."""

from __future__ import annotations

from abc import abstractmethod
from queue import Empty, SimpleQueue
from typing import TypeVar

from textual.timer import Timer

from tui.screens.dialog import Dialog

Result = TypeVar("Result")
EVERY_S = 1.0
"""From one look at what was told to the next: drawing takes time from what is measured."""


class MeasuringScreen(Dialog[Result]):
    """A dialog that is open while something is measured, and shows what came of it."""

    def __init__(self) -> None:
        super().__init__()
        self._told: SimpleQueue[object] = SimpleQueue()
        self._timer: Timer | None = None

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the measurement ran to its end."""

    @abstractmethod
    def take(self, event: object) -> None:
        """One event of the measurement."""

    @abstractmethod
    def draw(self) -> None:
        """Show what was taken so far."""

    def tell(self, event: object) -> None:
        """Take an event, from any thread. Nobody is woken for it."""
        self._told.put(event)

    def on_mount(self) -> None:
        self._timer = self.set_interval(EVERY_S, self.look)
        self.look()

    def look(self) -> None:
        """Take what was told, and draw it."""
        took = False
        while True:
            try:
                self.take(self._told.get_nowait())
            except Empty:
                break
            took = True
        if took:
            self.draw()
        if self.finished and self._timer is not None:
            self._timer.stop()
            self.refresh_bindings()
