"""One conversation with a pair of models: load, generate, measure, cancel; everything is told as events.

torch is imported inside functions only, so that a screen can hold a ``Session`` before torch is there. Runs
are generators: the caller draws events from them at its own pace (not drawing pauses the engine), and the
time between two draws counts in no speed. One thread at a time; only ``cancel`` may be called from another
one.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.context import Message, messages_to
from engine.errors import DiskError, InvariantError, PromptTooLong, SpeculateError
from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    EndReason,
    Event,
    Failed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelInfo,
    Notice,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)
from engine.recording import Recorder
from engine.stats import Statistics

if TYPE_CHECKING:
    from engine.answer import Answer, Limits
    from engine.pair import Pair

Tell = Callable[[Event], None]

_RESERVE = 2048
"""Tokens the caches make room for at most before an answer begins; a longer one makes them grow."""
_REPORT_EVERY = 8
"""Plain steps between two progress events of the baseline."""


class Session:
    """A target, a drafter and their caches, kept over the turns of a conversation.

    Args:
        config: what to load and how to decode.
        recorder: gets every event from ``load`` on; if its disk fails, the run goes on without it.
    """

    def __init__(self, config: Config, recorder: Recorder | None = None) -> None:
        self.config = config
        self.recorder = recorder
        seed = config.sampling.seed
        self.seed = secrets.randbits(32) if seed is None else seed
        self.run_statistics = Statistics()
        self._pair: Pair | None = None
        self._seq = 0
        self._start_ns = time.monotonic_ns()
        self._cancelled = threading.Event()
        self._run = 0
        self._given: tuple[int, ...] = ()
        self._changed: Config | None = None
        self._held: list[int] = []  # ids whose keys and values the target's cache holds
        self._last: tuple[Answer, Settings] | None = None

    # -- loading

    def load(self, tell: Tell = lambda _: None) -> None:
        """Load target and drafter, check that they fit each other and the memory, warm up.

        Called again after ``config`` was exchanged it loads what differs. If that fails nothing stays loaded.

        Args:
            tell: called with LoadStarted, LoadProgress, LoadFinished and Notice events as they happen.

        Raises:
            UserError: a model is missing, not supported, or the vocabularies differ.
            ResourceError: memory, disk or network do not suffice.
            Cancelled: ``cancel`` was called.
        """
        from engine.pair import load_pair, map_torch_errors

        def record_and_tell(event: Event) -> None:
            for told in self._released(event):
                tell(told)

        self._cancelled.clear()
        with map_torch_errors():
            held, self._pair = (self._pair.models() if self._pair else {}), None
            self._held = []
            reporter = _LoadReporter(self._stamp, record_and_tell)
            self._pair = load_pair(self.config, reporter, self._cancelled.is_set, held)
            for key, text in self._pair.notices:
                record_and_tell(Notice(*self._stamp(), key, text))
            self._pair.warm_up(self.config.draft.num_draft_tokens)

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

    # -- running

    def generate(self, messages: Sequence[Message], given: Sequence[int] = ()) -> Iterator[Event]:
        """Answer the messages: RunStarted, SegmentStarted, PrefillProgress, ..., Round, ..., RunFinished.

        Args:
            given: ids the answer starts with: a run that is continued, or a branch.

        Raises:
            PromptTooLong: the prompt leaves no room for an answer.
            EngineError, ResourceError: the engine cannot go on; the session stays usable.
        """
        from engine.answer import Answer
        from engine.pair import map_torch_errors

        self._cancelled.clear()
        prompt = self._prompt(messages)
        settings = self.pair.settings(self.config, self.seed)
        answer = Answer([*prompt, *given], self.pair.target.text, self._limits(len(prompt) + len(given)))
        self._given = tuple(given)
        self._changed = None
        self._run += 1
        self.run_statistics = Statistics()
        self._last = (answer, settings)
        try:
            with map_torch_errors():
                yield from self._write_header(messages)
                for event in self._generate(answer, settings):
                    yield from self._released(event)
        finally:
            # Whatever happened, the cache keeps the committed tokens and nothing else.
            self._rewind(answer)

    def _generate(self, answer: Answer, settings: Settings) -> Iterator[Event]:
        pair, limits = self.pair, answer.limits
        max_rounds = self.config.resolved_limits()[1]
        prompt = answer.tokens[: len(answer.tokens) - len(self._given)]
        reused = pair.rewind(self._held, answer.tokens)
        pair.reserve(len(answer.tokens) + self._expected(max_rounds))
        yield RunStarted(
            *self._stamp(),
            run=self._run,
            mode="speculative",
            prompt=tuple(prompt),
            prompt_pieces=tuple(map(pair.target.text.piece, prompt)),
            reused=reused,
            max_new_tokens=limits.max_new_tokens,
            max_rounds=max_rounds,
            stop=limits.stop,
            given=self._given,
            given_pieces=tuple(map(pair.target.text.piece, self._given)),
        )
        yield SegmentStarted(*self._stamp(), 1, settings)
        speculator = pair.speculator(settings, 1, self._stamp)

        prefill_ms = 0.0
        total = pair.prefill_cost(answer.tokens)
        chunks = pair.prefill(answer.tokens)
        while True:
            start = time.perf_counter()
            done = None if self._cancelled.is_set() else next(chunks, None)
            prefill_ms += (time.perf_counter() - start) * 1e3
            if done is None:
                break
            yield PrefillProgress(*self._stamp(), done, total)
        ready = not self._cancelled.is_set()
        if ready:
            yield PrefillFinished(*self._stamp(), prefill_ms)

        reason = None if ready else EndReason.CANCELLED
        decode_ms, first_ms, number, told_off = 0.0, None, 0, False
        while reason is None:
            number += 1
            if self._changed is not None:
                self.config, self._changed = self._changed, None
                settings = pair.settings(self.config, self.seed)
                self._last = (answer, settings)
                speculator = pair.speculator(settings, speculator.settings_id + 1, self._stamp)
                pair.drafter.reserve(len(answer.tokens) + self._expected(max_rounds))
                yield SegmentStarted(*self._stamp(), speculator.settings_id, settings)
            round_ = speculator.round(answer, number)
            decode_ms += round_.ms
            first_ms = round_.ms if first_ms is None else first_ms
            self.run_statistics.add(round_)
            yield round_
            if not round_.drafts and round_.k_reason.startswith(("the drafter", "drafter")) and not told_off:
                told_off = True
                yield Notice(*self._stamp(), "speculation_off", f"speculation is off: {round_.k_reason}")
            reason = self._end(round_, number, max_rounds)
        yield self._finished(answer, reason, prefill_ms, first_ms, decode_ms)

    def _end(self, round_: Round, number: int, max_rounds: int | None) -> EndReason | None:
        if round_.cut:
            return round_.cut
        if number == max_rounds:
            return EndReason.ROUNDS
        return EndReason.CANCELLED if self._cancelled.is_set() else None

    def _finished(
        self, answer: Answer, reason: EndReason, prefill_ms: float, first_ms: float | None, decode_ms: float
    ) -> RunFinished:
        finished = RunFinished(
            *self._stamp(),
            reason=reason,
            text=answer.finish(stopped=reason is EndReason.STOP),
            tokens=len(answer.new_tokens),
            prefill_ms=prefill_ms,
            ttft_ms=None if first_ms is None else prefill_ms + first_ms,
            decode_ms=decode_ms,
        )
        self.run_statistics.set_run(finished)
        return finished

    def baseline(self) -> Iterator[Event]:
        """Time plain decoding of the last run's prompt to the same length: warm, alone, prefill apart.

        Yields BaselineStarted, BaselineProgress, BaselineFinished; nothing if the last run has no token. End
        of sequence and stop strings are ignored, so that the lengths agree; the last run's text is not
        touched.
        """
        from engine.answer import Answer, Limits
        from engine.pair import map_torch_errors

        if self._last is None or not self._last[0].new_tokens:
            return
        self._cancelled.clear()
        spoken, settings = self._last
        wanted = len(spoken.new_tokens)
        prompt = spoken.tokens[: spoken.prompt_length]
        plain = Answer(prompt, self.pair.target.text, Limits(wanted, spoken.limits.context_length))
        try:
            with map_torch_errors():
                for event in self._baseline(plain, spoken.new_tokens, settings):
                    yield from self._released(event)
        finally:
            self._rewind(plain)

    def _baseline(self, plain: Answer, ids: list[int], settings: Settings) -> Iterator[Event]:
        pair, wanted = self.pair, len(ids)
        pair.rewind(self._held, plain.tokens)
        yield BaselineStarted(*self._stamp(), wanted)
        start = time.perf_counter()
        for _ in pair.prefill_target(plain.tokens):  # nothing to do unless the context changed meanwhile
            pass
        prefill_ms = (time.perf_counter() - start) * 1e3
        decoder = pair.plain_decoder(settings, self._stamp)
        decode_ms = 0.0
        for number in range(1, wanted + 1):
            if self._cancelled.is_set():
                break
            step = decoder.step(plain, number)
            decode_ms += step.verify_ms + step.host_ms
            if number % _REPORT_EVERY == 0 and number < wanted:
                yield BaselineProgress(*self._stamp(), number, wanted)
        done = plain.new_tokens
        complete = len(done) == wanted
        differing = (at for at, (a, b) in enumerate(zip(done, ids, strict=False)) if a != b)
        first_difference = next(differing, None) if settings.temperature == 0 else None
        finished = BaselineFinished(
            *self._stamp(),
            tokens=len(done),
            ids=tuple(done),
            decode_ms=decode_ms,
            prefill_ms=prefill_ms,
            identical=done == ids if settings.temperature == 0 and complete else None,
            first_difference=first_difference,
            complete=complete,
        )
        self.run_statistics.set_baseline(finished)
        yield finished

    def change(self, config: Config) -> None:
        """Decode with these settings from the next round on, as a new segment; ``load`` loads models."""
        if config.sampling.seed is not None:
            self.seed = config.sampling.seed
        self._changed = config

    def prompt_tokens(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        """What the target would read: ids and their bytes."""
        prompt = self._prompt(messages)
        return tuple(prompt), tuple(map(self.pair.target.text.piece, prompt))

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text that goes on from what stands before it."""
        return tuple(self.pair.target.text.encode_more(text))

    def cancel(self) -> None:
        """End the work in progress at the next commit, prefill chunk or bit of a download. Any thread may."""
        self._cancelled.set()

    def record(self, recorder: Recorder | None) -> None:
        """Record from the next run on, or stop; a recording in progress ends."""
        if self.recorder:
            self.recorder.close()
        self.recorder = recorder

    def eject(self) -> None:
        """Free the models; ``load`` brings them back."""
        self._pair = None
        self._last = None
        self._held = []

    def close(self) -> None:
        """Free the models and end the recording."""
        self.eject()
        self.record(None)

    # -- telling

    def failure(self, error: SpeculateError) -> Failed:
        """The event that tells of an error, recorded like the others."""
        failed = Failed(*self._stamp(), type(error).__name__, error.message, error.hint)
        return next(e for e in self._released(failed) if isinstance(e, Failed))

    def statistics(self) -> dict[str, Any]:
        """The machine-readable measures of the last run."""
        return self.run_statistics.as_dict()

    def header(self) -> dict[str, Any]:
        """What a recording says before its first event: versions, models, machine, seed, configuration."""
        return {**self.pair.describe(), "seed": self.seed, "config": self.config.model_dump(mode="json")}

    def _write_header(self, messages: Sequence[Message]) -> Iterator[Event]:
        def write(recorder: Recorder) -> None:
            if not recorder.has_header:
                recorder.write_header({**self.header(), "context": messages_to(messages)})

        yield from self._record(write)

    def _released(self, event: Event) -> Iterator[Event]:
        """The event, recorded; and a notice if that failed."""
        failure = list(self._record(lambda recorder: recorder.write(event)))
        yield event
        yield from failure

    def _record(self, write: Callable[[Recorder], None]) -> Iterator[Event]:
        """Let the recorder write; gives a notice if its disk fails, once, and the run goes on without it."""
        if self.recorder is None or self.recorder.closed:
            return
        try:
            write(self.recorder)
        except DiskError as error:
            yield Notice(*self._stamp(), "recording_stopped", f"the recording ends here: {error}")

    def _stamp(self) -> tuple[int, int]:
        self._seq += 1
        return self._seq, time.monotonic_ns() - self._start_ns

    # -- the pieces of a run

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        text, run = self.pair.target.text, self.config.run
        raw = run.template == "raw"
        prompt = text.encode_raw(messages) if raw else text.encode_chat(messages, run.thinking)
        limit = self.pair.target.context_length
        if len(prompt) >= limit:
            raise PromptTooLong(
                f"the prompt has {len(prompt)} tokens; {self.pair.target.info.name} reads {limit} at most",
                hint="shorten the context",
            )
        return prompt

    def _limits(self, prompt_length: int) -> Limits:
        from engine.answer import Limits

        target, run = self.pair.target, self.config.run
        room = target.context_length - prompt_length
        wanted = self.config.resolved_limits()[0]
        return Limits(
            max_new_tokens=room if wanted is None else wanted,
            context_length=target.context_length,
            eos_ids=frozenset() if run.ignore_eos else target.eos_ids,
            stop=tuple(run.stop),
        )

    def _expected(self, max_rounds: int | None) -> int:
        """Tokens the caches should have room for after the prompt, the drafts of the last round included."""
        width = self.config.draft.num_draft_tokens + 1
        max_new_tokens = self.config.resolved_limits()[0]
        limits = (max_new_tokens, max_rounds and max_rounds * width)
        return min(_RESERVE, *(limit for limit in limits if limit)) + width

    def _rewind(self, answer: Answer) -> None:
        if self._pair is not None:
            self._pair.cache.truncate(len(answer.tokens) - 1)
            self._held = answer.tokens[: len(self._pair.cache)]


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
