"""The rows of an answer: a line for what comes before, if anything is left out, a line for the thinking, the
thinking itself unless it is folded, and the rest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from tui.state import OutputToken
from tui.widgets.flow import FlowRow, TokenFlow


class AnswerRows:
    """Wrapped tokens, the leading ones thinking."""

    def __init__(self, new_flow: Callable[[int], TokenFlow], *, folded: bool = True, start: int = 0) -> None:
        """``new_flow`` makes an empty flow that begins with the token of an index."""
        self.folded = folded
        self.start = start
        """Leading tokens that are left out."""
        self.thinking = 0
        """Leading tokens that are thinking."""
        self._new_flow = new_flow
        self._thought, self._said = new_flow(start), new_flow(start)
        self._older: list[TokenFlow] = []  # what was left out at first and came to the rest, oldest first
        self._older_ends: list[int] = []  # rows up to the end of each

    def add(self, tokens: Sequence[OutputToken], known: int, thinking: int) -> int:
        """Lay out ``tokens`` from index ``known`` on; the index of the first row that changed.

        Args:
            thinking: how many leading tokens are thinking. Of the known ones as many as before.
        """
        first = len(self)
        self.thinking = thinking
        if known < thinking:
            changed = self._thought.append(token.piece for token in tokens[known:thinking])
            self._said = self._new_flow(thinking)
            first = self._top if self.folded else min(first, self._top + 1 + changed)
        start = max(known, thinking)
        if start < len(tokens):
            changed = self._said.append(token.piece for token in tokens[start:])
            first = min(first, self._head + self._old + changed)
        return first

    def finish(self) -> int:
        """No more tokens come; the index of the first row that changed."""
        if self._said.rows:
            return self._head + self._old + self._said.finish()
        if self._thought.rows:
            self._thought.finish()
        return 0

    def prepend(self, tokens: Sequence[OutputToken], start: int) -> int | None:
        """Lay out ``tokens`` from index ``start`` up to those that are laid out. How many rows came, or None
        where that cannot be: thinking is among them, so all has to be laid out again."""
        if start < self.thinking or (self._said.first != self.start and not self._older):
            return None
        flow = self._new_flow(start)
        flow.append(token.piece for token in tokens[start : self.start])
        flow.finish()
        if flow.rows and not flow.rows[-1].runs:
            del flow.rows[-1]  # behind a line end at its end
        before = len(self)
        self._older.insert(0, flow)
        self._older_ends = [*accumulate(len(each.rows) for each in self._older)]
        self.start = start
        return len(self) - before

    @property
    def _old(self) -> int:
        """Rows of what came to the rest."""
        return self._older_ends[-1] if self._older_ends else 0

    def _rest(self, y: int) -> FlowRow:
        """A row of the rest."""
        if y >= self._old:
            return self._said.rows[y - self._old]
        at = bisect_right(self._older_ends, y)
        return self._older[at].rows[y - (self._older_ends[at - 1] if at else 0)]

    @property
    def laid_out(self) -> int:
        """Rows laid out so far, in all."""
        return self._thought.laid_out + self._said.laid_out + sum(flow.laid_out for flow in self._older)

    @property
    def _top(self) -> int:
        """Rows before that of the thinking."""
        return int(self.start > 0)

    @property
    def _head(self) -> int:
        """Rows before those of the rest."""
        if not self.thinking:
            return self._top
        return self._top + 1 + (0 if self.folded else len(self._thought.rows))

    def is_left_out(self, y: int) -> bool:
        """Whether a row stands for the tokens that are left out."""
        return y < self._top

    def __len__(self) -> int:
        return self._head + self._old + len(self._said.rows)

    def __getitem__(self, y: int) -> FlowRow | None:
        """A row; None for a line that stands for the thinking, or for what is left out."""
        if y >= self._head:
            return self._rest(y - self._head)
        return self._thought.rows[y - self._top - 1] if y > self._top else None

    def first_token(self, y: int) -> int:
        """The token that a row begins with."""
        row = self[y]
        return self.start if row is None else row.first

    def last_token(self, y: int) -> int:
        """The token that a row ends with; of an empty row the one it begins with."""
        row = self[y]
        return self.first_token(y) if row is None or not row.runs else row.runs[-1].token

    def row_of(self, token: int) -> int:
        """The last row in which a token has characters."""
        if token < self.start:
            return 0
        if token >= self.thinking:
            return self._head + self._row_of_rest(token)
        return self._top + (0 if self.folded else 1 + self._thought.row_of(token))

    def _row_of_rest(self, token: int) -> int:
        if not self._older or token >= self._said.first:
            return self._old + self._said.row_of(token)
        at = max(bisect_right(self._older, token, key=lambda flow: flow.first) - 1, 0)
        return (self._older_ends[at - 1] if at else 0) + self._older[at].row_of(token)

    def rows_of(self, token: int) -> list[int]:
        """All rows in which a token has characters, last first."""
        y = self.row_of(token)
        rows = [y]
        while y > 0 and self.first_token(y) >= token:
            y -= 1
            rows.append(y)
        return rows
