"""Which part of the streamed text comes from which token.

A round's text is not always its tokens' pieces joined: half a character or what may become a stop string is
held back, and some tokens (EOS) are not shown at all. So the bytes of committed tokens wait in a queue, and
the text that is made final is matched against them. What cannot be matched has no origin; the text itself is
never changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.events import Origin, Round

Segment = tuple[str, Origin | None]


class OriginText:
    """Finds the origin of every character of an answer, as it is made final."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._origins: list[Origin] = []  # one for each byte of _bytes

    def add_round(self, round_: Round) -> list[Segment]:
        """The round's text in segments of one origin."""
        pieces = [draft.piece for draft in round_.drafts[: round_.accepted]]
        if not round_.was_cut:
            pieces.append(round_.target.piece)
        return self.add(zip(pieces, round_.origins, strict=True), round_.text)

    def add(self, tokens: Iterable[tuple[bytes, Origin]], text: str) -> list[Segment]:
        """Commit tokens (piece and origin), then match the text that they made final."""
        for piece, origin in tokens:
            self._bytes += piece
            self._origins += [origin] * len(piece)
        return self._match(text)

    def finish(self, text: str) -> list[Segment]:
        """The text held back to the end."""
        segments = self._match(text)
        self._drop(len(self._bytes))
        return segments

    def _match(self, text: str) -> list[Segment]:
        if not text:
            return []
        data = text.encode("utf-8", "surrogatepass")
        # Skipping bytes of the queue passes over tokens that are not shown.
        start = self._bytes.find(data)
        if start >= 0:
            self._drop(start)
            return self._take(text)
        # Skipping the head of the text gets back in step after text that the pieces do not spell.
        for index in range(1, len(text)):
            if self._bytes.startswith(text[index:].encode("utf-8", "surrogatepass")):
                return [(text[:index], None), *self._take(text[index:])]
        self._drop(len(self._bytes))
        return [(text, None)]

    def _take(self, text: str) -> list[Segment]:
        """Segments of a text the queue begins with; a character belongs to the token of its first byte."""
        segments: list[Segment] = []
        at = start = 0
        for index, char in enumerate(text):
            if self._origins[at] != self._origins[0]:
                segments.append((text[start:index], self._origins[0]))
                start = index
                self._drop(at)
                at = 0
            at += len(char.encode("utf-8", "surrogatepass"))
        segments.append((text[start:], self._origins[0]))
        self._drop(at)
        return segments

    def _drop(self, count: int) -> None:
        del self._bytes[:count]
        del self._origins[:count]
