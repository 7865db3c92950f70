"""Which message is chosen after the conversation was edited. Pure."""

from __future__ import annotations

from engine.context import Message

Messages = tuple[Message, ...]


def moved_selection(before: Messages, after: Messages, selected: int) -> int:
    """The index of the chosen message among the new ones.

    A new message is chosen, but a system prompt put in front is not: it is edited by a key of its own. Else
    the same message stays chosen, or the one that took its place.
    """
    last = max(len(after) - 1, 0)
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    grown = len(after) - len(before)
    if not head and not tail:
        return last  # another conversation, or its first message
    system_prompt = not head and grown == 1 and after[0].role == "system"
    if grown > 0 and not system_prompt:
        return len(after) - tail - 1
    if selected >= len(before) - tail:
        return min(selected + grown, last)
    return min(selected, last)
