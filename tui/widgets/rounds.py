"""The rounds, one line each: what was drafted, what became of it, and what the target added."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType

from engine.events import Round
from tui.drafting import SYNTHETIC, any_synthetic
from tui.marks import Mark, Marked, marked_draft, marked_target
from tui.safe_text import visible
from tui.state import Phase, Trail, ViewState, VisibleRound, partly
from tui.widgets.finder import Finder
from tui.widgets.legend import legend_pieces
from tui.widgets.lines import RECORDED, LineView
from tui.widgets.messages import RoundSelected
from tui.widgets.painted import BARE
from tui.widgets.round_filter import RoundFilter, RoundList
from tui.widgets.rows import Piece, Row, clip, clip_row

_NUMBER, _COUNT, _TIME, _SHORT_TIME = 3, 5, 8, 6
"""Columns of the fields; a time is as "1234.5ms", a short one as "1234ms"."""
_COUNT_FROM, _TIME_FROM, _LONG_TIME_FROM, _REASON_FROM = 14, 24, 40, 50
"""Columns of the pane from which on there is room for these."""
_PIECE = 24
"""Columns of one token at most, so that no token hides the others."""
_UNCUT = 1 << 20
_SEARCHED = 512
"""Rounds in no memory that the search reads all the same."""
_EMPTY = {
    Phase.EMPTY: "No model is loaded yet. Load models, or play a recording: every round gets a line here.",
    Phase.PLAIN_RUN: "Plain decoding writes the answer first. Every round gets a line here.",
    Phase.PREFILL: "The target reads the prompt. Every round gets a line here.",
}
_NO_ROUNDS = "No rounds yet. Start the run: every round gets a line here."
_PLAIN = "Plain decoding drafts nothing, so it has no rounds. Its tokens are in the output."


_CYCLE = [RoundFilter.ALL, RoundFilter.REJECTED_AT_0, RoundFilter.ALL_ACCEPTED, RoundFilter.HAS_CUT]


class RoundsPane(LineView):
    """A list of rounds."""

    HELP: ClassVar[str] = (
        "One line a round: its number, each drafted token with its verdict, the target's own token, how "
        "many of the drafts were accepted, and the time. Up and down choose a round for the inspector; G "
        "goes back to the newest one and follows it. f lists only some of the rounds, F those with a "
        "text. / searches."
    )
    DEFAULT_CSS = """
    RoundsPane > .rounds--number { color: $foreground 60%; }
    RoundsPane > .rounds--cut { text-style: bold; }
    RoundsPane > .rounds--selected { background: $primary 30%; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rounds--number", "rounds--cut", "rounds--selected"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "filter", "Filter", id="rounds.filter", tooltip="List only some of the rounds"),
        Binding(
            "F", "filter_text", "With text", id="rounds.filter_text", tooltip="List the rounds with a text"
        ),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Rounds"
        self.finder = Finder(self.build_row, self._search_row)
        self.selected: int | None = None
        """Index of the selected round; None: the newest one is followed."""
        self._state = ViewState()
        self._rounds: Trail[Round] = Trail()
        self._whole = 0  # leading rounds that are shown in whole
        self._revealed: int | None = None
        self._listed = RoundList()

    @property
    def filter(self) -> RoundFilter:
        """Which rounds are listed."""
        return self._listed.kind

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Show the rounds of a state; only new ones cost anything."""
        before, self._state = self._state, state
        rounds = state.rounds
        if rounds is self._rounds and state.revealed == self._revealed and before.phase is state.phase:
            return
        synthetic = any_synthetic(segment.settings for segment in state.segments)
        title = f"Rounds, {SYNTHETIC.upper()}" if synthetic else "Rounds"
        if title != self.border_title:  # to set it paints the frame
            self.border_title = title
        known = len(self._rounds)
        goes_on = (
            before.run == state.run
            and len(rounds) >= known
            and (not known or rounds.holds(known - 1, self._rounds[-1]))
        )
        first = self.row_total() if goes_on else 0
        if self._revealed is not None and goes_on:
            first = max(first - 1, 0)
        if state.revealed is not None:
            first = min(first, max(len(rounds) - 1, 0)) if self.filter is RoundFilter.ALL else first
        self._rounds, self._revealed = rounds, state.revealed
        self._whole = len(rounds) - (state.revealed is not None and bool(rounds))
        if not goes_on:
            self._listed = RoundList(self._listed.kind, self._listed.text)
            self.finder.first = max(rounds.archived - _SEARCHED, 0)
            self.selected = None
        self._listed.extend(rounds, self._whole)
        self.rows_changed(first)
        if before.segment_start != state.segment_start:
            self.repaint()

    def select(self, index: int | None) -> None:
        """Select a round; None: follow the newest one."""
        before, self.selected = self.selected, index
        if before == index:
            return
        for round_ in (before, index):
            y = None if round_ is None else self._listed.row_of(round_)
            if y is not None:
                self.repaint_row(y)
        y = None if index is None else self._listed.row_of(index)
        if y is not None:
            self.show_row(y)
        self.foot_changed()

    def set_filter(self, kind: RoundFilter, text: str = "") -> None:
        """List only some of the rounds; ``text`` is for ``RoundFilter.TEXT``, case does not matter."""
        self._listed = RoundList(kind, text)
        self._listed.extend(self._rounds, self._whole)
        self.rows_changed(0)
        if self.selected is not None and (y := self._listed.row_of(self.selected)) is not None:
            self.show_row(y)

    # -- rows

    def row_total(self) -> int:
        return len(self._listed)

    def _seen_at(self, y: int) -> VisibleRound:
        """The round of a row, as far as it may be shown."""
        index = self._listed[y]
        return partly(self._rounds[index], self._revealed if index == len(self._rounds) - 1 else None)

    def build_row(self, y: int) -> Row:
        index = self._listed[y]
        seen = self._seen_at(y)
        row = self._fields(seen, self.row_width, chosen=index == self.selected)
        if index == self.selected:
            row = tuple(piece._replace(style=f"{piece.style} rounds--selected") for piece in row)
        return Row(row)

    def _search_row(self, y: int) -> Row:
        """The row without being cut, for the search."""
        return Row(self._fields(self._seen_at(y), _UNCUT))

    def _fields(self, seen: VisibleRound, width: int, *, chosen: bool = False) -> tuple[Piece, ...]:
        """Number, tokens, cut, n/K and time; where there is little room, the tokens are cut.

        A round whose settings are not those of the round before has a sign behind its number.
        """
        round_ = seen.round
        sign = self.glyphs.cursor if chosen else " "
        change = self.glyphs.bullet if round_.settings_id != self._settings_before(round_) else " "
        number = f"{sign}{round_.number:>{max(_NUMBER, len(str(len(self._rounds))))}}{change}"
        head = (Piece(number, "rounds--number"),)
        tail: tuple[Piece, ...] = ()
        if width >= _COUNT_FROM:
            accepted = str(round_.n_accepted) if seen.whole else "?"
            count = f"{accepted}/{len(round_.drafts)}" if round_.drafts else self.glyphs.absent
            tail = (Piece(f"{count:>{_COUNT}}"),)
        if width >= _TIME_FROM:
            long = width >= _LONG_TIME_FROM
            time = "" if not seen.whole else f"{round_.ms:.1f}ms" if long else f"{round_.ms:.0f}ms"
            tail = (*tail, Piece(f"{time:>{(_TIME if long else _SHORT_TIME) + 1}}", "lines--dim"))
        cut: tuple[Piece, ...] = ()
        if round_.cut is not None and seen.whole:
            reason = "cut" if width < _REASON_FROM else f"ends: {visible(round_.cut.value, '')}"
            cut = (Piece(f" {reason}", "rounds--cut"),)
        fixed = sum(cell_len(piece.text) for piece in (*head, *cut, *tail))
        room = max(width - fixed, 0)
        tokens = clip_row(self._tokens(seen), room, self.glyphs.ellipsis)
        filled = room - sum(cell_len(piece.text) for piece in tokens) if width < _UNCUT else 1
        return (*head, *tokens, *cut, Piece(" " * filled), *tail)

    def _settings_before(self, round_: Round) -> int:
        """The settings of the round before it."""
        at = round_.number - 2
        known = 0 <= at < len(self._rounds)
        return self._rounds[at].settings_id if known else round_.settings_id

    def _tokens(self, seen: VisibleRound) -> list[Piece]:
        round_, glyphs = seen.round, self.glyphs
        entries = [marked_draft(round_.drafts[i], seen.verdict(i), glyphs) for i in range(seen.drafts)]
        if seen.target:
            entries.append(marked_target(round_.target, glyphs, drafted=bool(round_.drafts)))
        pieces: list[Piece] = []
        for slot, entry in enumerate(entries):
            kept = not seen.whole or not round_.was_cut or slot < len(round_.tokens)
            pieces += self._entry(entry, slot, kept=kept)
        if not round_.drafts:
            return [*pieces, Piece("  no draft", "lines--dim")]
        source = visible(round_.source, "", ascii_only=glyphs.ascii_only)
        return [*pieces, Piece(f"  ({source})", "lines--dim")] if source else pieces

    def _entry(self, entry: Marked, slot: int, *, kept: bool) -> list[Piece]:
        """A token with its mark; one that the cut took away is not marked."""
        text = clip(entry.text, _PIECE, self.glyphs.ellipsis)
        if not kept and entry.mark in {Mark.ACCEPTED, Mark.CORRECTION, Mark.BONUS, Mark.PLAIN}:
            return [Piece(f" {text}", "lines--dim", slot)]
        shown = Piece(text, entry.component, slot)
        sign = [Piece(entry.glyph, f"{entry.component} {BARE}", slot)] if entry.glyph else []
        return [Piece(" "), *sign, shown]

    def empty_text(self) -> str:
        if self._rounds:
            return "No round passes the filter. f chooses another one."
        if self._state.mode == "plain" and self._state.run:
            return _PLAIN
        if self._state.replay:
            return RECORDED
        return _EMPTY.get(self._state.phase, _NO_ROUNDS)

    def legend(self) -> tuple[Piece, ...]:
        if self.filter is not RoundFilter.ALL:
            what = self.filter.value
            if self.filter is RoundFilter.TEXT:
                what += f' "{visible(self._listed.text, "")}"'
            last = "the last " if self._listed.first else ""
            listed = f"{len(self._listed)} of {last}{self._whole - self._listed.first:,}"
            return (Piece(f"{listed} ", "lines--strong"), Piece(f"{what}   f filter"))
        if not self._rounds:
            return ()
        return legend_pieces(self.glyphs, self.row_width)

    def searched(self) -> str:
        left_out = self.finder.first
        return f" in the last {len(self._rounds) - left_out:,} rounds" if left_out else ""

    # -- keys and mouse

    def holds_still(self) -> bool:
        return self.selected is not None

    def has_cursor(self) -> bool:
        return self.selected is not None or self.filter is not RoundFilter.ALL

    def drop_cursor(self) -> None:
        if self.selected is None:
            self.set_filter(RoundFilter.ALL)
        else:
            self._choose(None)

    def move(self, by: int) -> None:
        """Select the round so many rows away."""
        total = self.row_total()
        if not total:
            return
        y = None if self.selected is None else self._listed.row_of(self.selected)
        if y is None:
            # From the newest round, or from where the selected one would be.
            y = total if self.selected is None else self._listed.row_from(self.selected)
            by = by - 1 if self.selected is not None and by > 0 else by
        self._choose(self._listed[min(max(y + by, 0), total - 1)])

    def to_end(self, *, last: bool) -> None:
        if last or not self.row_total():
            self._choose(None)
            super().to_end(last=True)
        else:
            self._choose(self._listed[0])

    def _choose(self, index: int | None) -> None:
        self.select(index)
        self.post_message(RoundSelected(index))

    def action_filter(self) -> None:
        at = _CYCLE.index(self.filter) if self.filter in _CYCLE else -1
        self.set_filter(_CYCLE[(at + 1) % len(_CYCLE)])

    def action_filter_text(self) -> None:
        self.ask("with the text: ", self._filter_text)

    def _filter_text(self, text: str) -> None:
        self.set_filter(RoundFilter.TEXT if text else RoundFilter.ALL, text)

    def action_match(self, by: int) -> None:
        super().action_match(by)
        if self.finder.current is not None and self.finder.places:
            self._choose(self._listed[self.finder.places[self.finder.current][0]])

    def clicked(self, y: int, key: int, column: int) -> None:
        self._choose(self._listed[y])
