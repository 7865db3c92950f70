"""One arm of a race: its clock, its numbers, its bar, and the end of its text."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical

from engine.race import Arm
from tui.glyphs import bar
from tui.race_state import Side, Stage
from tui.race_words import doing
from tui.widgets.bars import bar_pieces
from tui.widgets.fixed import FixedView
from tui.widgets.output import OutputPane
from tui.widgets.rows import Piece, Row, clip_row, fitting

HEAD_ROWS = 4
_EMPTY = {
    Stage.WAITING: "When its turn comes it runs alone, with nothing else beside it.",
    Stage.WARMING: "A few tokens that count for nothing: a first pass is slower than the next ones.",
    Stage.PREFILL: "The prompt is read, from empty caches.",
    Stage.RUNNING: "The first token is on its way.",
    Stage.FINISHED: "It wrote nothing.",
}


class RaceHead(FixedView, can_focus=False):
    """Clock, numbers and bar; every row is made anew, and painted if it differs."""

    DEFAULT_CSS = f"""
    RaceHead {{ border: none; height: {HEAD_ROWS}; overflow-y: hidden; scrollbar-size-vertical: 0;
        scrollbar-gutter: auto; }}
    RaceHead.-ascii {{ border: none; }}
    """

    def __init__(self) -> None:
        super().__init__()
        self._side: Side | None = None

    def show(self, side: Side) -> None:
        """Show a side."""
        self._side = side
        self.update_rows()

    def make_rows(self) -> list[Row]:
        side = self._side
        if side is None:
            return []
        return [self._clock(side), self._numbers(side), self._times(side), self._bar(side)]

    def _clock(self, side: Side) -> Row:
        glyphs, finished = self.glyphs, side.stage is Stage.FINISHED
        if side.stage in {Stage.WAITING, Stage.WARMING}:
            return self._row(Piece(f"{glyphs.pause} ", "lines--strong"), Piece(doing(side)))
        sign = glyphs.check if finished else glyphs.play
        shown = f"{side.seconds:.2f}" if finished else f"{side.seconds:.1f}"
        clock, words = Piece(f"{sign} {shown} s  ", "lines--strong"), doing(side)
        return self._row(
            *fitting(self.row_width, (clock, Piece(words)), (clock, Piece(words.partition(":")[0])))
        )

    def _numbers(self, side: Side) -> Row:
        if not side.tokens:
            return Row()
        count = Piece(f"{side.tokens:,} token{'s' * (side.tokens != 1)}", "lines--strong")
        rate = side.per_second
        if rate is None:
            return self._row(count)
        speed, each = Piece(f"  {rate:.1f} tok/s"), Piece(f"  {1000 / rate:.1f} ms a token")
        return self._row(*fitting(self.row_width, (count, speed, each), (count, speed)))

    def _times(self, side: Side) -> Row:
        """Prompt and decoding apart."""
        prefill_ms = side.view.prefill_ms
        if prefill_ms is None or side.stage not in {Stage.RUNNING, Stage.FINISHED}:
            return Row()
        prompt, decoding = f"prompt {prefill_ms / 1e3:.2f} s", f"{side.decode_s:.2f} s"
        long, short = ((Piece(f"{prompt} + {name}{decoding}", "lines--dim"),) for name in ("decoding ", ""))
        return self._row(*fitting(self.row_width, long, short))

    def _bar(self, side: Side) -> Row:
        cells = bar(side.tokens / side.goal, self.row_width, self.glyphs)
        style = "lines--drafter" if side.arm == "speculative" else "lines--target"
        return Row(bar_pieces(cells, style, self.glyphs))

    def _row(self, *pieces: Piece) -> Row:
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))


class RaceText(OutputPane):
    """The answer of one arm, with its marks; it follows its end until it is scrolled."""

    DEFAULT_CSS = """
    RaceText, RaceText:focus, RaceText.-ascii, RaceText.-ascii:focus { border: none; height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._stage = Stage.WAITING
        self._tokens = 0

    def show_side(self, side: Side) -> None:
        """Show a side; only what is new is laid out."""
        if (side.stage, side.tokens) == (self._stage, self._tokens):
            return
        self._stage, self._tokens = side.stage, side.tokens
        self.show(side.view)
        if not side.tokens:
            self.rows_changed(0)  # what stands in place of a text changed

    def empty_text(self) -> str:
        return _EMPTY[self._stage]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What changes the conversation, or shows a token in another pane, has no place here."""
        return False if action in {"branch", "choose"} else super().check_action(action, parameters)


class RaceLane(Vertical):
    """Head and text of one arm."""

    DEFAULT_CSS = """
    RaceLane {
        width: 1fr; height: 1fr; background: $surface; border: round $foreground 30%;
        border-title-color: $foreground; border-subtitle-color: $foreground 70%;
        &:focus-within { border: round $primary; border-title-style: bold; }
    }
    .-ascii RaceLane { border: ascii $foreground 30%; &:focus-within { border: ascii $primary; } }
    """

    def __init__(self, arm: Arm, title: str) -> None:
        super().__init__(id=arm)
        self.border_title = title
        self._note = ""

    def compose(self) -> ComposeResult:
        yield RaceHead()
        yield RaceText()

    @property
    def head(self) -> RaceHead:
        return self.query_one(RaceHead)

    @property
    def text(self) -> RaceText:
        return self.query_one(RaceText)

    def show(self, side: Side, note: str) -> None:
        """Show a side; the note below says whether it runs now or is played from memory."""
        self.head.show(side)
        self.text.show_side(side)
        if note != self._note:
            self._note = note
            self.border_subtitle = note
