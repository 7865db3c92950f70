"""Where the newest tokens of a text occurred before: a suffix automaton, grown token by token.

Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text"; as an index to draft from:
Hu et al. 2024 (arXiv 2411.10666), "SAM decoding". A state stands for all runs of tokens that end at the same
places. Its suffix link leads to the longest shorter run, a suffix of them, that ends at more places. So the
longest suffix of the text that occurred before is found where the newest state's link leads: no search.
"""

from __future__ import annotations

from dataclasses import dataclass

SEPARATOR = -1
"""Stands between two texts in ``SuffixAutomaton.tokens``; no id is negative."""
MIN_MATCH = 1
"""Default of ``draft.min_match``: a short match drafts few tokens, which bring more than they cost."""
TOKENS_PER_MATCHED = 3
"""Tokens drafted at most for each token of the match: the longer the match, the farther the copy is right."""
LINKS = 32
"""Most suffix links that are followed to note where a run occurred last."""


@dataclass(frozen=True, slots=True)
class Match:
    """The longest suffix of the newest text that occurred before, followed by some token."""

    length: int
    """Its tokens, at least 1."""
    follower: int
    """Index in ``SuffixAutomaton.tokens`` of the token after its latest earlier occurrence."""


class SuffixAutomaton:
    """All runs of tokens in one or more texts. Only the newest text grows.

    A token costs O(1) amortised time, and at most two states. The automaton is never taken back: a text that
    changed in its past is begun again.

    Where a run occurred last is noted when its follower comes, along the suffix links of the newest state. A
    place is noted for the ``LINKS`` longest runs that end there. A shorter one may keep an older place, which
    is one of its occurrences all the same; that takes a text such as "aaaa...", whose suffixes are all
    different states.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        """All texts in their order, with ``SEPARATOR`` between them."""
        self.start = 0
        """Index of the first token of the newest text."""
        # State 0 is the empty run. Of each state: the states one token on, the suffix link, the length of the
        # longest run, and the index of the token after its latest occurrence (-1: none of them has one).
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._follower = [-1]
        self._newest = 0  # the state of the whole newest text
        self._is_known = False  # the whole newest text is a run of an earlier one

    def begin(self) -> None:
        """End the newest text; the next token begins another one."""
        if len(self.tokens) > self.start:
            self.tokens.append(SEPARATOR)
            self.start = len(self.tokens)
            self._newest, self._is_known = 0, False

    def append(self, token: int) -> None:
        """Add a token to the newest text."""
        self._note_follower(len(self.tokens))
        self.tokens.append(token)
        self._newest = self._extended(self._newest, token)

    def match(self) -> Match | None:
        """The longest suffix that occurred before; None if the newest token is new.

        The two occurrences may overlap. One that ends an earlier text has no follower, and does not count.
        """
        state = self._newest if self._is_known else self._link[self._newest]
        while state > 0 and self._follower[state] < 0:
            state = self._link[state]
        return Match(self._length[state], self._follower[state]) if state > 0 else None

    def draft(self, k: int, min_match: int = MIN_MATCH) -> tuple[list[int], str | None]:
        """Up to k tokens that may follow, and why there are fewer.

        Args:
            min_match: tokens that must have occurred before.
        """
        match = self.match()
        if match is None or match.length < min_match:
            return [], "no match"
        wanted = min(k, TOKENS_PER_MATCHED * match.length)
        ids = self.copy(match.follower, wanted)
        if len(ids) < wanted:
            return ids, "the earlier text ends"
        return ids, f"match of {match.length}" if wanted < k else None

    def copy(self, start: int, k: int) -> list[int]:
        """The k tokens from index ``start`` on, fewer where an earlier text ends.

        A copy that reaches the end of the newest text goes on with what it has just copied, as in LZ77 (Ziv
        and Lempel 1977), so a repetition goes on.
        """
        copied = self.tokens[start : start + k]
        if SEPARATOR in copied:
            return copied[: copied.index(SEPARATOR)]
        period = len(self.tokens) - start
        while len(copied) < k:
            copied.append(copied[-period])
        return copied

    def _note_follower(self, index: int) -> None:
        """The token at this index follows every suffix of the newest text."""
        state = self._newest
        for _ in range(LINKS):
            if state == 0:
                break
            self._follower[state] = index
            state = self._link[state]

    def _extended(self, last: int, token: int) -> int:
        """The state of the newest text with one more token, ``last`` being its state without."""
        known = self._next[last].get(token)
        self._is_known = known is not None
        if known is not None:
            return self._exact(last, token, known)
        new = self._add_state(self._length[last] + 1, {}, -1)
        state = last
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        self._link[new] = 0 if state < 0 else self._exact(state, token, self._next[state][token])
        return new

    def _exact(self, state: int, token: int, target: int) -> int:
        """The state whose longest run is that of ``state`` and the token; ``target`` holds that run.

        If ``target`` has longer ones, they no longer end at the same places: it is split.
        """
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        split = self._add_state(length, self._next[target].copy(), self._link[target])
        self._follower[split] = self._follower[target]
        self._link[target] = split
        while state >= 0 and self._next[state].get(token) == target:
            self._next[state][token] = split
            state = self._link[state]
        return split

    def _add_state(self, length: int, following: dict[int, int], link: int) -> int:
        self._next.append(following)
        self._link.append(link)
        self._length.append(length)
        self._follower.append(-1)
        return len(self._length) - 1
