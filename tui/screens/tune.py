"""Tuning a context: the drafters and K that were tried, the fastest first, to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.tune_ranking import LeftOut, Ranked, Ranking, Trying, Tuned, sentence
from tui.screens.dialog import plain
from tui.screens.measuring import MeasuringScreen
from tui.tune_rows import heading, row_text

_NARROWEST = 56
"""Columns of a row in which a drafter can still be told."""


@dataclass(frozen=True, slots=True)
class TuneChoice:
    """What the user takes."""

    row: Ranked
    save: bool
    """Into the configuration file too."""


class TuneScreen(MeasuringScreen[TuneChoice]):
    """Shows the ranking as it grows. The result is the chosen row; None leaves all as it is."""

    HELP: ClassVar[str] = (
        "Drafters and K are tried on this context, each beside plain decoding. Rows with a spread were timed;"
        " the others are predicted from the acceptance with another K. What wins here need not win on"
        " another text."
    )
    KEYS = (("up down", "choose"), ("enter", "use it"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "save", "Use and save", id="tune.save", tooltip="Use the row, and save it to the file"),
    ]
    DEFAULT_CSS = """
    TuneScreen > .box { width: 100%; height: 95%; }
    TuneScreen .box OptionList {
        height: 1fr; border: none; padding: 0; scrollbar-gutter: stable; overflow-x: hidden;
    }
    TuneScreen #doing { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TuneScreen.-ascii #doing { text-overflow: clip; }
    TuneScreen #heading { color: $text-muted; height: 1; margin-top: 1; text-wrap: nowrap; }
    TuneScreen #said { height: auto; max-height: 6; overflow-y: auto; margin-top: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[Ranked, ...] = ()
        self.tuned: Tuned | None = None
        self._doing = "Tuning begins when the engine is free."
        self._left_out: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("Tune: which drafter and K are the fastest on this context?", "title")
            yield plain(self._doing, "quiet", id="doing")
            yield Static("", id="heading", markup=False)
            yield OptionList()
            yield plain("", id="said")

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_resize(self) -> None:
        self.draw()

    @property
    def finished(self) -> bool:
        return self.tuned is not None

    def take(self, event: object) -> None:
        match event:
            case Trying(what, seconds, limit):
                self._doing = f"{seconds:.0f} s of at most {limit:.0f}: {what}"
            case LeftOut(drafter, why):
                self._left_out.append(f"Left out: {drafter}: {why}")
            case Ranking(rows):
                self.rows = rows
            case Tuned(rows):
                self.rows, self.tuned = rows, event
                self._doing = (
                    f"Done in {event.seconds:.0f} s: {event.prompt_tokens:,} tokens of prompt,"
                    f" {event.answer_tokens} of each answer."
                )

    def draw(self) -> None:
        rows = self.query_one(OptionList)
        at = rows.highlighted
        width = max(_NARROWEST, rows.scrollable_content_region.width)
        self.query_one("#heading", Static).update(Content(heading(width)))
        rows.clear_options()
        rows.add_options(Option(Content(self.safe(row_text(row, width)))) for row in self.rows)
        if self.rows:
            rows.highlighted = 0 if self.finished or at is None else min(at, len(self.rows) - 1)
        self.query_one("#doing", Static).update(Content(self.safe(self._doing)))
        said = [*self._left_out, *([] if self.tuned is None else [sentence(self.tuned)])]
        self.query_one("#said", Static).update(Content(self.safe("\n".join(said))))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "save":
            return self.finished
        return super().check_action(action, parameters)

    @on(OptionList.OptionSelected)
    def _chosen(self) -> None:
        self._take_row(save=False)

    def action_save(self) -> None:
        """Use the row, and keep it in the configuration file."""
        self._take_row(save=True)

    def _take_row(self, *, save: bool) -> None:
        at = self.query_one(OptionList).highlighted
        if self.finished and at is not None:
            self.dismiss(TuneChoice(self.rows[at], save))
