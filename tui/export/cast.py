"""A recording as a cast of asciinema, version 2: the printed replay, for terminals and web pages to play.

What is played is what ``spec replay --print`` writes to a terminal of 80 columns, in colour: the same filter
stands before every text of the recording, so that none of it is an escape sequence.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.events import Event
from tui.console import Console
from tui.safe_text import visible
from tui.schedule import Schedule
from tui.tape import MemoryTape
from tui.terminal import WIDTH, Output

_HEIGHT = 24


def as_cast(header: Mapping[str, Any], events: Sequence[Event]) -> str:
    """The whole cast: a header line, then a line for each time at which something is written.

    Args:
        header: of the recording.
        events: in their order; their ``t_ns`` say when.
    """
    return "".join(json.dumps(line) + "\n" for line in _lines(header, events))


def _lines(header: Mapping[str, Any], events: Sequence[Event]) -> Iterator[Any]:
    yield {
        "version": 2,
        "width": WIDTH,
        "height": _HEIGHT,
        "title": _title(header),
        "env": {"TERM": "xterm-256color"},
    }
    screen = _Screen()
    console = Console(screen, screen, verbose=True)
    schedule, time = Schedule(MemoryTape(events)), 0.0
    for place, event in enumerate(events):
        time = round(schedule.due(place), 6)
        console.show(event)
        if written := screen.take():
            yield [time, "o", written]
    console.end_answer()
    if written := screen.take():
        yield [time, "o", written]


def _title(header: Mapping[str, Any]) -> str:
    model = header.get("target")
    name = visible(str(model.get("name", "")), "") if isinstance(model, dict) else ""
    return f"Speculative decoding with {name}" if name else "Speculative decoding"


class _Screen(Output):
    """A terminal that keeps what it gets, whatever this process is connected to."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        super().__init__(self._text, "always")
        self.is_terminal = True
        self.can_rewrite = False  # progress is rewritten by the clock of the wall, not of the recording
        self.ascii_only = False

    @property
    def width(self) -> int:
        """Columns, as the header says."""
        return WIDTH

    def take(self) -> str:
        """What came since the last call, with the line ends of a terminal in raw mode."""
        text = self._text.getvalue()
        self._text.seek(0)
        self._text.truncate()
        return text.replace("\n", "\r\n")
