"""Models in different vocabularies that know the same text: what one drafts the other would have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from support.tables import TableModel, remembered
from support.tiny import second_tokenizer, tiny_tokenizer

from engine.models.causal_lm import CausalLM
from engine.models.token_text import TokenText

TINY, SECOND = TokenText(tiny_tokenizer()), TokenText(second_tokenizer())
STORY = (
    "The knight rode out of the castle. Caf\u00e9, \u65e5\u672c\u8a9e \u4e2d\u6587 \U0001f600 and whales: "
    "they sing slowly. Why did the knight stop? Because the bridge was gone."
)
PROMPT = "The knight"


def spelled(text: TokenText, ids: Any) -> bytes:
    """What ids say, control tokens left out."""
    return b"".join(text.piece(id_) for id_ in ids if id_ not in text.special_ids)


class Knowing(TableModel):
    """A table over the ids of a tokenizer.

    Args:
        text: the tokenizer.
        next_id: the id that goes on from some ids.
        sure: its probability.
        last: the end-of-text token.
    """

    def __init__(
        self, text: TokenText, next_id: Callable[[tuple[int, ...]], int], sure: float = 0.9, last: int = 2
    ) -> None:
        size = text.vocab_size
        rest = (1 - sure) / (size - 1)

        def row(context: tuple[int, ...]) -> tuple[float, ...]:
            known = next_id(context)
            return tuple(sure if id_ == known else rest for id_ in range(size))

        super().__init__(remembered(row), size)
        self.text = cast("Any", text)
        self.eos_ids = frozenset({last})


def target(sure: float = 0.9) -> CausalLM:
    """Writes the story as its tokenizer would; when it was led away, it goes on at the same token."""
    ids = [*TINY.encode_more(STORY), 2]
    return Knowing(TINY, lambda context: ids[min(len(context), len(ids) - 1)], sure).as_lm()


def drafter(own: TokenText = SECOND, story: str = STORY, last: int = 2) -> Knowing:
    """Writes on from as many bytes of the story as it has read, one token of its own after the other."""
    told = story.encode()

    def next_id(context: tuple[int, ...]) -> int:
        rest = told[len(spelled(own, context)) :]
        while rest and rest[0] & 0xC0 == 0x80:  # led away, into a character
            rest = rest[1:]
        return own.encode_more(rest.decode())[0] if rest else last

    return Knowing(own, next_id, last=last)
