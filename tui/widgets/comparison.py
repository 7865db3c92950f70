"""Two answers side by side, and the table of their measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len

from engine.events import Origin
from tui.alignment import Line, Shown, align, parts_of, shown
from tui.compare import Comparison, Token
from tui.compare_text import measure_rows, setting_rows, verdict
from tui.marks import Mark, mark_of_origin
from tui.safe_text import visible
from tui.widgets.fixed import FixedView
from tui.widgets.legend import legend_pieces
from tui.widgets.lines import LineView
from tui.widgets.painted import BARE
from tui.widgets.rows import Piece, Row, clip, clip_row, padded

_NAME, _NUMBER, _RATIO = 18, 12, 9
"""Columns of the table."""
_GAP = 3
"""Columns between the two answers."""
_DIFFERS = "!"
"""Stands between two lines that do not hold the same tokens."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Two runs and their tokens as they are shown; made in a thread."""

    comparison: Comparison
    first: tuple[Shown, ...]
    second: tuple[Shown, ...]
    measures: tuple[tuple[str, str, str, str, str], ...]
    """Name, A, B, B - A and B / A."""

    @classmethod
    def of(cls, comparison: Comparison, *, ascii_only: bool) -> Shape:
        """The tokens' texts and widths, and the measures. Raises OverflowError for forged counts."""
        first, second = (
            tuple(shown(token.piece, ascii_only=ascii_only) for token in tokens)
            for tokens in (comparison.first_tokens, comparison.second_tokens)
        )
        return cls(comparison, first, second, tuple(measure_rows(comparison)))


def mark_of(token: Token) -> Mark:
    """The mark of a token of an answer."""
    return Mark.PLAIN if token.origin is Origin.BONUS and not token.drafted else mark_of_origin(token.origin)


class AnswersPane(LineView):
    """Both answers, token N beside token N."""

    HELP: ClassVar[str] = (
        "Two answers side by side: each line begins with the same token in both, its number at the left. "
        "A mark between the columns says where a line's tokens differ; the first one that does has lines of "
        "their own before it. / searches."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "Answers"
        self._shape: Shape | None = None
        self._aligned: list[Line] = []

    def show(self, shape: Shape) -> None:
        """Show two runs, from the beginning."""
        self._shape = shape
        self.border_title = f"Answers: {verdict(shape.comparison)}"
        if self.is_laid_out:
            self.lay_out()
            self.rows_changed(0)
        self.scroll_to(y=0, animate=False)

    # -- layout

    @property
    def _gutter(self) -> int:
        """Columns of the tokens' numbers."""
        return max(len(f"{max(len(tokens) for tokens in self._tokens):,}") + 1, 4)

    @property
    def _column(self) -> int:
        """Columns of one answer."""
        return max((self.row_width - self._gutter - _GAP) // 2, 1)

    @property
    def _tokens(self) -> tuple[tuple[Shown, ...], tuple[Shown, ...]]:
        return ((), ()) if self._shape is None else (self._shape.first, self._shape.second)

    def lay_out(self) -> None:
        difference = None if self._shape is None else self._shape.comparison.difference
        self._aligned = align(*self._tokens, self._column, difference)

    def row_total(self) -> int:
        return len(self._aligned)

    def holds_still(self) -> bool:
        return True

    def empty_text(self) -> str:
        return "Both answers are empty." if self._shape is not None else "The recordings are being read ..."

    # -- rows

    def build_row(self, y: int) -> Row:
        line, shape = self._aligned[y], self._shape
        assert shape is not None, "a line belongs to an answer"
        if line.is_marker:
            return Row(tuple(self._marker(line)))
        number = f"{line.start + 1:,}" if line.part == 0 else ""
        first, second = shape.comparison.first_tokens, shape.comparison.second_tokens
        same = [token.id for token in first[line.start : line.end]] == [
            token.id for token in second[line.start : line.end]
        ]
        between = (self.glyphs.tick, "lines--faint") if same else (_DIFFERS, "lines--bad")
        return Row(
            (
                Piece(f"{number:>{self._gutter - 1}} ", "lines--dim"),
                *self._side(line, shape.first, first),
                Piece(f" {between[0]} ", between[1]),
                *self._side(line, shape.second, second),
            )
        )

    def _side(self, line: Line, texts: tuple[Shown, ...], tokens: tuple[Token, ...]) -> Iterator[Piece]:
        """One column of a line."""
        used = 0
        for index in range(line.start, min(line.end, len(tokens))):
            text = texts[index].text
            if not line.is_whole:
                parts = parts_of(text, self._column)
                text = parts[line.part] if line.part < len(parts) else ""
            used += cell_len(text)
            yield from self._token(text, tokens[index], index)
        yield Piece(" " * (self._column - used))

    def _token(self, text: str, token: Token, index: int) -> Iterator[Piece]:
        assert self._shape is not None, "a token belongs to an answer"
        style = mark_of(token).component
        if index == self._shape.comparison.difference:
            style += " lines--cursor"
        word = text.strip(" ")
        start = len(text) - len(text.lstrip(" "))
        # No line under the blanks round a word: it would read as an underscore.
        for part, more in ((text[:start], BARE), (word, ""), (text[start + len(word) :], BARE)):
            if part:
                yield Piece(part, f"{style} {more}".strip(), index)

    def _marker(self, line: Line) -> Iterator[Piece]:
        """Two lines: that the answers part here, and what came in each."""
        assert self._shape is not None, "a marker belongs to an answer"
        style, rule = "lines--match lines--strong", self.glyphs.line
        if line.part == 0:
            text = f"{rule * 3} first difference: token {line.start + 1:,} "
            yield Piece(text + rule * (self.row_width - len(text)), style)
            return
        comparison = self._shape.comparison
        yield Piece(" " * self._gutter, style)
        for name, tokens in (("A", comparison.first_tokens), ("B", comparison.second_tokens)):
            text = clip(f"{name}: {_told(tokens, line.start)}", self._column, self.glyphs.ellipsis)
            yield Piece(padded(text, self._column), style)
            yield Piece(" " * _GAP, style)

    def legend(self) -> tuple[Piece, ...]:
        if self._shape is None:
            return ()
        tokens = (*self._shape.comparison.first_tokens, *self._shape.comparison.second_tokens)
        marks = {mark_of(token) for token in tokens}
        ordered = tuple(mark for mark in Mark if mark in marks)
        return (
            *legend_pieces(self.glyphs, max(self.row_width - 16, 1), ordered, signs=False),
            Piece(f"  {_DIFFERS} not the same", "lines--bad"),
        )

    # -- keys

    @property
    def parts(self) -> bool:
        """Whether the answers part."""
        return self._shape is not None and self._shape.comparison.difference is not None

    def show_difference(self) -> None:
        """Scroll to the first token that differs."""
        at = next((y for y, line in enumerate(self._aligned) if line.is_marker), None)
        if at is not None:
            self.scroll_to(y=max(at - self.page // 3, 0), animate=False)


def _told(tokens: tuple[Token, ...], at: int) -> str:
    """What came at an index, in words."""
    if at >= len(tokens):
        return "no more tokens"
    token = tokens[at]
    return f"id {token.id}, {mark_of(token)}, round {token.round}"


class MeasuresPane(FixedView):
    """The measures of two runs, their differences, and the settings that differ."""

    HELP: ClassVar[str] = "The measures of both runs, B less A, B by A; and the settings that differ."

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "Measures"
        self._shape: Shape | None = None

    def show(self, shape: Shape) -> None:
        """Show two runs."""
        self._shape = shape
        self.update_rows()

    def make_rows(self) -> list[Row]:
        shape = self._shape
        if shape is None:
            return []
        rows = [self._row(("", "A", "B", "B - A", "B / A"), "lines--strong")]
        rows += [self._row(cells) for cells in shape.measures]
        settings = setting_rows(shape.comparison)
        if settings:
            rows += [Row(), Row((Piece("settings that differ", "lines--strong"),))]
            rows += [self._setting(*cells) for cells in settings]
        return rows

    def _row(self, cells: tuple[str, str, str, str, str], style: str = "") -> Row:
        name, *numbers = cells
        widths = (_NUMBER, _NUMBER, _NUMBER, _RATIO)
        pieces = [Piece(padded(name, _NAME), style or "lines--dim")]
        pieces += [Piece(f"{text:>{width}}", style) for text, width in zip(numbers, widths, strict=True)]
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))

    def _setting(self, name: str, first: str, second: str) -> Row:
        room = max((self.row_width - _NAME) // 2 - 1, 1)
        texts = [clip(self._safe(text), room, self.glyphs.ellipsis) for text in (first, second)]
        pieces = [Piece(padded(name, _NAME), "lines--dim")]
        pieces += [Piece(f" {padded(text, room)}") for text in texts]
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))

    def _safe(self, text: str) -> str:
        return visible(text, "", ascii_only=self.ascii)
