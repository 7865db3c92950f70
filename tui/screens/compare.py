"""Two recordings side by side: their answers token by token, and their measures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from engine.errors import SpeculateError, UserError
from engine.recording import Recording, read_recording
from tui.compare import compare_runs
from tui.drafting import SYNTHETIC
from tui.export.report import Report, RunReport, build_report
from tui.recording_folder import SUFFIX, with_name_only
from tui.recording_work import at_work
from tui.screens.dialog import Dialog
from tui.screens.message import Choice, ChoiceModal, ErrorModal
from tui.widgets.comparison import AnswersPane, MeasuresPane, Shape

BESIDE_FROM = 160
"""Columns of the screen from which the measures stand beside the answers."""
_BEGINNING = 60
"""Characters of an answer that tell it from others."""


class CompareScreen(Dialog[None]):
    """Sets a run of one recording beside a run of another, or of the same.

    Args:
        first: the file of A.
        second: the file of B.
    """

    HELP: ClassVar[str] = (
        "Two answers side by side, and their measures. d goes to the first token that differs, a and b "
        "choose another run of a recording that holds several, s makes the table larger or smaller."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "d",
            "difference",
            "Difference",
            id="compare.difference",
            tooltip="To the first token that differs",
        ),
        Binding("a", "run(0)", "Run of A", id="compare.first", tooltip="Another run of the first recording"),
        Binding(
            "b", "run(1)", "Run of B", id="compare.second", tooltip="Another run of the second recording"
        ),
        Binding("s", "table", "Table", id="compare.table", tooltip="The table larger, or smaller"),
        Binding("tab", "app.focus_next", "Other part", id="compare.next", tooltip="To the other part"),
    ]
    DEFAULT_CSS = """
    CompareScreen > .box { width: 100%; max-width: 100%; height: 100%; max-height: 100%; }
    CompareScreen #names { height: 2; text-wrap: nowrap; text-overflow: ellipsis; }
    CompareScreen.-ascii #names { text-overflow: clip; }
    CompareScreen #parts { height: 1fr; layout: vertical; }
    CompareScreen MeasuresPane { height: 8; }
    CompareScreen AnswersPane { height: 1fr; }
    CompareScreen.-table MeasuresPane { height: 3fr; }
    CompareScreen.-beside #parts { layout: horizontal; }
    CompareScreen.-beside MeasuresPane { width: 70; height: 1fr; }
    CompareScreen.-beside AnswersPane { width: 1fr; }
    """

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-above"), (BESIDE_FROM, "-beside")]
        self._paths = (first, second)
        self._reports: tuple[Report, Report] | None = None
        self._runs = [-1, -1]  # indices among those of the recordings
        self._problems: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("", id="names", markup=False)
            with Container(id="parts"):
                yield MeasuresPane(id="measures")
                yield AnswersPane(id="answers")

    def on_mount(self) -> None:
        self.query_one(AnswersPane).focus()
        self._read()

    @work(exclusive=True, group="compare")
    async def _read(self) -> None:
        """Read both files; the last runs are compared first, of one file its last two."""
        try:
            self._reports = await asyncio.to_thread(self._both)
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error), lambda _: self.dismiss(None))
            return
        first, second = self._reports
        self._runs = [len(first.runs) - 1, len(second.runs) - 1]
        if self._paths[0] == self._paths[1] and len(first.runs) > 1:
            self._runs[0] -= 1
        for problem in self._problems:
            self.notify(self.safe(problem, ""), severity="warning", markup=False)
        self._compare()

    def _both(self) -> tuple[Report, Report]:
        """Runs in a thread. Raises RecordingError, or UserError for a file without a run."""
        with at_work():
            first = self._report(self._paths[0])
            return first, first if self._paths[0] == self._paths[1] else self._report(self._paths[1])

    def _report(self, path: Path) -> Report:
        recording = read_recording(path, tolerant=True)
        report = build_report(recording.header, recording.events, incomplete=not recording.whole)
        if not report.runs:
            raise UserError(f"{path.name} holds no run", "There is nothing to compare in it.")
        if problem := _problem(path, recording):
            self._problems.append(problem)
        return report

    @work(exclusive=True, group="compare")
    async def _compare(self) -> None:
        """Show the chosen runs."""
        assert self._reports is not None, "the recordings are read"
        runs = [report.runs[index] for report, index in zip(self._reports, self._runs, strict=True)]
        shape = await asyncio.to_thread(self._shape_of, *runs)
        self.query_one("#names", Static).update(Content("\n").join(self._title_of(side) for side in (0, 1)))
        self.query_one(MeasuresPane).show(shape)
        self.query_one(AnswersPane).show(shape)
        self.refresh_bindings()

    def _shape_of(self, first: RunReport, second: RunReport) -> Shape:
        """For a thread of its own."""
        return Shape.of(compare_runs(first, second), ascii_only=self.ascii)

    def _title_of(self, side: int) -> Content:
        assert self._reports is not None, "the recordings are read"
        runs = self._reports[side].runs
        which = f"  run {runs[self._runs[side]].started.run} (one of {len(runs)})" if len(runs) > 1 else ""
        title = self._paths[side].name.removesuffix(SUFFIX)
        synthetic = f"  ({SYNTHETIC})" if runs[self._runs[side]].facts.synthetic else ""
        return Content.assemble(
            ("AB"[side], "bold $text-accent"), f"  {self.safe(title, '')}{which}", (synthetic, "bold")
        )

    # -- what the user does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "difference":
            return bool(self.query(AnswersPane)) and self.query_one(AnswersPane).parts
        if action == "run":
            side = parameters[0]
            return self._reports is not None and len(self._reports[side == 1].runs) > 1
        return super().check_action(action, parameters)

    def action_difference(self) -> None:
        """To the first token that differs."""
        self.query_one(AnswersPane).show_difference()

    def action_run(self, side: int) -> None:
        """Choose another run of a recording."""
        if self._reports is None:
            return
        choices = [
            Choice(str(index), f"Run {run.started.run}", self.safe(_about(run), ""))
            for index, run in enumerate(self._reports[side].runs)
        ]

        def chosen(index: str | None) -> None:
            if index is not None:
                self._runs[side] = int(index)
                self._compare()

        title = self._paths[side].name.removesuffix(SUFFIX)
        self.app.push_screen(
            ChoiceModal(f"Which run is {'AB'[side]}?", choices, self.safe(title, "")), chosen
        )

    def action_table(self) -> None:
        """The table larger, or smaller."""
        self.toggle_class("-table")


def _about(run: RunReport) -> str:
    """What tells a run from others."""
    text = " ".join(run.text.split())
    beginning = text if len(text) <= _BEGINNING else text[:_BEGINNING] + " ..."
    return f"{run.statistics.tokens + len(run.steps):,} tokens: {beginning}"


def _problem(path: Path, recording: Recording) -> str:
    """What of a file could not be read; "" for nothing."""
    if recording.damage is not None:
        return f"{with_name_only(recording.damage, path)}. What comes before it is compared."
    return f"The last line of {path.name} is cut short and left out." if recording.torn else ""
