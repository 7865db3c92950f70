"""Incremental decoding: tokens in, final text out.

Text is given as soon as it is final: a character split over tokens is held until its last byte is there.
Bytes that can no longer become UTF-8 give U+FFFD. Nothing is lost at the end: ``flush`` gives what is held.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Set
from typing import Any, Protocol

_LOST = "\ufffd"


class TextDecoder(Protocol):
    """Turns the tokens of one answer into its text."""

    @property
    def begins(self) -> int:
        """Offset, in characters of the answer's text, at which the token fed last begins.

        A token that only finishes a character begins at that character. This is what cutting ids at a stop
        string needs: the tokens that begin at or after its offset go.
        """
        ...

    def feed(self, id_: int) -> str:
        """The text that this token makes final; empty for special tokens and unfinished characters."""
        ...

    def flush(self) -> str:
        """The rest, at the end of the answer."""
        ...


def decode_all(decoder: TextDecoder, ids: Iterable[int]) -> str:
    """The whole text of ``ids``."""
    return "".join([*(decoder.feed(id_) for id_ in ids), decoder.flush()])


class ByteDecoder:
    """For tokens that are bytes: their bytes joined and read as UTF-8."""

    def __init__(self, piece: Callable[[int], bytes], special_ids: Set[int]) -> None:
        self._piece = piece
        self._special_ids = special_ids
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._position = 0
        self.begins = 0

    def feed(self, id_: int) -> str:
        self.begins = self._position
        if id_ in self._special_ids:
            return ""
        held = self._utf8.getstate()[0]
        piece = self._piece(id_)
        text = self._utf8.decode(piece)
        if held and text.startswith(_LOST) and not (held + piece).startswith(_LOST.encode()):
            # The held bytes were broken after all: their U+FFFD comes before this token.
            self.begins += 1
        self._position += len(text)
        return text

    def flush(self) -> str:
        text = self._utf8.decode(b"", final=True)
        self._position += len(text)
        return text


class WindowDecoder:
    """For tokens whose text depends on their neighbours: decodes a short window again for each token."""

    def __init__(self, tokenizer: Any, special_ids: Set[int]) -> None:
        self._tokenizer = tokenizer
        self._special_ids = special_ids
        self._window: list[int] = []
        self._given = 0
        """Characters of the window's text already given."""
        self._context = 0
        """Leading ids of the window that are there only as neighbours."""
        self._position = 0
        self.begins = 0

    def feed(self, id_: int) -> str:
        self.begins = self._position
        if id_ in self._special_ids:
            return ""
        self._window.append(id_)
        text = self._decode(self._window)
        if text.endswith(_LOST):
            return ""
        new = text[self._given :]
        # What was fed since the last text becomes the neighbour of what follows.
        self._window = self._window[self._context :]
        self._context = len(self._window)
        self._given = len(self._decode(self._window))
        self._position += len(new)
        return new

    def flush(self) -> str:
        new = self._decode(self._window)[self._given :]
        self._given += len(new)
        self._position += len(new)
        return new

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
