"""Which tokens of a rendered prompt belong to which message, found by their bytes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from engine.context import Message

_SPECIAL = re.compile(rb"<\|?[^\s<>|]{1,40}\|?>|\[/?[A-Z_]{2,40}\]|<\xef\xbd\x9c[^<>]{1,60}\xef\xbd\x9c>")


def message_spans(messages: Sequence[Message], pieces: Sequence[bytes]) -> list[range | None]:
    """The tokens each message's text lies in; None for one that is not in the prompt as written.

    A template may trim a message or leave one out; what the user changed since the prompt was made is not
    found either. Tokens between messages are the template's.
    """
    prompt = b"".join(pieces)
    ends = list(accumulate(map(len, pieces)))
    spans: list[range | None] = []
    at = 0
    for message in messages:
        wanted = message.content.strip().encode("utf-8", "replace")
        found = prompt.find(wanted, at) if wanted else -1
        if found < 0:
            spans.append(None)
            continue
        at = found + len(wanted)
        spans.append(range(bisect_right(ends, found), bisect_left(ends, at) + 1))
    return spans


def is_special(piece: bytes) -> bool:
    """Whether a token looks like one of a template's own: ``<|im_start|>``, ``</s>``, ``[INST]``."""
    return _SPECIAL.fullmatch(piece) is not None
