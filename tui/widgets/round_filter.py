"""Which rounds the list of rounds shows."""

from __future__ import annotations

from bisect import bisect_left
from enum import Enum

from engine.events import Round
from tui.trail import Trail

_LOOK_BACK = 512
"""Rounds in no memory that are looked at all the same."""


class RoundFilter(Enum):
    """Which rounds are listed."""

    ALL = "all rounds"
    REJECTED_AT_0 = "rejected at the first draft"
    ALL_ACCEPTED = "all accepted"
    HAS_CUT = "ended by a cut"
    TEXT = "with the text"

    def fits(self, round_: Round, text: str) -> bool:
        """Whether a round is one of them; ``text`` is in lower case."""
        match self:
            case RoundFilter.REJECTED_AT_0:
                return round_.rejected and round_.n_accepted == 0
            case RoundFilter.ALL_ACCEPTED:
                return bool(round_.drafts) and round_.n_accepted == len(round_.drafts)
            case RoundFilter.HAS_CUT:
                return round_.cut is not None
            case RoundFilter.TEXT:
                pieces = [draft.piece for draft in round_.drafts] + [round_.target.piece]
                return text in b"".join(pieces).decode("utf-8", "replace").lower()
            case _:
                return True


class RoundList:
    """The rounds that pass a filter, by their index; it looks at each of them once."""

    def __init__(self, kind: RoundFilter = RoundFilter.ALL, text: str = "") -> None:
        """``text`` is for ``RoundFilter.TEXT``; case does not matter."""
        self.kind = kind
        self.text = text.lower()
        self._fitting: list[int] = []
        self._known = 0  # rounds there are
        self._judged = 0  # leading rounds that were looked at
        self.first = 0
        """Leading rounds that are not looked at: a replay jumped over them, and they are in no memory."""

    def extend(self, rounds: Trail[Round], whole: int) -> None:
        """There are more rounds. Only the first ``whole`` are judged: a hidden one would be given away."""
        self._known = len(rounds)
        if self.kind is RoundFilter.ALL:
            return
        if not self._judged:
            self.first = self._judged = max(rounds.archived - _LOOK_BACK, 0)
        for index in range(self._judged, whole):
            if self.kind.fits(rounds[index], self.text):
                self._fitting.append(index)
        self._judged = max(whole, self._judged)

    def __len__(self) -> int:
        return self._known if self.kind is RoundFilter.ALL else len(self._fitting)

    def __getitem__(self, row: int) -> int:
        """The round in a row."""
        return row if self.kind is RoundFilter.ALL else self._fitting[row]

    def row_from(self, index: int) -> int:
        """The row of the first listed round that is not before round ``index``."""
        return min(index, self._known) if self.kind is RoundFilter.ALL else bisect_left(self._fitting, index)

    def row_of(self, index: int) -> int | None:
        """The row of a round; None if it is not listed."""
        row = self.row_from(index)
        return row if row < len(self) and self[row] == index else None
