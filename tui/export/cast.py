"""A recording as a cast of asciinema, version 2: the printed replay, for terminals and web pages to play.

What is played is what ``spec replay --print`` writes to a terminal of 80 columns, in colour: the same filter
stands before every text of the recording, so that none of it is an escape sequence.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engine.events import Event
from tui.console import Console
from tui.safe_text import visible
from tui.terminal import WIDTH, Output

_HEIGHT = 24
_LONGEST_GAP_S = 2.0
"""Longer waits between two events were idle time; a replay cuts them to the same."""


def as_cast(header: Mapping[str, Any], events: Iterable[Event]) -> str:
    """The whole cast: a header line, then a line for each time at which something is written.

    Args:
        header: of the recording.
        events: in their order; their ``t_ns`` say when.
    """
    return "".join(json.dumps(line) + "\n" for line in _lines(header, events))


def _lines(header: Mapping[str, Any], events: Iterable[Event]) -> Iterator[Any]:
    yield {
        "version": 2,
        "width": WIDTH,
        "height": _HEIGHT,
        "title": _title(header),
        "env": {"TERM": "xterm-256color"},
    }
    screen = _Screen()
    console = Console(screen, screen, verbose=True)
    time = 0.0
    for time, event in _timed(events):
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


def _timed(events: Iterable[Event]) -> Iterator[tuple[float, Event]]:
    """Each event with its time in seconds from the first one, to the microsecond."""
    at, before = 0.0, None
    for event in events:
        gap = 0.0 if before is None else (event.t_ns - before) / 1e9
        at += min(max(gap, 0.0), _LONGEST_GAP_S)
        before = event.t_ns
        yield round(at, 6), event


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
