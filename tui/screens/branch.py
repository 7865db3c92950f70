"""Another token in place of one of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Input, OptionList
from textual.widgets.option_list import Option

from engine.events import Alternative
from tui.glyphs import bar, glyph_set
from tui.safe_text import visible_bytes
from tui.screens.dialog import Dialog, plain
from tui.widgets.inputs import SafeInput

_BAR_CELLS = 12


@dataclass(frozen=True, slots=True)
class Branch:
    """How the answer goes on at a token: a listed token by its id, or a text of the user's."""

    id: int | None = None
    text: str | None = None


class AlternativesModal(Dialog[Branch | None]):
    """Another token in place of one of the answer: one of the likeliest, or a text.

    The field has the focus all the time, so that every letter typed goes there; up and down move in the list
    beside it. While there is a text, nothing is chosen in the list.
    """

    HELP: ClassVar[str] = (
        "The likeliest tokens at this place. Up and down choose one, enter takes it. Or type how the answer "
        "goes on: then enter takes the text."
    )
    KEYS = (("up down", "choose"), ("enter", "take it"), ("letters", "your own text"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Next", id="branch.down", tooltip="The next token", show=False),
        Binding("up", "move(-1)", "Before", id="branch.up", tooltip="The token before", show=False),
    ]
    DEFAULT_CSS = """
    AlternativesModal .box OptionList { height: auto; max-height: 14; border: none; padding: 0; }
    """

    def __init__(self, alternatives: Sequence[Alternative], current: int | None, where: str = "") -> None:
        super().__init__()
        self._alternatives, self._current, self._where = tuple(alternatives), current, where

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(f"Go on differently {self._where}".rstrip(), "title")
            rows = OptionList(*(Option(self._row(each), id=str(each.id)) for each in self._alternatives))
            yield rows
            yield plain("Or type how it goes on (leading spaces count) and press Enter:", "quiet")
            yield SafeInput(placeholder="a text of your own")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel", compact=True)

    def on_mount(self) -> None:
        for widget in self.query("OptionList, Button"):
            widget.can_focus = False  # by mouse only: escape cancels
        self._choose_first()
        self.query_one(Input).focus()

    def _choose_first(self) -> None:
        others = (at for at, each in enumerate(self._alternatives) if each.id != self._current)
        self.query_one(OptionList).highlighted = next(others, None)

    def _row(self, each: Alternative) -> Content:
        filled = bar(each.probability, _BAR_CELLS, glyph_set(self.ascii))
        mark = "  (now)" if each.id == self._current else ""
        piece = Content(visible_bytes(each.piece, ascii_only=self.ascii)).stylize("bold")
        return Content.assemble(f"{each.probability:6.1%} ", filled, " ", piece, f"  {each.id}{mark}")

    def action_move(self, by: int) -> None:
        """Along the list; past its end nothing in it is chosen, and the text counts."""
        rows = self.query_one(OptionList)
        places = [None, *range(len(self._alternatives))]
        at = places.index(rows.highlighted) + by
        rows.highlighted = places[at % len(places)]

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.value:
            self.query_one(OptionList).highlighted = None
        else:
            self._choose_first()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None:
            self._take(at)
        elif event.value:
            self.dismiss(Branch(text=event.value))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._take(event.option_index)

    def _take(self, at: int) -> None:
        chosen = self._alternatives[at].id
        if chosen == self._current:
            self.notify("That token stands there already: nothing is changed.", markup=False)
            self.dismiss(None)
        else:
            self.dismiss(Branch(id=chosen))

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)
