"""What a run is to become in the conversation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.context import Message
from tui.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that was asked for."""

    messages: tuple[Message, ...]
    """What it answers: the first messages of a conversation. An answer at their end is continued."""
    given: tuple[int, ...] = ()
    """Ids the answer starts with."""
    label: str = "write the answer"
    """What undoing its result undoes."""

    @property
    def at(self) -> int:
        """How many messages it answers; what follows them is written again."""
        return len(self.messages)

    @property
    def continues(self) -> bool:
        """Whether it goes on with the last message."""
        return bool(self.messages) and self.messages[-1].role == "assistant"

    def fits(self, conversation: Conversation) -> bool:
        """Whether the conversation still begins with what was answered; a message may have been continued."""
        messages = conversation.messages[: self.at]
        if not self.continues or len(messages) < self.at:
            return messages == self.messages
        mine, its = self.messages[-1], messages[-1]
        grown = its.role == mine.role and its.content.startswith(mine.content)
        return grown and messages[:-1] == self.messages[:-1]

    def committed(self, conversation: Conversation, text: str, *, thinking_opened: bool) -> Conversation:
        """The conversation with the answer, as one edit; the same if there is no text.

        Args:
            thinking_opened: the prompt ended with the tag that opens the thinking, so the text lacks it.
        """
        if not text or not self.fits(conversation):
            return conversation
        if self.continues:
            last = self.messages[-1]
            return conversation.with_messages(
                self.label, (*self.messages[:-1], Message(last.role, last.content + text))
            )
        whole = f"<think>\n{text}" if thinking_opened else text
        return conversation.with_messages(self.label, (*self.messages, Message("assistant", whole)))
