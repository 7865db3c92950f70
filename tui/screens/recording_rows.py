"""The list of recordings: two lines for each, and the keys that act on one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from engine.recording_summary import RecordingSummary
from tui.glyphs import glyph_set
from tui.recording_folder import Entry
from tui.safe_text import visible
from tui.widgets.bars import shown, size
from tui.widgets.transport import short_name

Told = RecordingSummary | str | None
"""What is known of a file: its summary, what is wrong with it, or nothing yet."""


@dataclass(frozen=True, slots=True)
class RecordingRow:
    """A file and what the list says of it."""

    entry: Entry
    told: Told = None
    is_shipped: bool = False
    """It comes with the program."""

    def matches(self, words: str) -> bool:
        """Whether all the words occur in its name, or in those of its models."""
        names = [self.entry.title]
        if isinstance(self.told, RecordingSummary):
            names += [self.told.target, self.told.drafter]
        text = " ".join(names).lower()
        return all(word in text for word in words.lower().split())


def row_text(row: RecordingRow, mark: str, use: str, *, ascii_only: bool) -> Content:
    """The lines of a file.

    Args:
        mark: a sign of one column before its name; a blank for none.
        use: what it is used for now, such as "is being recorded"; "" for nothing.
    """

    def safe(text: str) -> str:
        return visible(text, "", ascii_only=ascii_only)

    recorded = row.told.recorded if isinstance(row.told, RecordingSummary) else None
    date = date_text(row.entry.modified_ns, recorded)
    parts: list[str | tuple[str, str]] = [(f"{mark} ", "bold $text-accent")]
    parts.append(f"{date}  {size(row.entry.size):>6}  ")
    parts.append((safe(row.entry.title), "bold"))
    if row.is_shipped:
        parts.append("  comes with the program")
    if use:
        parts.append((f"  {glyph_set(ascii_only).record} {use}", "bold $text-error"))
    new_line = "\n  "
    parts.append(new_line)
    told = row.told
    if isinstance(told, RecordingSummary):
        parts.append(safe(f"{short_name(told.target)} + {short_name(told.drafter)}  {_measures(told)}"))
    elif told is None:
        parts.append("is being read")
    problem = _problem(told)
    if problem:
        parts.append((f"{'' if isinstance(told, str) else new_line}x {safe(problem)}", "$text-error"))
    return Content.assemble(*parts)


def _measures(told: RecordingSummary) -> str:
    runs = f"{told.runs:,} runs  " if told.runs != 1 else ""
    speedup = f"{told.speedup:.2f}x" if told.speedup is not None else "no baseline"
    return f"{speedup}  tau {shown(told.tau, '.2f', '--')}  {runs}{told.rounds:,} rounds  {told.tokens:,} tok"


def _problem(told: Told) -> str:
    if not isinstance(told, RecordingSummary):
        return told or ""
    if told.damage is not None:
        return told.damage
    return "the last line is cut short" if told.torn else ""


def date_text(modified_ns: int, recorded: str | None = None) -> str:
    """A time of day for a reader: "2026-11-30 17:05". When it was recorded, if that is known, else when its
    file was last written."""
    try:
        if recorded is not None:
            return f"{datetime.fromisoformat(recorded).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        pass  # the header was changed
    try:
        return f"{datetime.fromtimestamp(modified_ns / 1e9).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return "at no possible time"


class RecordingRows(OptionList):
    """The recordings that match the filter. Its letters are keys only here; there they can be typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "ask('mark')", "Mark", id="library.mark", tooltip="Mark it to be compared, or not"),
        Binding(
            "c", "ask('compare')", "Compare", id="library.compare", tooltip="Set two recordings side by side"
        ),
        Binding("v", "ask('verify')", "Verify", id="library.verify", tooltip="Check every round again"),
        Binding("e", "ask('export')", "Export", id="library.export", tooltip="Write it in another form"),
        Binding("r", "ask('rename')", "Rename", id="library.rename", tooltip="Call the file something else"),
        Binding("d,delete", "ask('delete')", "Delete", id="library.delete", tooltip="Delete it for good"),
    ]

    class Wanted(Message):
        """What a key asked for: "mark", "compare", "verify", ..."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self) -> None:
        super().__init__()
        self._paths: list[Path] = []

    def fill(self, rows: Sequence[tuple[Path, Content]], empty: str, follow: Path | None = None) -> None:
        """Show other rows; the cursor goes to ``follow``, or to the row it is on, or keeps its place."""
        follow = follow or self.chosen
        at = self.highlighted or 0
        self._paths = [path for path, _ in rows]
        self.set_options([Option(text) for _, text in rows] or [Option(Content(empty), disabled=True)])
        if follow in self._paths:
            at = self._paths.index(follow)
        self.highlighted = min(at, len(rows) - 1) if rows else None

    def update_rows(self, rows: Iterable[tuple[Path, Content]]) -> None:
        """Show some rows otherwise; where the list stands, it stays."""
        places = {path: at for at, path in enumerate(self._paths)}
        for path, text in rows:
            if path in places:
                self.replace_option_prompt_at_index(places[path], text)

    def action_ask(self, what: str) -> None:
        """Tell the screen."""
        self.post_message(self.Wanted(what))

    @property
    def chosen(self) -> Path | None:
        """The file of the highlighted row."""
        at = self.highlighted
        return self._paths[at] if at is not None and at < len(self._paths) else None
