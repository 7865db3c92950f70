"""The conversation being edited: pure values with undo.

A ``Conversation`` never changes: every operation gives a new one, whose ``undo()`` gives the old one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.context import ROLES, Message

HISTORY_LIMIT = 200
"""Steps that can be undone; older ones are forgotten."""
TITLE_LENGTH = 60
"""Characters of a title that is made from the first message."""
UNTITLED = "New conversation"


@dataclass(frozen=True, slots=True)
class Step:
    """One edit that can be undone or done again."""

    label: str
    """What it did: "delete message 3"."""
    messages: tuple[Message, ...]
    """What undoing (or redoing) it brings back."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages with the edits that led to them. Two are equal if they can be undone alike."""

    messages: tuple[Message, ...] = ()
    name: str = ""
    """As the user called it; "" for none."""
    id: str | None = None
    """Its file in the store; None before it was saved."""
    preset: str = ""
    """The preset whose messages it began with; "" for none."""
    past: tuple[Step, ...] = ()
    """Oldest first."""
    future: tuple[Step, ...] = field(default=(), compare=False)
    """What was undone, the next to redo last."""

    @property
    def title(self) -> str:
        """Its name, else the start of the first thing the user said."""
        if self.name:
            return self.name
        said = next((m.content for m in self.messages if m.role == "user" and m.content.strip()), "")
        line = " ".join(said[: 4 * TITLE_LENGTH].split())
        return (line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "\u2026") or UNTITLED

    @property
    def system(self) -> str | None:
        """The system prompt; None where there is none."""
        first = self.messages[0] if self.messages else None
        return first.content if first and first.role == "system" else None

    def renamed(self, name: str) -> Conversation:
        """With another name; that is no edit of its text, so it is not undone."""
        return replace(self, name=" ".join(name.split()))

    # -- edits; a position that does not exist is our own mistake

    def add(self, message: Message) -> Conversation:
        """A message at the end."""
        return self.with_messages(f"add {_kind(message)}", (*self.messages, message))

    def insert(self, index: int, message: Message) -> Conversation:
        """A message before the one at ``index``; at the end where that is the length."""
        assert 0 <= index <= len(self.messages), f"no place {index} in {len(self.messages)} messages"
        messages = (*self.messages[:index], message, *self.messages[index:])
        return self.with_messages(f"insert {_kind(message)} at {index + 1}", messages)

    def edit(self, index: int, message: Message) -> Conversation:
        """Another message in place of the one at ``index``."""
        return self._put(index, (message,), f"edit message {index + 1}")

    def delete(self, index: int) -> Conversation:
        """Without the message at ``index``."""
        return self._put(index, (), f"delete message {index + 1}")

    def duplicate(self, index: int) -> Conversation:
        """A copy of the message at ``index`` after it."""
        return self._put(index, (self[index],) * 2, f"duplicate message {index + 1}")

    def set_role(self, index: int, role: str) -> Conversation:
        """The same text, said by another."""
        assert role in ROLES, f"{role!r} is no role"
        return self._put(index, (Message(role, self[index].content),), f"make message {index + 1} {role}")

    def move(self, index: int, by: int) -> Conversation:
        """The message at ``index``, ``by`` places later, earlier if negative, as far as there are places."""
        to = max(0, min(index + by, len(self.messages) - 1))
        rest = list(self.messages)
        rest.insert(to, rest.pop(index))
        return self.with_messages(f"move message {index + 1} to {to + 1}", tuple(rest))

    def set_system(self, text: str | None) -> Conversation:
        """The system prompt, at the front; None or blank text takes it away."""
        rest = self.messages if self.system is None else self.messages[1:]
        if text is None or not text.strip():
            return self.with_messages("remove the system prompt", rest)
        return self.with_messages("set the system prompt", (Message("system", text), *rest))

    # -- undo

    def undo(self) -> Conversation:
        """As it was before the last edit; the same if there was none."""
        if not self.past:
            return self
        step = self.past[-1]
        future = (*self.future, Step(step.label, self.messages))
        return replace(self, messages=step.messages, past=self.past[:-1], future=future)

    def redo(self) -> Conversation:
        """The last edit that was undone, done again; the same if there is none."""
        if not self.future:
            return self
        step = self.future[-1]
        past = (*self.past, Step(step.label, self.messages))
        return replace(self, messages=step.messages, past=past, future=self.future[:-1])

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index: int) -> Message:
        assert 0 <= index < len(self.messages), f"no message {index} of {len(self.messages)}"
        return self.messages[index]

    def _put(self, index: int, new: Sequence[Message], label: str) -> Conversation:
        assert 0 <= index < len(self.messages), f"no message {index} of {len(self.messages)}"
        return self.with_messages(label, (*self.messages[:index], *new, *self.messages[index + 1 :]))

    def with_messages(self, label: str, messages: tuple[Message, ...]) -> Conversation:
        """With other messages, as one edit that ``label`` names; the same if they are the same."""
        if messages == self.messages:
            return self
        past = (*self.past, Step(label, self.messages))[-HISTORY_LIMIT:]
        return replace(self, messages=messages, past=past, future=())


def _kind(message: Message) -> str:
    names: dict[str, str] = {"system": "a system prompt", "assistant": "an answer", "tool": "a tool result"}
    return names.get(message.role, "a message")
