"""What a session holds and tells: models on their way in and out, the recorder, stamps and notices."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.context import Message, messages_to
from engine.errors import DiskError, InvariantError, SpeculateError
from engine.events import (
    Event,
    Failed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelInfo,
    Notice,
    Settings,
)
from engine.recording import Recorder
from engine.stats import Statistics

if TYPE_CHECKING:
    from engine.answer import Answer
    from engine.models.causal_lm import CausalLM
    from engine.models.optimize import Optimize
    from engine.pair import Pair

Tell = Callable[[Event], None]


class SessionCore:
    """The models and the recorder of a session.

    Args:
        config: what to load and how to decode.
        recorder: gets every event from ``load`` on; if its disk fails, the run goes on without it.
    """

    def __init__(self, config: Config, recorder: Recorder | None = None) -> None:
        self.config = config
        self.recorder = recorder
        self.ways: dict[str, Optimize] = {}
        """By role, how passes run that do not run as ``run.optimize`` says."""
        self.shared_target: CausalLM | None = None
        """Held by another session; ``load`` takes it where it is what the configuration names. The two must
        not run at the same time."""
        self.shared_drafter: CausalLM | None = None
        """As ``shared_target``."""
        seed = config.sampling.seed
        self.seed = secrets.randbits(32) if seed is None else seed
        self.run_statistics = Statistics()
        self._pair: Pair | None = None
        self._seq = 0
        self._start_ns = time.monotonic_ns()
        self._cancelled = threading.Event()
        self._recording = True  # what is told now is recorded, if there is a recorder
        self._held: list[int] = []  # ids whose keys and values the target's cache holds
        self._last: tuple[Answer, Settings] | None = None
        self._current: Answer | None = None  # the one that the target's cache follows now

    # -- loading

    def load(self, tell: Tell = lambda _: None) -> None:
        """Load target and drafter, check that they fit each other and the memory, warm up.

        Called again after ``config`` was exchanged it loads what differs. The models that are held go when
        the others are found, fetched and known to have room: if it fails before, all of them stay, after that
        none does (``held`` tells).

        Args:
            tell: called with LoadStarted, LoadProgress, LoadFinished and Notice events as they happen.

        Raises:
            UserError: a model is missing, not supported, or the vocabularies differ.
            ResourceError: memory, disk or network do not suffice.
            Cancelled: ``cancel`` was called.
        """
        self._cancelled.clear()
        from engine.pair import load_pair, map_torch_errors
        from engine.preparing import prepare

        def record_and_tell(event: Event) -> None:
            for told in self._released(event):
                tell(told)

        with map_torch_errors():
            reporter = _LoadReporter(self._stamp, record_and_tell)
            held = self._pair.models() if self._pair else {}
            if self.shared_target is not None:
                held.setdefault("target", self.shared_target)
            if self.shared_drafter is not None:
                held.setdefault("drafter", self.shared_drafter)
            prepared = prepare(self.config, reporter, self._cancelled.is_set, held)
            held.clear()
            self.eject()
            self._pair = load_pair(self.config, reporter, self._cancelled.is_set, prepared, self.ways)
            self._pair.warm_up(self.config.draft.most_drafts)
            for key, text in self._pair.notices:
                record_and_tell(Notice(*self._stamp(), key, text))

    @property
    def pair(self) -> Pair:
        """The loaded models; ``load`` comes first."""
        if self._pair is None:
            raise InvariantError("the session's models are not loaded yet")
        return self._pair

    @property
    def held(self) -> tuple[ModelInfo | None, ModelInfo | None]:
        """Target and drafter model that are in memory."""
        if self._pair is None:
            return None, None
        return self._pair.target.info, self._pair.drafter.model_info

    def eject(self) -> None:
        """Free the models; ``load`` brings them back."""
        self._pair = self._last = self._current = None
        self._held = []

    def close(self) -> None:
        """Free the models and end the recording."""
        self.eject()
        self.record(None)

    def record(self, recorder: Recorder | None) -> None:
        """Record from the next run on, or stop; a recording in progress ends."""
        if self.recorder:
            self.recorder.close()
        self.recorder = recorder

    # -- telling

    def failure(self, error: SpeculateError) -> Failed:
        """The event that tells of an error, recorded like the others."""
        failed = Failed(*self._stamp(), type(error).__name__, error.message, error.hint)
        return next(e for e in self._released(failed) if isinstance(e, Failed))

    def header(self) -> dict[str, Any]:
        """What a recording says before its first event: versions, models, machine, seed, configuration."""
        return {**self.pair.describe(), "seed": self.seed, "config": self.config.model_dump(mode="json")}

    def _write_header(self, messages: Sequence[Message]) -> Iterator[Event]:
        def write(recorder: Recorder) -> None:
            if not recorder.has_header:
                now = datetime.now(UTC).isoformat(timespec="seconds")
                recorder.write_header({**self.header(), "recorded": now, "context": messages_to(messages)})

        yield from self._record(write)

    def _released(self, event: Event) -> Iterator[Event]:
        """The event, recorded; and a notice if that failed."""
        failure = list(self._record(lambda recorder: recorder.write(event)))
        yield event
        yield from failure

    def _record(self, write: Callable[[Recorder], None]) -> Iterator[Event]:
        """Let the recorder write; gives a notice if its disk fails, once, and the run goes on without it."""
        if not self._recording or self.recorder is None or self.recorder.closed:
            return
        try:
            write(self.recorder)
        except DiskError as error:
            yield Notice(*self._stamp(), "recording_stopped", f"the recording ends here: {error}")

    def _stamp(self) -> tuple[int, int]:
        self._seq += 1
        return self._seq, time.monotonic_ns() - self._start_ns


class _LoadReporter:
    """Turns the progress of loading into events."""

    def __init__(self, stamp: Callable[[], tuple[int, int]], tell: Tell) -> None:
        self._stamp, self._tell = stamp, tell
        self._started: dict[str, float] = {}

    def started(self, role: str, name: str) -> None:
        self._started[role] = time.perf_counter()
        self._tell(LoadStarted(*self._stamp(), role, name))

    def progress(self, role: str, stage: str, done: int, total: int | None) -> None:
        self._tell(LoadProgress(*self._stamp(), role, stage, done, total))

    def finished(self, role: str, info: ModelInfo) -> None:
        ms = (time.perf_counter() - self._started[role]) * 1e3
        self._tell(LoadFinished(*self._stamp(), role, info, ms))
