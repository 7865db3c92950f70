"""What the user wants done with the conversation; the app does it. ``index`` counts the messages from 0."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message


class AtMessage(Message):
    """Something is to be done at one message."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index


class AddMessage(AtMessage):
    """A new message after this one; -1: at the front."""


class InsertMessage(AtMessage):
    """A new message before this one."""


class EditMessage(AtMessage):
    """Open it in the editor."""


class DeleteMessage(AtMessage):
    """Take it away."""


class DuplicateMessage(AtMessage):
    """A copy after it."""


class MoveMessage(AtMessage):
    """Move it by so many places, earlier if negative."""

    def __init__(self, index: int, delta: int) -> None:
        super().__init__(index)
        self.delta = delta


class ChangeRole(AtMessage):
    """Let another one have said it."""

    def __init__(self, index: int, role: str) -> None:
        super().__init__(index)
        self.role = role


class RegenerateFrom(AtMessage):
    """Answer anew: an assistant's message and what follows it is written again, another one is answered."""


class ContinueFrom(AtMessage):
    """Let the model write on at the end of this message of the assistant's."""


class UndoEdit(Message):
    """Undo the last edit."""


class RedoEdit(Message):
    """Do again what was undone."""


class EditSystem(Message):
    """Open the system prompt in the editor."""


class ToggleThinking(Message):
    """Ask the model to think first, or not."""


REQUESTS: dict[str, Callable[[int], Message]] = {
    "add": AddMessage,
    "insert": InsertMessage,
    "edit": EditMessage,
    "delete": DeleteMessage,
    "duplicate": DuplicateMessage,
    "regenerate": RegenerateFrom,
    "continue": ContinueFrom,
    "up": lambda index: MoveMessage(index, -1),
    "down": lambda index: MoveMessage(index, 1),
}
"""What can be done at a message, by a word."""
