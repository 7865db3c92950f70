"""Panes alone on a screen, and hand-made states to show in them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from support.nasty import NASTY, OBEYED
from support.scripted import TARGET, make_round
from textual.app import ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from engine.events import (
    EndReason,
    Event,
    LoadFinished,
    PlainStep,
    PrefillFinished,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)
from tui.state import ViewState, reduce
from tui.themes import ThemedApp
from tui.widgets.lines import LineView
from tui.widgets.messages import BranchRequested, DraftSelected, RoundSelected, TokenSelected

SETTINGS = Settings("model", "random", 5, "speculative_sampling", 1.0, 0, 1.0, 0.0, 1.0, 7)
NASTY_PIECES = (
    *(text.encode() for text in NASTY),
    "\U0001f468\u200d\U0001f469".encode()[:6],
    "\u65e5\u672c\u8a9e\u0915\u094d\u200d\u0937".encode(),
    b"\xff\xfe\xed\xa0\x80\xf0\x9f",
    b"",
    b" " * 50,
    b"a" * 200,
)
"""Tokens that must not do anything either."""
PaneT = TypeVar("PaneT", bound=LineView)


class PaneApp(ThemedApp[None]):
    """Shows panes, one above the other, and keeps what they say."""

    CSS = "PaneApp LineView { height: 1fr; }"

    def __init__(self, *panes: LineView, ascii_only: bool = False) -> None:
        super().__init__()
        self.panes = panes
        self.ascii = ascii_only
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        yield from self.panes

    def on_round_selected(self, message: RoundSelected) -> None:
        self.told.append(message)

    def on_token_selected(self, message: TokenSelected) -> None:
        self.told.append(message)

    def on_draft_selected(self, message: DraftSelected) -> None:
        self.told.append(message)

    def on_branch_requested(self, message: BranchRequested) -> None:
        self.told.append(message)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Play a scenario to its end."""
    asyncio.run(scenario())


@asynccontextmanager
async def shown(
    pane: PaneT, size: tuple[int, int] = (60, 12), *, ascii_only: bool = False
) -> AsyncIterator[tuple[PaneT, Pilot[None], PaneApp]]:
    """The pane on a screen, with the focus."""
    app = PaneApp(pane, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        pane.focus()
        await pilot.pause()
        yield pane, pilot, app


def rows(pane: LineView) -> list[str]:
    """What the pane paints, line by line, without blanks at the ends."""
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def style_at(pane: LineView, text: str) -> tuple[bool, bool, bool, bool]:
    """Bold, underlined, struck through, reversed: of the first painted segment with this text."""
    for y in range(pane.size.height):
        for segment in pane.render_line(y):
            if text in segment.text and segment.style is not None:
                style = segment.style
                return bool(style.bold), bool(style.underline), bool(style.strike), bool(style.reverse)
    raise AssertionError(f"{text!r} is not painted: {rows(pane)}")


def assert_safe(pane: LineView) -> None:
    """Every row is as wide as the pane, and a terminal obeys nothing in it."""
    for y in range(pane.size.height):
        strip = pane.render_line(y)
        assert not OBEYED.search(strip.text), repr(strip.text)
        assert strip.cell_length == pane.row_width, repr(strip.text)


def fold(state: ViewState, events: Iterable[Event]) -> ViewState:
    """The state after some events."""
    for event in events:
        state = reduce(state, event)
    return state


def started(*, plain: bool = False, prompt_pieces: tuple[bytes, ...] = (b"a",)) -> ViewState:
    """A run whose prompt is read."""
    mode = "plain" if plain else "speculative"
    prompt = tuple(range(len(prompt_pieces)))
    return fold(
        ViewState(),
        [
            LoadFinished(0, 0, "target", TARGET, 1.0),
            RunStarted(0, 0, 1, mode, prompt, prompt_pieces, 0, 20_000, None, ()),
            SegmentStarted(0, 0, 1, SETTINGS),
            PrefillFinished(0, 0, 312.0),
        ],
    )


def answered(pieces: Sequence[bytes], state: ViewState | None = None) -> ViewState:
    """A state in which the answer has these tokens, two a round (an accepted one and a bonus)."""
    state = started() if state is None else state
    for at in range(0, len(pieces), 2):
        number = len(state.rounds) + 1
        more = pieces[at : at + 2]
        state = reduce(state, make_round(number, len(more) - 1, len(more) - 1, pieces=more))
    return state


def with_run_number(state: ViewState, number: int) -> ViewState:
    """The same run under another number."""
    return dataclasses.replace(state, fold=dataclasses.replace(state.fold, run=number))


def with_rounds(rounds_: Iterable[Round], state: ViewState | None = None) -> ViewState:
    """A state with these rounds."""
    return fold(started() if state is None else state, rounds_)


def finished(state: ViewState, reason: EndReason = EndReason.EOS) -> ViewState:
    """The state after the run's end."""
    total = state.total
    return reduce(state, RunFinished(0, 0, reason, "", total.tokens, 312.0, 360.0, total.decode_ms))


def plain_step(number: int, piece: bytes) -> PlainStep:
    """A step of plain decoding."""
    return PlainStep(
        number, number, number, number, piece, piece.decode("utf-8", "replace"), None, 0, 30.0, 1.0
    )
