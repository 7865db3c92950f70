"""One position of one round: both models' laws there, the draw, and why the token stands or fell."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from engine.events import Round, Settings
from tui.drafting import SYNTHETIC, any_synthetic
from tui.marks import Marked, marked_draft, marked_output, marked_target
from tui.safe_text import visible
from tui.state import OutputToken, ViewState, VisibleRound, partly
from tui.why import why, why_pending
from tui.widgets.bars import bar_row, time_rows
from tui.widgets.fixed import FixedView
from tui.widgets.laws import Law, law_rows, rows_beside
from tui.widgets.messages import DraftSelected, RoundSelected
from tui.widgets.painted import BARE
from tui.widgets.rows import Piece, Row, clip, clip_row, wrap

_EMPTY = "Nothing to look into yet. When a round is there, you see both models' probabilities and the draw."
_PLAIN = (
    "A plain step: nothing was drafted, the target chose this token by itself. There is no draft to judge."
)
_GIVEN = "Given: it stood there before the run began, kept from an earlier answer or chosen by you."
_FOLLOW = "newest round"


class InspectorPane(FixedView):
    """Why a token was accepted, rejected, or put there."""

    HELP: ClassVar[str] = (
        "One token of a round: q is the drafter's probability, p the target's, u the draw; a draft is "
        "accepted if u q < p (rule block: up to the last one with u < h). Below are the likeliest tokens of "
        "both models and where the round's time went. Left and right go through the round's tokens; choose "
        "a round in the list of rounds, or a token in the output with enter. Without a choice the newest "
        "round is shown."
    )
    DEFAULT_CSS = """
    InspectorPane > .inspector--slot { text-style: reverse; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"inspector--slot"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left,h", "slot(-1)", "Token", id="inspector.left", tooltip="The token before, in this round"
        ),
        Binding("right,l", "slot(1)", "Token", id="inspector.right", tooltip="The next token of this round"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Inspector"
        self.index: int | None = None
        """Index of the round; None: the newest one."""
        self.slot: int | None = None
        """The draft, or K for the target's own token; None: where the round was decided."""
        self._token: OutputToken | None = None  # a token that no round made
        self._state = ViewState()

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Show the selected round of a state."""
        before, self._state = self._state, state
        if before.run != state.run:
            self.index = self.slot = self._token = None
        same = before.rounds is state.rounds or (
            self.index is not None and self.index < len(before.rounds) - 1
        )
        if not same or before.run != state.run or before.revealed != state.revealed:
            self.update_rows()

    def select(self, index: int | None, slot: int | None = None) -> None:
        """Look at a round (None: the newest) and at one of its tokens (None: where it was decided)."""
        self.index, self.slot, self._token = index, slot, None
        self.update_rows()
        self.foot_changed()

    def select_token(self, index: int) -> None:
        """Look at a token of the answer."""
        token = self._state.output[index]
        if token.round >= 0:
            round_ = self._state.rounds[token.round]
            self.select(token.round, token.slot if token.slot < round_.accepted else len(round_.drafts))
            return
        self.index, self.slot, self._token = None, None, token
        self.update_rows()
        self.foot_changed()

    # -- rows

    def _seen(self) -> VisibleRound | None:
        """The round that is looked at, as far as it may be shown."""
        rounds = self._state.rounds
        at = len(rounds) - 1 if self.index is None else self.index
        if not 0 <= at < len(rounds):
            return None
        return partly(rounds[at], self._state.revealed if at == len(rounds) - 1 else None)

    def _slot(self, seen: VisibleRound) -> int:
        """The token that is looked at; one that may be shown. -1: there is none."""
        last = seen.drafts if seen.target else seen.drafts - 1
        if self.slot is not None:
            return min(self.slot, last)
        return (
            min(seen.round.n_accepted, last)
            if seen.judged == len(seen.round.drafts)
            else max(seen.judged - 1, 0)
        )

    def make_rows(self) -> list[Row]:
        if self._token is not None:
            return self._token_rows(self._token)
        seen = self._seen()
        if seen is None:
            return []
        slot = self._slot(seen)
        round_, width = seen.round, self.row_width
        time: list[Row] = []
        if seen.whole:
            time = [Row((Piece(f"time {round_.ms:.1f} ms", "lines--strong"),))]
            time += time_rows((round_.draft_ms, round_.verify_ms, round_.host_ms), width, self.glyphs)
        head = [self._title(seen), self._tokens(seen, slot), *wrap(self._sentence(seen, slot), width)]
        numbers, laws = self._numbers(seen, slot), self._laws(seen, slot)
        whole = [row for law in laws for row in law_rows(law, width, self.glyphs)]
        rows = [*head, *numbers, *whole, *time]
        if len(rows) <= self.page:
            return rows
        # The sentence says the numbers in words, so in a low pane the alternatives come first.
        return [*head, *rows_beside(laws, width, self.glyphs), *numbers, *time]

    def refresh_layout(self) -> None:
        before = self.page
        super().refresh_layout()
        if self.page != before and self.is_laid_out:
            self.update_rows()  # what there is room for depends on the height too

    def _title(self, seen: VisibleRound) -> Row:
        round_ = seen.round
        asked = f"K {round_.k}"
        if round_.k != len(round_.drafts):
            asked += f", {len(round_.drafts)} drafted"
        reason = visible(round_.k_reason, "", ascii_only=self.ascii)
        kept = f", {round_.n_accepted}/{len(round_.drafts)} accepted" if seen.whole and round_.drafts else ""
        source = f" ({visible(round_.source, '', ascii_only=self.ascii)})" if round_.source else ""
        settings = self._settings_of(round_)
        label = f"{SYNTHETIC}, " if any_synthetic([settings]) else ""
        pieces = (
            Piece(f"round {round_.number}{source}", "lines--strong"),
            Piece(f"  {label}{asked} ({reason}){kept}", "lines--dim"),
        )
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))

    def _entry(self, seen: VisibleRound, slot: int) -> Marked:
        if slot == len(seen.round.drafts):
            return marked_target(seen.round.target, self.glyphs, drafted=bool(seen.round.drafts))
        return marked_draft(seen.round.drafts[slot], seen.verdict(slot), self.glyphs)

    def _tokens(self, seen: VisibleRound, slot: int) -> Row:
        """All tokens of the round, the one looked at in reverse; as many as there is room for around it."""
        width, ellipsis = self.row_width, self.glyphs.ellipsis
        cells: list[tuple[int, tuple[Piece, ...]]] = []
        for at in range(seen.drafts + seen.target):
            entry = self._entry(seen, at)
            text = clip(entry.text, max(width // 2, 4), ellipsis)
            here = " inspector--slot" if at == slot else ""
            sign = (Piece(entry.glyph, f"{entry.component} {BARE}", at),) if entry.glyph else ()
            pieces = (*sign, Piece(text, entry.component + here, at), Piece(" "))
            cells.append((entry.width + 1, pieces))
        first = 0
        while first < slot and sum(columns for columns, _ in cells[first : slot + 1]) > width - len(ellipsis):
            first += 1
        pieces = (Piece(ellipsis, "lines--dim"),) if first else ()
        for _, more in cells[first:]:
            pieces += more
        return Row(clip_row(pieces, width, ellipsis))

    def _sentence(self, seen: VisibleRound, slot: int) -> str:
        round_ = seen.round
        if slot < 0:
            return "Nothing of this round is shown yet."
        if slot < len(round_.drafts) and slot >= seen.judged:
            return why_pending(round_.drafts[slot])
        settings = self._settings_of(round_)
        if settings is None:
            return why(round_, slot, ascii_only=self.ascii)
        greedy, rule = settings.temperature == 0, settings.verify_strategy
        return why(round_, slot, rule=rule, greedy=greedy, ascii_only=self.ascii)

    def _settings_of(self, round_: Round) -> Settings | None:
        """What the round was decoded with."""
        found = (one for one in reversed(self._state.segments) if one.settings_id == round_.settings_id)
        segment = next(found, None)
        return None if segment is None else segment.settings

    def _numbers(self, seen: VisibleRound, slot: int) -> list[Row]:
        """q and p as bars, then the odds, the draw and, in a block, the h it had to stay below."""
        round_, width, glyphs = seen.round, self.row_width, self.glyphs
        p: float | None = None
        u: float | None = None
        h: float | None = None
        if slot < 0:
            return []
        if slot == len(round_.drafts):
            q, p = round_.target.q, round_.target.p
        else:
            draft = round_.drafts[slot]
            q = draft.q
            if slot < seen.judged:
                p, u, h = draft.p, draft.u, draft.h
        rows = []
        for name, value, style in (("q", q, "lines--drafter"), ("p", p, "lines--target")):
            number = f"{glyphs.absent:>7}" if value is None else f"{value:7.4f}"
            rows.append(bar_row(name, number, value or 0.0, width, glyphs, style))
        odds = "infinite" if q == 0 and p else glyphs.absent if not q or p is None else f"{p / q:.3g}"
        draw = glyphs.absent if u is None else f"{u:.4f}"
        line: tuple[Piece, ...] = (
            Piece("p/q "),
            Piece(odds, "lines--strong"),
            Piece("   u "),
            Piece(draw, "lines--strong"),
        )
        if h is not None:
            line += (Piece("   h "), Piece(f"{h:.4f}", "lines--strong"))
        return [*rows, Row(clip_row(line, width, glyphs.ellipsis))]

    def _laws(self, seen: VisibleRound, slot: int) -> list[Law]:
        """What may be shown of both models' laws at a token."""
        round_ = seen.round
        if slot < 0:
            return []
        judged = slot < seen.judged or (slot == len(round_.drafts) and seen.target)
        target = round_.p_top[slot] if judged and slot < len(round_.p_top) else ()
        is_draft = slot < len(round_.drafts)
        drafter = round_.drafts[slot].q_top if is_draft else ()
        chosen = round_.drafts[slot].id if is_draft else round_.target.id
        # The correction comes from the position of the rejected draft, where both models had a law.
        if not is_draft and round_.n_accepted < len(round_.drafts):
            target = round_.p_top[round_.n_accepted] if round_.n_accepted < len(round_.p_top) else ()
            drafter = round_.drafts[round_.n_accepted].q_top
        settings = self._settings_of(round_)
        greedy = settings is not None and settings.temperature == 0
        point = greedy or (settings is not None and settings.sample_strategy == "greedy")
        return [
            Law("target", target, chosen, "lines--target", greedy),
            Law("drafter", drafter, chosen, "lines--drafter", point),
        ]

    def _token_rows(self, token: OutputToken) -> list[Row]:
        entry = marked_output(token, self.glyphs)
        plain = token.origin.value == "plain"
        head = (Piece(entry.text, entry.component), Piece(f"  {entry.mark}, id {token.id}", "lines--dim"))
        return [
            Row(clip_row(head, self.row_width, self.glyphs.ellipsis)),
            *wrap(_PLAIN if plain else _GIVEN, self.row_width),
        ]

    def empty_text(self) -> str:
        if self._state.run and self._state.mode == "plain":
            return (
                "Plain decoding drafts nothing. Choose a token in the output and press enter to look at it."
            )
        return _EMPTY

    def legend(self) -> tuple[Piece, ...]:
        if not self._rows or self._token is not None:
            return ()
        return (Piece(_FOLLOW if self.index is None else "chosen round"),)

    # -- keys and mouse

    def has_cursor(self) -> bool:
        return self.index is not None or self.slot is not None or self._token is not None

    def drop_cursor(self) -> None:
        self.select(None)
        self.post_message(RoundSelected(None))

    def action_slot(self, by: int) -> None:
        seen = self._seen()
        if seen is None:
            return
        last = seen.drafts if seen.target else seen.drafts - 1
        self._choose(min(max(self._slot(seen) + by, 0), max(last, 0)))

    def _choose(self, slot: int) -> None:
        """Stay at this round, and look at another of its tokens."""
        index = len(self._state.rounds) - 1 if self.index is None else self.index
        self.select(index, slot)
        self.post_message(DraftSelected(index, slot))

    def clicked(self, y: int, key: int, column: int) -> None:
        if y == 1 and key >= 0 and self._token is None:
            self._choose(key)
