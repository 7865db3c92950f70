"""A quick bench of the present pair: each K beside plain decoding, prompt by prompt."""

from __future__ import annotations

import os
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from engine.bench.trials.cells import Results
from engine.bench.trials.events import Progress
from engine.errors import SpeculateError
from tui.atomic_file import user_path
from tui.bench_lines import bench_lines, progress_line, views
from tui.bench_work import Done, SoFar, report_problem, write_report
from tui.screens.dialog import plain
from tui.screens.measuring import MeasuringScreen
from tui.screens.message import ErrorModal, TextModal

_NARROWEST = 40


class BenchScreen(MeasuringScreen[None]):
    """Fills a table while the bench runs.

    Args:
        pair: what is measured, for the title.
    """

    HELP: ClassVar[str] = (
        "One prompt of each category is written by each K and plainly, forth and back. The speedup is plain"
        " decoding's time over that of the row. Left and right go through the categories."
    )
    KEYS = (("left right", "category"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "left",
            "view(-1)",
            "Category before",
            id="bench.previous",
            tooltip="The category before",
            show=False,
        ),
        Binding(
            "right", "view(1)", "Next category", id="bench.next", tooltip="The next category", show=False
        ),
        Binding("e", "export", "Export", id="bench.export", tooltip="Write a report, as .md or .html"),
    ]
    DEFAULT_CSS = """
    BenchScreen > .box {
        width: 100%; max-width: 100%; height: 100%; max-height: 100%; border: none; padding: 0;
    }
    BenchScreen.-ascii > .box { border: none; }
    BenchScreen .title { height: 1; margin: 0; padding: 0 1; text-wrap: nowrap; background: $panel; }
    BenchScreen #doing { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    BenchScreen.-ascii #doing { text-overflow: clip; }
    BenchScreen VerticalScroll { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    BenchScreen #table { height: auto; text-wrap: nowrap; }
    BenchScreen .keys-line { padding: 0 1; background: $panel; }
    """

    def __init__(self, pair: str) -> None:
        super().__init__()
        self.results: Results | None = None
        self.done: Done | None = None
        self._pair = pair
        self._doing = "All widths are warmed up first; this is not timed."
        self._view = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain(f"Quick bench: {self._pair}", "title")
            yield plain(self._doing, "quiet", id="doing")
            with VerticalScroll():
                yield plain("", id="table")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        self.draw()

    @property
    def finished(self) -> bool:
        return self.done is not None

    def take(self, event: object) -> None:
        match event:
            case Progress():
                self._doing = progress_line(event)
            case SoFar(results):
                self.results = results
            case Done(results):
                self.results, self.done = results, event
                self._doing = f"Done in {event.facts['seconds']:.0f} s."

    def draw(self) -> None:
        self.query_one("#doing", Static).update(Content(self.safe(self._doing)))
        if self.results is not None:
            width = max(_NARROWEST, self.query_one(VerticalScroll).scrollable_content_region.width)
            lines = bench_lines(self.results, self._view, width)
            self.query_one("#table", Static).update(Content(self.safe("\n".join(lines))))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "export":
            return self.finished
        return super().check_action(action, parameters)

    def action_view(self, by: int) -> None:
        """Another category, or all together."""
        if self.results is not None:
            known = views(self.results)
            self._view = known[(known.index(self._view) + by) % len(known)]
            self.draw()

    def action_export(self) -> None:
        """Ask for a name, and write the report there."""

        def problem(text: str) -> str | None:
            return report_problem(text) or (
                "There is a file of that name." if os.path.lexists(user_path(text)) else None
            )

        self.app.push_screen(
            TextModal(
                "Export as",
                "bench.html",
                detail="In the working folder, or a whole path; .md or .html.",
                check=problem,
            ),
            self._export,
        )

    def _export(self, name: str | None) -> None:
        if name is None or self.done is None:
            return
        try:
            path = write_report(self.done, name)
        except SpeculateError as error:
            self.app.push_screen(ErrorModal.of(error))
        else:
            self.app.notify(self.safe(f"Wrote {path}", ""), markup=False)
