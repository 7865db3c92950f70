"""A text that grows in one vocabulary, followed in another one.

A drafter with its own tokenizer reads the committed text in its own tokens. To tokenise all of it again in
every round would cost more than the drafting, and a text that grew can change its last few tokens only: what
follows completes the last word. So each change is taken up again at a word a little before it.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from engine.kv_cache import common_prefix

if TYPE_CHECKING:
    from engine.models.token_text import TokenText

REACH = 16
"""Own tokens that are looked at, back from a change, for a word's beginning."""
_SPACES = b" \t\r\n"
_WORDS = re.compile(rb"\s*\S+|\s+")


class Transcript:
    """The ids of a text in a drafter's own vocabulary.

    Args:
        source: how the committed ids are spelled.
        own: the drafter's tokenizer.
    """

    def __init__(self, source: TokenText, own: TokenText) -> None:
        self._source, self._own = source, own
        self._names = {own.piece(id_) for id_ in own.special_ids}
        self.clear()

    def clear(self) -> None:
        """Hold no text."""
        self.ids: list[int] = []
        """The text so far in own tokens, whole characters only."""
        self._ends: list[int] = []  # bytes of the text that are complete with each own id
        self._tokens: list[int] = []  # committed ids
        self._starts: list[int] = []  # byte at which each committed id begins
        self._text = bytearray()
        self._whole = 0  # bytes of whole characters

    def sync(self, tokens: list[int]) -> None:
        """Follow the committed ids, whatever happened to them since the last call."""
        same = common_prefix(self._tokens, tokens)
        agreed = self._starts[same] if same < len(self._starts) else len(self._text)
        del self._tokens[same:], self._starts[same:], self._text[agreed:]
        for token in tokens[same:]:
            self._tokens.append(token)
            self._starts.append(len(self._text))
            self._text += self._spelled(token)
        self._whole = len(self._text) - _unfinished(self._text)
        kept = bisect_right(self._ends, min(agreed, self._whole))
        if kept and self._ends[kept - 1] == self._whole:
            del self.ids[kept:], self._ends[kept:]
        else:
            self._take_up(self._border(kept))

    @property
    def within_character(self) -> bool:
        """Whether the committed text ends within a character, which the own ids then lack."""
        return self._whole < len(self._text)

    def continued(self, more: bytes) -> list[int]:
        """Ids of the committed vocabulary for a text that goes on from the whole characters.

        Where the committed text ends within a character, ``more`` begins with that character, and the ids are
        those after the committed ones; none if the two do not go together.
        """
        begun, head = self._begun()
        ids = self._source.encode_more(_decoded(head + more))
        return ids[len(begun) :] if ids[: len(begun)] == begun else []

    def _begun(self) -> tuple[list[int], bytes]:
        """The committed ids that reach into an unfinished character, and their bytes before it."""
        if not self.within_character:
            return [], b""
        first = bisect_right(self._starts, self._whole) - 1
        return self._tokens[first:], bytes(self._text[self._starts[first] : self._whole])

    def _spelled(self, token: int) -> bytes:
        """What a committed id adds to the text; a control token only if the drafter knows one of its name."""
        piece = self._source.piece(token)
        return piece if token not in self._source.special_ids or piece in self._names else b""

    def _border(self, kept: int) -> int:
        """How many of the first ``kept`` own ids stay: to a word's beginning before the last of them."""
        border = kept
        for index in range(kept, max(0, kept - REACH) - 1, -1):
            at = self._ends[index - 1] if index else 0
            # Ids of one word whose ends are not known end together: none of them is a border.
            inside_word = index < len(self._ends) and self._ends[index] == at
            if inside_word or _continues(self._text, at):
                continue
            border = index
            if index < kept and _begins_word(self._text, at):
                break
        return border

    def _take_up(self, border: int) -> None:
        """Tokenise the text again from an own id on."""
        start = self._ends[border - 1] if border else 0
        border = border if start else 0  # the opening depends on how the text begins
        del self.ids[border:], self._ends[border:]
        found = self._tokenised(bytes(self._text[start : self._whole]))
        opening = self._own.opening
        if not border and tuple(id_ for id_, _ in found[: len(opening)]) != opening:
            found = [*((id_, 0) for id_ in opening), *found]
        self.ids += [id_ for id_, _ in found]
        self._ends += [start + end for _, end in found]

    def _tokenised(self, text: bytes) -> list[tuple[int, int]]:
        """Own ids and the bytes that are complete with each: those of its word, if its own are not known."""
        ids = self._own.encode_more(text.decode("utf-8", "replace"))
        pieces = [self._own.piece(id_) for id_ in ids]
        if b"".join(pieces) == text:
            return list(zip(ids, accumulate(map(len, pieces)), strict=True))
        words = _WORDS.findall(text)
        if len(words) == 1:
            return [(id_, len(text)) for id_ in ids]
        starts = accumulate(map(len, words), initial=0)
        return [
            (id_, start + end)
            for word, start in zip(words, starts, strict=False)
            for id_, end in self._tokenised(word)
        ]


def _unfinished(text: bytearray) -> int:
    """Bytes at the end that may begin a character of UTF-8 and lack the rest of it: 0 to 3."""
    end = bytes(text[-3:])
    return len(end) - codecs.utf_8_decode(end, "replace", False)[1]


def _decoded(text: bytes) -> str:
    """The whole characters before the first one that is not."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start].decode()


def _continues(text: bytearray, at: int) -> bool:
    """Whether a byte is in the middle of a character."""
    return at < len(text) and text[at] & 0xC0 == 0x80


def _begins_word(text: bytearray, at: int) -> bool:
    return at == 0 or (text[at] in _SPACES and text[at - 1] not in _SPACES)
