"""The prompt as the model reads it: tokens with their ids, or as text with a boundary at every token."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.glyphs import Glyphs
from tui.marks import piece_text
from tui.prompt_spans import is_special
from tui.state import Phase, ViewState
from tui.widgets.flow import Kind, TokenFlow
from tui.widgets.lines import RECORDED, LineView
from tui.widgets.rows import Piece, Row, clip_row

_INDEX, _ID = 5, 7
"""Columns of a token's number and of its id."""


class PromptPane(LineView):
    """The rendered template."""

    HELP: ClassVar[str] = (
        "What the model really reads: the messages as its chat template writes them. A line for each token: "
        "its place, its id, its text; a sign before those that the cache still held. Chips are the "
        "template's own. v shows the same as text, shaded token by token. / searches, for ids too."
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {"prompt--special", "prompt--even", "prompt--odd", "prompt--kept"}
    DEFAULT_CSS = """
    PromptPane > .prompt--special { color: $background; background: $secondary; text-style: bold; }
    PromptPane > .prompt--even { color: $foreground; background: $foreground 8%; }
    PromptPane > .prompt--odd { color: $foreground; background: $foreground 18%; }
    PromptPane > .prompt--kept { color: $text-success; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "v",
            "view",
            "Text / ids",
            id="prompt.view",
            tooltip="Tokens as running text, or in lines with ids",
        ),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Prompt"
        self.as_text = False
        self._at_end = False  # a prompt is read from its beginning
        self._ids: tuple[int, ...] = ()
        self._pieces: tuple[bytes, ...] = ()
        self._reused = 0
        self._special: frozenset[int] = frozenset()  # indices
        self._flow = TokenFlow(1)
        self._phase, self._is_replay = Phase.EMPTY, False

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Show the prompt of a state."""
        if (
            state.prompt_pieces is self._pieces
            and state.reused == self._reused
            and state.phase is self._phase
        ):
            return
        same = state.prompt_pieces is self._pieces and state.reused == self._reused
        self._phase, self._is_replay = state.phase, state.replay
        self._ids, self._pieces, self._reused = state.prompt, state.prompt_pieces, state.reused
        if same and self._pieces:
            return
        self._special = frozenset(at for at, piece in enumerate(self._pieces) if is_special(piece))
        self._lay_out_text()
        self.rows_changed(0)
        self.scroll_to(y=0, animate=False)
        self._at_end = False

    # -- rows

    def row_total(self) -> int:
        return len(self._flow.rows) if self.as_text else len(self._pieces)

    def build_row(self, y: int) -> Row:
        return self._text_row(y) if self.as_text else self._token_row(y)

    def lay_out(self) -> None:
        self._lay_out_text()
        self.rows_changed(0)

    def empty_text(self) -> str:
        if self._is_replay:
            return RECORDED
        if self._phase is Phase.EMPTY:
            return "No model is loaded yet. Load one: what it reads appears here, token by token."
        return "No prompt yet. Send a message: what the model reads appears here, token by token."

    def legend(self) -> tuple[Piece, ...]:
        if not self._pieces:
            return ()
        special = f", {len(self._special):,} special" if self._special else ""
        kept = f", {self._kept_mark} {self._reused:,} re-used" if self._reused else ""
        return (Piece(f"{len(self._pieces):,} tokens{special}{kept}"),)

    @property
    def _kept_mark(self) -> str:
        return self.glyphs.given

    def _lay_out_text(self) -> None:
        glyphs: Glyphs = self.glyphs
        self._flow = TokenFlow(self.row_width, ascii_only=self.ascii, newline=glyphs.newline)
        if self.as_text:
            self._flow.append(self._pieces)
            self._flow.finish()

    def _token_row(self, y: int) -> Row:
        special = "prompt--special" if y in self._special else ""
        pieces = (
            Piece(f"{self._kept_mark} " if y < self._reused else "  ", "prompt--kept"),
            Piece(f"{y:>{_INDEX}} ", "lines--dim"),
            Piece(f"{self._ids[y]:>{_ID}}  ", "lines--dim"),
            Piece(piece_text(self._pieces[y], self.glyphs), special, y),
        )
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))

    def _text_row(self, y: int) -> Row:
        row = self._flow.rows[y]
        pieces = []
        for run in row.runs:
            shade = "prompt--even" if run.token % 2 == 0 else "prompt--odd"
            style = "prompt--special" if run.token in self._special else shade
            dim = " lines--dim" if run.kind in {Kind.NEWLINE, Kind.CHIP} else ""
            # The row's own line end is told by ``soft``; its glyph is not to be copied.
            source = "" if run.kind == Kind.NEWLINE else run.source
            pieces.append(Piece(run.text, style + dim, run.token, None if run.text == source else source))
        return Row(tuple(pieces), row.soft)

    # -- keys

    def action_view(self) -> None:
        """Tokens as running text, or in lines with their ids; the same token stays on top."""
        top = min(self.scroll_offset.y, max(self.row_total() - 1, 0))
        token = self._flow.rows[top].first if self.as_text and self._flow.rows else top
        self.as_text = not self.as_text
        self._lay_out_text()
        self.finder.search(self.finder.needle, self.row_total())
        self.rows_changed(0)
        self.scroll_to(y=self._flow.row_of(token) if self.as_text else token, animate=False)
