"""The line of a replay: where it is, how fast it goes, and all rounds of the recording to go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.glyphs import sparkline
from tui.schedule import MAX_GAP_S
from tui.source import ReplaySource
from tui.survey import Survey
from tui.widgets.transport import OneLine, Part

_LEAST_CELLS = 10
"""Cells below which the words before them are left out, the last ones first."""


class Timeline(OneLine, can_focus=True):
    """Cells as high as the share of drafts accepted there, the one of the present round marked."""

    HELP: ClassVar[str] = (
        "The rounds of the recording from left to right. A cell is as high as the share of drafts that were "
        "accepted there; the bright part was played. A click goes there. Left and right go a round back and "
        "on, page up and page down a twentieth of the recording, home and end to its ends."
    )
    DEFAULT_CSS = """
    Timeline { color: $foreground 60%; }
    Timeline:focus { background: $primary 20%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "by(-1)", "Round before", id="timeline.left", tooltip="A round back"),
        Binding("right,l", "by(1)", "Next round", id="timeline.right", tooltip="A round on"),
        Binding("pageup", "part(-1)", "Back", id="timeline.page_up", tooltip="A twentieth back", show=False),
        Binding("pagedown", "part(1)", "On", id="timeline.page_down", tooltip="A twentieth on", show=False),
        Binding("home,g", "end(False)", "Beginning", id="timeline.first", tooltip="To the beginning"),
        Binding("end,G", "end(True)", "End", id="timeline.last", tooltip="To the end"),
    ]

    class Sought(Message):
        """The replay is to go to just behind so many rounds."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._source: ReplaySource | None = None
        self._survey: Survey | None = None
        self._bookmarks: Sequence[int] = ()
        self._kind = ""
        self._cells_from = 0
        self._cells = 0

    def show(
        self, source: ReplaySource, survey: Survey, bookmarks: Sequence[int] = (), kind: str = ""
    ) -> None:
        """Show where a replay is; ``kind`` says which markers are gone to, "" for nothing."""
        self._source, self._survey, self._bookmarks, self._kind = source, survey, bookmarks, kind
        self._update()

    def on_resize(self) -> None:
        self._update()

    # -- what it says

    def _update(self) -> None:
        if self._source is None or self._survey is None or not self.size.width:
            return
        words = self._words(self._source)
        while len(words) > 1 and self.size.width - cell_len("".join(words)) < _LEAST_CELLS:
            words.pop()
        head = "".join(words)
        self._cells_from, self._cells = cell_len(head), max(self.size.width - cell_len(head) - 1, 0)
        self.set_parts([(head, "$foreground"), *self._bar(self._source, self._survey)])

    def _words(self, source: ReplaySource) -> list[str]:
        steps, whole = f"{source.steps:,}", _clock(source.duration)
        words = [f" {source.step:>{len(steps)},}/{steps} "]  # of one width, so that the cells stand still
        words.append(f" {_clock(source.time):>{len(whole)}}/{whole} ")
        words.append(f" {source.clock.speed:>4g}x ")
        if self._kind:
            words.append(f" {self._kind} ")
        if source.loop:
            words.append(" loop ")
        if source.follow:
            words.append(" follow ")
        if source.max_gap_s != MAX_GAP_S:
            gap = source.max_gap_s
            words.append(" real time " if gap is None else f" gaps {gap:g}s ")
        if source.seeking:
            words.insert(0, " seeking")
        return words

    def _bar(self, source: ReplaySource, survey: Survey) -> list[Part]:
        glyphs, total = self.glyphs, source.steps
        if not total:
            return []
        here = self._cell_of(source.step - 1, total) if source.step else -1
        marked = {self._cell_of(mark, total) for mark in self._bookmarks if mark < total}
        parts: list[Part] = []
        for cell in range(self._cells):
            start = cell * total // self._cells
            end = max((cell + 1) * total // self._cells, start + 1)
            share = survey.share(start, min(end, len(survey))) if start < len(survey) else None
            height = glyphs.blank if share is None else sparkline([share], glyphs, top=1.0)
            sign = glyphs.record if cell in marked else height
            style = "bold reverse $text-accent" if cell == here else "$text-primary" if cell < here else ""
            if parts and parts[-1][1] == style:
                parts[-1] = (parts[-1][0] + sign, style)
            else:
                parts.append((sign, style))
        return parts

    def _cell_of(self, at: int, total: int) -> int:
        """The cell that shows a round."""
        cell = at * self._cells // total
        return cell + 1 if (cell + 1) * total // max(self._cells, 1) <= at else cell

    # -- keys and mouse

    def _seek(self, count: int) -> None:
        if self._source is not None:
            self.post_message(self.Sought(min(max(count, 0), self._source.steps)))

    def action_by(self, by: int) -> None:
        if self._source is not None:
            self._seek(self._source.step + by)

    def action_part(self, by: int) -> None:
        if self._source is not None:
            self._seek(self._source.step + by * max(self._source.steps // 20, 1))

    def action_end(self, last: bool) -> None:
        if self._source is not None:
            self._seek(self._source.steps if last else 0)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._seek_to_column(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if event.button and self.app.mouse_captured is self:
            self._seek_to_column(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _seek_to_column(self, column: int) -> None:
        if self._source is not None and column >= self._cells_from and self._cells:
            total = self._source.steps
            cell = min(column - self._cells_from, self._cells - 1)
            self._seek(max((cell + 1) * total // self._cells, cell * total // self._cells + 1))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(seconds, 0.0), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:04.1f}" if hours else f"{minutes}:{rest:04.1f}"
