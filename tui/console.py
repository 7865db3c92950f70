"""The headless run's printing: the answer to standard output, everything else to standard error.

Where standard output is a terminal (or colour is forced), every character of the answer passes ``visible``
and is styled by its origin: accepted green, correction bold underlined, bonus bold. Elsewhere the answer is
written as it is, and nothing else is, so that it can be piped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Event,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    Notice,
    Origin,
    PlainRunProgress,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
)
from tui.origin_text import OriginText, Segment
from tui.round_text import LEGEND, ORIGIN_STYLES, round_lines
from tui.safe_text import VisibleStream, visible
from tui.summary import RunFacts, json_line, summary_lines
from tui.terminal import Output, Progress

_KEPT = "\n\t"
"""Control characters of an answer that a terminal may have."""


class Console:
    """Prints the events of one run."""

    def __init__(self, out: Output, err: Output, *, verbose: bool = False) -> None:
        self.facts = RunFacts()
        self._out = out
        self._err = err
        self._verbose = verbose
        self._safe = out.is_terminal or out.color
        self._progress = Progress(err)
        self._origins = OriginText()
        self._stream = VisibleStream(_KEPT, ascii_only=out.ascii_only)
        self._line_open = False
        self._rounds = 0

    def show(self, event: Event) -> None:
        """Print what one event says. Raises BrokenPipeError when nobody reads any more."""
        self.facts.add(event)
        if isinstance(event, Round):
            self._round(event)
        elif isinstance(event, PlainStep):
            self._answer(self._origins.add([(event.piece, Origin.PLAIN)], event.text))
        elif isinstance(event, RunFinished):
            self._answer(self._origins.finish(event.text))
            self.end_answer()
        elif isinstance(event, Notice):
            self.note(event.text)
        else:
            self._work(event)

    def note(self, text: str) -> None:
        """Tell something on standard error, on a line of its own."""
        self._own_line()
        self._err.write(f"note: {visible(text, '', ascii_only=self._err.ascii_only)}\n")

    def working(self, label: str) -> None:
        """Say what takes its time now, until the next event."""
        self._progress.update(label)

    def end_answer(self) -> None:
        """End the answer's last line on a terminal; allowed at any time and twice."""
        self._progress.clear()
        if not self._safe:
            return
        self._out.write(self._stream.finish())
        if self._line_open:
            self._out.write("\n")
            self._line_open = False

    def next_answer(self, title: str) -> None:
        """Another answer follows: it begins on a line of its own."""
        self.end_answer()
        if self._line_open:
            self._out.write("\n")
            self._line_open = False
        self._origins = OriginText()
        self.note(title)

    def summary(self, measures: Mapping[str, Any]) -> None:
        """Print what was measured."""
        self._own_line()
        lines = summary_lines(self.facts, measures, self._err.width, glossary=self._verbose)
        self._err.write("\n" + "\n".join(lines) + "\n")

    def json(self, measures: Mapping[str, Any]) -> None:
        """Print one JSON object as the last line of standard output."""
        if self._line_open:
            self._out.write("\n")
            self._line_open = False
        self._out.write(json_line(self.facts, measures) + "\n")

    def _round(self, round_: Round) -> None:
        self._progress.clear()
        self._answer(self._origins.add_round(round_))
        if not self._verbose:
            return
        self._own_line()
        lines = round_lines(round_, self._err)
        self._rounds += 1
        if self._rounds == 1:
            lines.insert(0, LEGEND)
        self._err.write("\n".join(lines) + "\n")

    def _answer(self, segments: list[Segment]) -> None:
        shown = []
        for text, origin in segments:
            part = self._stream.feed(text) if self._safe else text
            style = "" if origin is None else ORIGIN_STYLES[origin]
            shown.append(self._out.styled(part, style))
            if part:
                self._line_open = not part.endswith("\n")
        self._out.write("".join(shown))

    def _own_line(self) -> None:
        """Start a line on standard error, also where the answer shares the terminal with it."""
        self._progress.clear()
        if self._line_open and self._out.is_terminal and self._err.is_terminal:
            # Not to standard output: the answer there stays what the model wrote.
            self._err.write("\n")
            self._line_open = False

    def _work(self, event: Event) -> None:
        """Loading, reading the prompt and timing: what goes on where no text comes."""
        progress = self._progress
        if isinstance(event, LoadStarted):
            progress.update(_clean(f"loading {event.role} {event.name}"))
        elif isinstance(event, LoadProgress):
            fraction = event.done / event.total if event.total else None
            if self._err.can_rewrite or event.stage == "download":
                progress.update(_clean(f"{event.stage} {event.role}:"), _amount(event), fraction)
        elif isinstance(event, LoadFinished):
            progress.clear()
            model = event.model
            said = f"{event.role}: {model.name}, {model.dtype} on {model.device}, {event.ms / 1000:.1f} s"
            self._err.write(_clean(said) + "\n")
        elif isinstance(event, PrefillProgress):
            if self._err.can_rewrite:
                progress.update("reading the prompt:", f"{event.done} of {event.total} tokens")
        elif isinstance(event, BaselineStarted):
            progress.update(f"timing plain decoding of {event.tokens} tokens")
        elif isinstance(event, BaselineProgress):
            if self._err.can_rewrite:
                progress.update("timing plain decoding:", f"{event.done} of {event.total} tokens")
        elif isinstance(event, PrefillFinished | BaselineFinished):
            progress.clear()
        elif isinstance(event, PlainRunProgress) and self._err.can_rewrite:
            progress.update("plain decoding first:", f"{event.done} of at most {event.total} tokens")


def _clean(text: str) -> str:
    return visible(text, "")


_MB = 10**6


def _amount(event: LoadProgress) -> str:
    if event.stage == "optimize":
        return "and measure its passes"
    if event.stage in ("convert", "quantize"):
        return f"{event.done} of {event.total or '?'} tensors"
    if event.total is None:
        return f"{event.done / _MB:.1f} MB"
    return f"{event.done / _MB:.1f} of {event.total / _MB:.1f} MB"
