"""The rows of an answer: a line for what comes before, if anything is left out, a line for the thinking, the
thinking itself unless it is folded, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
            first = min(first, self._head + self._said.append(token.piece for token in tokens[start:]))
        return first

    def finish(self) -> int:
        """No more tokens come; the index of the first row that changed."""
        if self._said.rows:
            return self._head + self._said.finish()
        if self._thought.rows:
            self._thought.finish()
        return 0

    @property
    def laid_out(self) -> int:
        """Rows laid out so far, in all."""
        return self._thought.laid_out + self._said.laid_out

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
        return self._head + len(self._said.rows)

    def __getitem__(self, y: int) -> FlowRow | None:
        """A row; None for a line that stands for the thinking, or for what is left out."""
        if y >= self._head:
            return self._said.rows[y - self._head]
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
            return self._head + self._said.row_of(token)
        return self._top + (0 if self.folded else 1 + self._thought.row_of(token))

    def rows_of(self, token: int) -> list[int]:
        """All rows in which a token has characters, last first."""
        y = self.row_of(token)
        rows = [y]
        while y > 0 and self.first_token(y) >= token:
            y -= 1
            rows.append(y)
        return rows
