"""The answer being written: committed tokens, the text they make, and where it must stop."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.events import EndReason


class Pieces(Protocol):
    """What an answer needs of a tokenizer."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that give no text."""
        ...

    def piece(self, id_: int, /) -> bytes:
        """The exact bytes of a token."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Where an answer ends."""

    max_new_tokens: int
    context_length: int
    """Tokens, prompt included."""
    eos_ids: frozenset[int] = frozenset()
    """Empty: end-of-sequence is ignored."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit did."""

    tokens: tuple[int, ...]
    """The ids that were kept, in order."""
    text: str
    """Text that became final."""
    cut: EndReason | None
    taken_back: int
    """Tokens of earlier commits withdrawn, because a stop string began there."""


class Answer:
    """Committed tokens of one sequence, prompt first.

    Tokens are taken one at a time whatever the size of a block, so a block ends exactly where plain decoding
    would. The text is UTF-8 decoded over token borders; a tail that may turn into a stop string is held back.

    Args:
        prompt: at least one id.
    """

    def __init__(self, prompt: Sequence[int], pieces: Pieces, limits: Limits) -> None:
        assert prompt, "an empty prompt has no newest token to start from"
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.limits = limits
        self._pieces = pieces
        self._stops = tuple(stop.encode() for stop in limits.stop)
        self._longest_stop = max(map(len, self._stops), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = b""  # the newest bytes, enough of them to find a stop string in
        self._length = 0  # bytes of the answer, of given tokens too
        self._released = 0  # bytes handed to the decoder
        self._starts: list[int] = []  # byte at which each token of the answer begins

    def begin_after(self, given: Sequence[int]) -> str:
        """The text of the ids at the prompt's end that the answer starts with. To be called first.

        A character begun there is finished by what comes, and a stop string begun there is found; what it
        began with stays, as given tokens are never taken back.
        """
        kept = b"".join(map(self._bytes, given))
        self._length = self._released = len(kept)
        self._tail = kept[max(0, len(kept) - self._longest_stop) :]
        return self._decoder.decode(kept)

    @property
    def new_tokens(self) -> list[int]:
        """The ids of the answer."""
        return self.tokens[self.prompt_length :]

    @property
    def budget(self) -> int:
        """Tokens that may still be committed."""
        count = len(self.tokens)
        return min(self.prompt_length + self.limits.max_new_tokens, self.limits.context_length) - count

    def commit(self, ids: Sequence[int]) -> Commit:
        """Take ids up to the first EOS, stop string or limit."""
        before = len(self.tokens)
        cut: EndReason | None = None
        stop_at: int | None = None
        for id in ids:
            self._append(id)
            stop_at = self._find_stop(self._starts[-1])
            if stop_at is not None:
                # The token in which the stop begins is the last one kept.
                kept = bisect_right(self._starts, stop_at)
                del self._starts[kept:], self.tokens[self.prompt_length + kept :]
                cut = EndReason.STOP
            elif id in self.limits.eos_ids:
                cut = EndReason.EOS
            elif self.budget <= 0:
                full = len(self.tokens) >= self.limits.context_length
                cut = EndReason.CONTEXT if full else EndReason.MAX_NEW_TOKENS
            if cut:
                break
        text = self._release(self._length - self._held_back() if stop_at is None else stop_at)
        return Commit(tuple(self.tokens[before:]), text, cut, max(0, before - len(self.tokens)))

    def finish(self, stopped: bool) -> str:
        """The text still held back; call once, when the answer has ended.

        Args:
            stopped: a stop string ended it; what comes after the stop is dropped.
        """
        rest = b"" if stopped else self._tail[len(self._tail) - (self._length - self._released) :]
        return self._decoder.decode(rest, final=True)

    def _append(self, id: int) -> None:
        self.tokens.append(id)
        self._starts.append(self._length)
        piece = self._bytes(id)
        self._length += len(piece)
        self._tail += piece

    def _bytes(self, id: int) -> bytes:
        """What a token adds to the text."""
        return b"" if id in self._pieces.special_ids else self._pieces.piece(id)

    def _find_stop(self, token_start: int) -> int | None:
        """The byte at which the earliest stop string begins that the newest token completed."""
        base = self._length - len(self._tail)
        # From where on a stop string reaches into the newest token: one that ends before was given.
        windows = [(stop, max(0, token_start - base - len(stop) + 1)) for stop in self._stops]
        found = [at for stop, window in windows if (at := self._tail.find(stop, window)) >= 0]
        return base + min(found) if found else None

    def _held_back(self) -> int:
        """Bytes at the end that may be the beginning of a stop string."""
        longest = min(self._longest_stop - 1, len(self._tail))
        for size in range(longest, 0, -1):
            end = self._tail[-size:]
            if any(stop.startswith(end) for stop in self._stops):
                return size
        return 0

    def _release(self, until: int) -> str:
        """Decode the bytes up to ``until`` and forget what no stop string can reach any more."""
        base = self._length - len(self._tail)
        new = self._tail[self._released - base : max(self._released, until) - base]
        self._released += len(new)
        keep = max(self._length - self._released, self._longest_stop)
        self._tail = self._tail[len(self._tail) - min(keep, len(self._tail)) :]
        return self._decoder.decode(new)
