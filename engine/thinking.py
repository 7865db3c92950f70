"""The part of an answer in which a model thinks: what stands between ``<think>`` and ``</think>``.

Only a block that begins the answer counts, so an answer that writes about such tags is left as it is. Some
chat templates open the block in the prompt: then the answer begins inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from engine.measures import NOTHING, Measures

_OPEN, _CLOSE = "<think>", "</think>"
_OPEN_BYTES, _CLOSE_BYTES = _OPEN.encode(), _CLOSE.encode()


class ThinkingStage(StrEnum):
    """Where the answer is."""

    START = "start"
    """Nothing but blanks, or the beginning of a tag, so far."""
    INSIDE = "inside"
    PAST = "past"
    """The block ended; what comes is the answer."""
    NONE = "none"
    """The answer began without one."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """Counts of the thinking, kept up token by token."""

    stage: ThinkingStage = ThinkingStage.START
    tokens: int = 0
    """Tokens of the answer that belong to the block, the tags' ones too."""
    measures: Measures = NOTHING
    """Of the rounds that began or ended inside the block."""
    held: bytes = b""
    """The last bytes, in which a tag may have begun."""

    def add(self, piece: bytes) -> Self:
        """One token of the answer more."""
        if self.stage in {ThinkingStage.PAST, ThinkingStage.NONE}:
            return self
        seen = self.held + piece
        tokens = self.tokens + 1
        if self.stage is ThinkingStage.START:
            begun = seen.lstrip()
            if not begun.startswith(_OPEN_BYTES):
                waiting = _OPEN_BYTES.startswith(begun)
                stage = ThinkingStage.START if waiting else ThinkingStage.NONE
                held = begun if waiting else b""
                return replace(self, stage=stage, tokens=tokens if waiting else 0, held=held)
            seen = begun[len(_OPEN_BYTES) :]
        past = _CLOSE_BYTES in seen
        stage = ThinkingStage.PAST if past else ThinkingStage.INSIDE
        return replace(self, stage=stage, tokens=tokens, held=b"" if past else seen[1 - len(_CLOSE_BYTES) :])

    def take_back(self, length: int) -> Self:
        """The answer was shortened to this many tokens."""
        return self if self.tokens <= length else replace(self, tokens=length)

    @property
    def inside(self) -> bool:
        return self.stage is ThinkingStage.INSIDE

    @property
    def count(self) -> int:
        """Tokens of the thinking; 0 while there is none."""
        return self.tokens if self.stage in {ThinkingStage.INSIDE, ThinkingStage.PAST} else 0


NO_THINKING = Thinking()
"""Of an answer that has not begun."""


def begin_thinking(prompt_pieces: Sequence[bytes]) -> Thinking:
    """At the start of an answer to this prompt."""
    opened = b"".join(prompt_pieces[-8:]).rstrip().endswith(_OPEN_BYTES)
    return Thinking(ThinkingStage.INSIDE if opened else ThinkingStage.START)


def split_thinking(text: str, opened: bool = False) -> tuple[str, str]:
    """The thinking and the answer, without the tags and the blanks at the seams.

    Args:
        opened: the prompt ends with ``<think>``, so the text begins inside.
    """
    begun = text.lstrip()
    if begun.startswith(_OPEN):
        begun = begun[len(_OPEN) :]
    elif not opened:
        return "", text
    thinking, _, answer = begun.partition(_CLOSE)
    return thinking.strip(), answer.lstrip()
