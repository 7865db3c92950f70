"""One conversation with a pair of models: load, generate, measure, cancel; everything is told as events.

torch is imported inside functions only, so that a screen can hold a ``Session`` before torch is there. Runs
are generators: the caller draws events from them at its own pace (not drawing pauses the engine), and the
time between two draws counts in no speed. One thread at a time; only ``cancel`` may be called from another
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.adaptive import OFF
from engine.config import Config
from engine.context import Message
from engine.events import EndReason, Event, Notice, SegmentStarted, Settings
from engine.session_measures import SessionMeasures

if TYPE_CHECKING:
    from engine.answer import Answer

_TURNED_OFF = ("the drafter", "drafter", OFF)
"""How reasons begin for which a run goes on without drafts, for good or for the time being."""


class Session(SessionMeasures):
    """A target, a drafter and their caches, kept over the turns of a conversation.

    Args:
        config: what to load and how to decode.
        recorder: gets every event from ``load`` on; if its disk fails, the run goes on without it.
    """

    # -- running

    def generate(
        self, messages: Sequence[Message], given: Sequence[int] = (), *, resumed: bool = False
    ) -> Iterator[Event]:
        """Answer the messages: RunStarted, SegmentStarted, PrefillProgress, ..., Round, ..., RunFinished.

        Args:
            given: ids the answer starts with: a run that is continued, or a branch. If the last one ends a
                sequence, the answer ends at once.
            resumed: the last run goes on, with other models; ``given`` is all it has written. It keeps its
                number, and counts its rounds and tokens on.

        Raises:
            InvariantError: nothing is loaded, or the run was left and another one has begun.
            ContextError: the messages cannot be made a prompt.
            PromptTooLong: the prompt and the given ids leave no room for an answer.
            EngineError, ResourceError: the engine cannot go on; the session stays usable.
        """
        answer, settings = self._begin(messages, tuple(given), resumed=resumed)
        yield from self._told(messages, answer, self._generate(answer, settings, resumed=resumed))

    def plain(self, messages: Sequence[Message]) -> Iterator[Event]:
        """Answer the messages by plain decoding: RunStarted, ..., PlainStep, ..., RunFinished.

        The same law, seed, draws and limits as ``generate``; where rounds are limited, a step counts as one.
        The drafter neither reads the prompt nor drafts.

        Raises:
            InvariantError, ContextError, PromptTooLong, EngineError, ResourceError: as ``generate``.
        """
        answer, settings = self._begin(messages)
        yield from self._told(messages, answer, self._plain(answer, settings))

    def _plain(self, answer: Answer, settings: Settings) -> Iterator[Event]:
        pair, run = self.pair, self._run
        max_rounds = self.config.resolved_limits()[1]
        yield self._started(answer, max_rounds, mode="plain")
        run.settings_id += 1
        yield SegmentStarted(*self._stamp(), run.settings_id, settings)
        decoder = pair.plain_decoder(settings, self._stamp)
        cost = len(answer.tokens) - 1 - len(pair.cache)
        yield from self._prefill(cost, pair.prefill_target(answer.tokens))
        reason = EndReason.CANCELLED if self._cancelled.is_set() else None
        number = 0
        while reason is None:
            number += 1
            length = len(answer.tokens)
            step = decoder.step(answer, number)
            run.decode_ms += step.ms
            run.first_ms = step.ms if run.first_ms is None else run.first_ms
            self.run_statistics.add_step(step, kept=len(answer.tokens) > length)
            yield step
            reason = self._end(step, max_rounds)
        yield self._finished(answer, reason)

    def _generate(self, answer: Answer, settings: Settings, *, resumed: bool) -> Iterator[Event]:
        pair, run = self.pair, self._run
        max_rounds = self.config.resolved_limits()[1]
        yield self._started(answer, max_rounds, resumed=resumed)
        run.settings_id += 1
        yield SegmentStarted(*self._stamp(), run.settings_id, settings)
        chooser = self._chooser_of(settings)
        chooser.begin()
        speculator = pair.speculator(settings, run.settings_id, self._stamp, chooser)
        reason = EndReason.EOS if run.given and run.given[-1] in answer.limits.eos_ids else None
        if reason is None:
            yield from self._prefill(pair.prefill_cost(answer.tokens), pair.prefill(answer.tokens))
            yield from self._foretell(answer, settings, max_rounds)
            yield from self._calibrate(answer, settings)
            reason = EndReason.CANCELLED if self._cancelled.is_set() else None
        told_off = False
        while reason is None:
            run.rounds += 1
            if self._changed is not None:
                self.config, self._changed = self._changed, None
                settings = pair.settings(self.config, self.seed)
                self._last = (answer, settings)
                run.texts.add(pair.text_key(settings))
                run.settings_id += 1
                chooser = self._chooser_of(settings)
                speculator = pair.speculator(settings, run.settings_id, self._stamp, chooser)
                pair.drafter.reserve(len(answer.tokens) + self._expected(max_rounds))
                yield SegmentStarted(*self._stamp(), run.settings_id, settings)
                yield from self._foretell(answer, settings, max_rounds)
            yield from self._calibrate(answer, settings)
            chooser.calibrated(self._drift.costs)
            newest = answer.tokens[-1]
            round_ = speculator.round(answer, run.rounds)
            run.decode_ms += round_.ms
            run.first_ms = round_.ms if run.first_ms is None else run.first_ms
            self.run_statistics.add(round_)
            self._drift.add(round_)
            if None not in run.texts:
                run.passes.add(round_.context_length - 1, [newest, *(draft.id for draft in round_.drafts)])
            yield round_
            if not round_.drafts and round_.k_reason.startswith(_TURNED_OFF) and not told_off:
                told_off = True
                why = round_.k_reason.removeprefix(f"{OFF}, ")
                yield Notice(*self._stamp(), "speculation_off", f"speculation is off: {why}")
            reason = self._end(round_, max_rounds)
        yield self._finished(answer, reason)

    def change(self, config: Config) -> None:
        """Decode with these settings: a run in progress from its next round on, as a new segment, else the
        next run. Models that they name are loaded by ``load`` only.

        Raises ConfigError or ModelUnsupported where they do not go together with what the target's own
        generation_config says; nothing is changed then.
        """
        asked = (config.verify.model_name, config.draft.method)
        held = (self.config.verify.model_name, self.config.draft.method)
        if self._pair is not None and asked == held:  # others are judged when they are loaded
            self._pair.settings(config, self.seed)
        if config.sampling.seed is not None:
            self.seed = config.sampling.seed
        if self._current is None:
            self.config, self._changed = config, None
        else:
            self._changed = config

    def prompt_tokens(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        """What the target would read: ids and their bytes.

        Raises:
            InvariantError: nothing is loaded.
            ContextError: the messages cannot be made a prompt.
            PromptTooLong: the prompt leaves no room for an answer.
        """
        prompt = self._prompt(messages)
        return tuple(prompt), tuple(map(self.pair.target.text.piece, prompt))

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text that goes on from what stands before it. Raises InvariantError without a model."""
        return tuple(self.pair.target.text.encode_more(text))

    def cancel(self) -> None:
        """End the work in progress at the next commit, prefill chunk, plain step or bit of a download. Any
        thread may. Work that begins later forgets it."""
        self._cancelled.set()
