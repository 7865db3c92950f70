"""The app's state at any line of a recording, from the keyframe before it.

Rounds and plain steps between a run's beginning and the keyframe are left out; all other events are folded.
What the left out ones would have added is in the keyframe, as counts, and in the file, as archived items.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from engine.events import PlainStep, Round, RunStarted
from engine.recording_file import RecordingFile, RunPlace
from engine.run_fold import RunFold
from tui.run_archive import RunArchive
from tui.run_changes import going_on, without_run
from tui.state import reduce
from tui.tape_frames import Events, Frames
from tui.trail import Trail
from tui.view import ViewState

_TURN = 8
"""Events that are folded in one bit of work."""
_KEEP_EVERY = 16
"""Runs from one state that is kept to the next."""
Work = Generator[None, None, ViewState]
"""Yields once for each bit of the work; returns the state it came to."""


class StateWalk:
    """Walks to a line.

    Args:
        beginning: the state before the first event.
    """

    def __init__(self, events: Events, file: RecordingFile, beginning: ViewState) -> None:
        self._events, self._file = events, file
        self._frames = Frames(file)
        self._beginning = beginning
        self._kept: dict[int, ViewState] = {}  # the state before some of the runs, without the runs before
        self._archive: tuple[int, RunArchive] | None = None  # of the run that was asked for last

    def state_at(self, line: int) -> Iterator[ViewState | None]:
        """The state before a line, last; before it None, once for each bit of the work."""
        work = self._work(line)
        while True:
            try:
                yield next(work)
            except StopIteration as end:
                yield end.value
                return

    def _work(self, line: int) -> Work:
        places = [place for place in self._file.runs if place.line < line]
        starts = [at for at, place in enumerate(places) if not place.resumed]
        if not starts:
            return (yield from self._fold(self._beginning, range(line)))
        state = yield from self._begun([places[at] for at in starts])
        parts = places[starts[-1] :]
        archive, patches = self._archive_of(parts[0], state), dict[int, str]()
        for part, following in zip(parts, [*(place.line for place in parts[1:]), line], strict=True):
            if part.resumed:
                state = self._after(state, part.line)
                if state.text:  # its last chunk may have grown
                    patches = {**patches, len(state.text) - 1: state.text[-1]}
            text = partial(archive.text, patches)
            state = yield from self._walk(state, archive, text, part.line + 1, following)
        return state

    def _begun(self, runs: Sequence[RunPlace]) -> Work:
        """The state just after the last of these runs began."""
        last = len(runs) - 1
        at = max((known for known in self._kept if known <= last), default=-1)
        state = self._kept[at] if at >= 0 else self._beginning
        for number in range(at, last):
            first = 0
            if number >= 0:
                state, first = self._after(state, runs[number].line), runs[number].line + 1
            state = yield from self._fold(state, self._file.others(first, runs[number + 1].line))
            state = without_run(state) if number >= 0 else state
            if not (number + 1) % _KEEP_EVERY:
                self._kept[number + 1] = state
            yield
        return self._after(state, runs[-1].line)

    def _archive_of(self, run: RunPlace, begun: ViewState) -> RunArchive:
        if self._archive is None or self._archive[0] != run.line:
            self._archive = run.line, RunArchive(self._events, self._file, self._frames, run, begun)
        return self._archive[1]

    def _walk(
        self, state: ViewState, archive: RunArchive, text: Callable[[int], str], start: int, end: int
    ) -> Work:
        """From a line of a run to another one, in which it is not resumed."""
        found = self._frames.before(archive.run, archive.begun.fold, start, end)
        if found is not None:
            line, fold = found
            state = yield from self._fold(state, self._file.others(start, line))
            state, start = _at_keyframe(state, fold, archive, text), line + 1
        return (yield from self._fold(state, range(start, end), keep=True))

    def _fold(self, state: ViewState, lines: Sequence[int], *, keep: bool = False) -> Work:
        for count, line in enumerate(lines, 1):
            event = self._events.event(line)
            if event is not None:
                state = reduce(state, event)
                if keep and isinstance(event, Round | PlainStep):
                    self._frames.keep(line, state.fold)
            if not count % _TURN:
                yield
        return state

    def _after(self, state: ViewState, line: int) -> ViewState:
        event = self._events.event(line)
        return state if not isinstance(event, RunStarted) else reduce(state, event)


def _at_keyframe(
    state: ViewState, fold: RunFold, archive: RunArchive, text: Callable[[int], str]
) -> ViewState:
    """The state behind the rounds that the keyframe stands for."""
    state = replace(
        state,
        fold=fold.compared_with(state.reference),
        rounds=Trail.after(fold.rounds, archive.round),
        output=Trail.after(fold.tokens, archive.token),
        text=Trail.after(archive.chunks(fold.steps), text),
    )
    return replace(state, phase=going_on(state))
