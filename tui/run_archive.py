"""Rounds, tokens and text of a run that a replay did not fold: read from the file when they are looked at.

A line that cannot be read gives a round without tokens, or tokens without text; nothing here raises.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from engine.events import Origin, PlainStep, Round, TargetToken
from engine.recording_file import RecordingFile, RunPlace
from tui.run_changes import token_of, tokens_of
from tui.tape_frames import Events, Frames
from tui.view import OutputToken, ViewState

_ROUNDS_KEPT = 256
_CHUNKS_KEPT = 32
Step = Round | PlainStep
UNREADABLE = "this line of the recording is damaged"
"""Why a round has no tokens."""


class RunArchive:
    """The items of one run.

    Args:
        begun: the state just after the run began.
    """

    def __init__(
        self, events: Events, file: RecordingFile, frames: Frames, run: RunPlace, begun: ViewState
    ) -> None:
        self.run, self.begun = run, begun
        self._events, self._file, self._frames = events, file, frames
        self._run_ends = lru_cache(1)(self._ends)
        self._step = lru_cache(_ROUNDS_KEPT)(self._read)
        self._chunk = lru_cache(_CHUNKS_KEPT)(self._make_chunk)

    def chunks(self, steps: int) -> int:
        """How many chunks of text there are after so many rounds or plain steps."""
        return len(self.begun.text) + steps

    def round(self, index: int) -> Round:
        """A round of the run."""
        event = self._step(index)
        return event if isinstance(event, Round) else _unreadable(index)

    def text(self, patches: Mapping[int, str], index: int) -> str:
        """A chunk of the text; ``patches`` are those that grew when the run was resumed."""
        if index in patches:
            return patches[index]
        first = len(self.begun.text)
        if index < first:
            return self.begun.text[index]
        event = self._step(index - first)
        return "" if event is None else event.text

    def token(self, index: int) -> OutputToken:
        """A token of the answer."""
        if index < self.begun.given:
            return self.begun.output[index]
        lines = self._lines()
        at = bisect_right(lines, index, key=self._tokens_at)
        if at == len(lines):
            return _lost(index)
        return self._chunk(lines[at - 1] if at else None, lines[at]).token(index)

    def _lines(self) -> Sequence[int]:
        """The keyframes of the run, the tokens of each not fewer than of those before it."""
        lines = self._frames.lines(self.run.line, self._run_ends(self._file.lines))
        # A cut may withdraw tokens of earlier rounds; then the run ends.
        if len(lines) > 1 and self._tokens_at(lines[-1]) < self._tokens_at(lines[-2]):
            return lines[:-1]
        return lines

    def _ends(self, lines: int) -> int:
        """The line at which the next run begins; where none does, as many lines as there are."""
        following = (run.line for run in self._file.runs if run.line > self.run.line and not run.resumed)
        return next(following, lines)

    def _tokens_at(self, line: int) -> int:
        """Tokens of the answer at a keyframe."""
        fold = self._frames.fold(line)
        return 0 if fold is None else fold.tokens

    def _make_chunk(self, before: int | None, end: int) -> Chunk:
        begin = self.begun.fold if before is None else self._frames.fold(before)
        done = self._frames.fold(end)
        if begin is None or done is None:
            return Chunk(self._step, 0, 0, 0)
        return Chunk(self._step, begin.steps, done.steps, done.tokens)

    def _read(self, index: int) -> Round | PlainStep | None:
        at = self.run.first_step + index
        if at >= self._file.steps:
            return None
        event = self._events.event(self._file.line_of_step(at))
        return event if isinstance(event, Round | PlainStep) else None


class Chunk:
    """The tokens between two keyframes. They are looked up from the end, as far as they are asked for.

    Args:
        step: gives the run's rounds and plain steps.
        begin: rounds up to the first keyframe.
        end: rounds up to the second one.
        tokens: of the answer at the second one.
    """

    def __init__(self, step: Callable[[int], Step | None], begin: int, end: int, tokens: int) -> None:
        self._step, self._begin, self._next = step, begin, end
        self._first = tokens  # index of the first one that was looked up
        self._tokens: list[OutputToken] = []
        self._back = 0  # tokens of earlier rounds that were taken back

    def token(self, index: int) -> OutputToken:
        """The token of the answer at an index."""
        while index < self._first and self._next > self._begin:
            self._next -= 1
            event = self._step(self._next)
            if event is not None:
                self._prepend(event)
        at = index - self._first
        return self._tokens[at] if 0 <= at < len(self._tokens) else _lost(index)

    def _prepend(self, event: Step) -> None:
        if isinstance(event, Round):
            made = tokens_of(event, self._next)
        else:
            made = [token_of(event, self._first - 1)]
        withdrawn = min(self._back, len(made))
        self._back += event.taken_back - withdrawn
        made = made[: len(made) - withdrawn]
        self._tokens[:0] = made
        self._first -= len(made)


def _unreadable(index: int) -> Round:
    target = TargetToken(0, b"", Origin.BONUS, 0.0, None)
    return Round(
        *(0, 0, index + 1, 0, 0, 0, UNREADABLE, (), ((),), 0, target, (), "", None, 0, 0.0, 0.0, 0.0)
    )


def _lost(index: int) -> OutputToken:
    return OutputToken(0, b"\xef\xbf\xbd", Origin.PLAIN, -1, index)
