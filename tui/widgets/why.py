"""Why the run is faster or slower than plain decoding: the prediction for each K, and what it is made of."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.explained import AfterTheFact, Explained, after_the_fact
from engine.predictor import curve
from engine.verdict import explain, usual_k
from tui.state import ViewState
from tui.widgets.fixed import FixedView
from tui.widgets.messages import DraftsChosen
from tui.widgets.rows import Piece, Row, clip_row, wrap
from tui.widgets.why_rows import after_rows, cost_rows, curve_rows, survival_rows

NEWEST = 128
"""Rounds, the newest ones, of which it is told what other drafting would have given."""
_WAITS = "What a step, a pass and a draft cost is measured before the first round; then it is shown here."
_UNPRICED = "No costs were measured in this run, so nothing can be predicted."
_PLAIN = "Plain decoding drafts nothing, so there is nothing to explain."


class WhyPane(FixedView):
    """The run's speed, explained."""

    HELP: ClassVar[str] = (
        "The speedup that the measured costs and this run's acceptance lead to, for each K (K = 0 is plain "
        "decoding, the mark on the bars); dim where no draft was judged at that position. Up and down choose "
        "a K, enter takes it from the next round on. Below: what was measured; the best single K and the "
        "oracle, which knows how many drafts will be accepted; survival, the chance that the first drafts "
        "are all accepted; the costs in plain steps: c a drafted token, r a pass, o the host."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take K", id="why.take", tooltip="Draft so many tokens from now on"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Why?"
        self.cursor: int | None = None
        """The K that is looked at."""
        self._state = ViewState()
        self._told: Explained | None = None
        self._after: tuple[object, AfterTheFact | None] = (None, None)  # and the run it is of
        self._first = 0  # row of K = 0

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Explain the run of a state."""
        before, self._state = self._state, state
        if before.run != state.run:
            self.cursor = None
        slices = ("total", "finished", "settings", "run", "mode")
        if all(getattr(before, name) is getattr(state, name) for name in slices):
            return
        self._told = None
        self.update_rows()

    # -- rows

    def _explained(self) -> Explained:
        """Made when it is painted: what is not shown costs nothing."""
        if self._told is None:
            stats = self._state.total.counts
            after = self._after_the_end()
            points = () if stats.costs is None else curve(stats, stats.costs)
            others = () if after is None else after.others
            self._told = Explained(stats, points, after, explain(stats, others, k=self._now))
        return self._told

    def _after_the_end(self) -> AfterTheFact | None:
        """What would have been; once for a run that has ended."""
        state = self._state
        costs = state.total.counts.costs
        if state.finished is None or costs is None or not state.rounds:
            return None
        made_of = (state.run, len(state.rounds), costs)
        if self._after[0] != made_of:
            rounds = [*state.rounds[max(len(state.rounds) - NEWEST, 0) :]]
            tokens = sum(len(round_.tokens) for round_ in rounds)
            earlier = [token.id for token in state.output[: max(len(state.output) - tokens, 0)]]
            drafter = "" if state.settings is None else state.settings.drafter
            after = after_the_fact([*state.prompt, *earlier], rounds, costs, drafter)
            self._after = (made_of, after)
        return self._after[1]

    @property
    def _now(self) -> int:
        """K of the settings; where each round has its own, that of most rounds."""
        settings = self._state.settings
        if settings is None or settings.adaptive:
            return usual_k(self._state.total.counts)
        return settings.num_draft_tokens

    def make_rows(self) -> list[Row]:
        told, width, glyphs = self._explained(), self.row_width, self.glyphs
        if told.costs is None or len(told.points) < 2:
            return []
        rows = [] if told.explanation is None else wrap(told.explanation.sentence, width)
        rows.append(self._heading("predicted speedup over K"))
        self._first = len(rows)
        rows += curve_rows(told.points, self._now, self.cursor, width, glyphs)
        rows += after_rows(told.statistics, told.after, width, glyphs)
        rows.append(self._heading("survival: all drafts up to here"))
        rows += survival_rows(told, width, glyphs)
        rows.append(self._heading(f"costs, in plain steps; at {told.costs.context_length} tokens"))
        return [*rows, *cost_rows(told.costs, width, glyphs)]

    def _heading(self, text: str) -> Row:
        return Row(clip_row((Piece(text, "lines--strong"),), self.row_width, self.glyphs.ellipsis))

    def empty_text(self) -> str:
        state = self._state
        if state.run and state.mode == "plain":
            return _PLAIN
        return _UNPRICED if state.rounds and state.total.counts.costs is None else _WAITS

    def legend(self) -> tuple[Piece, ...]:
        if not self._rows:
            return ()
        if self.cursor is None:
            return (Piece("up and down choose a K"),)
        return (Piece(f"K = {self.cursor} ", "lines--strong"), Piece("enter takes it"))

    # -- keys and mouse

    def has_cursor(self) -> bool:
        return self.cursor is not None

    def drop_cursor(self) -> None:
        self._choose(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "take":
            return self.cursor is not None
        return super().check_action(action, parameters)

    def move(self, by: int) -> None:
        """To another K; from the first and the last one on the pane scrolls."""
        last = len(self._explained().points) - 1
        if not self._rows or last < 1:
            super().move(by)
            return
        start = self.cursor
        k = min(self._now, last) if start is None else min(max(start + by, 0), last)
        if k == start:
            super().move(by)
        else:
            self._choose(k)

    def action_half(self, halves: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + halves * max(self.page // 2, 1), animate=False)

    def _choose(self, k: int | None) -> None:
        self.cursor = k
        self.update_rows()
        self.foot_changed()
        self.refresh_bindings()
        if k is not None:
            self.show_row(self._first + k)

    def clicked(self, y: int, key: int, column: int) -> None:
        if key >= 0:
            self._choose(key)

    def action_take(self) -> None:
        if self.cursor is not None:
            self.post_message(DraftsChosen(self.cursor))
