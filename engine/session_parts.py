"""The parts that the runs of a session are made of: the prompt, the limits, and whom the cache follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.adaptive import LengthChooser, chooser_for
from engine.config import Config
from engine.context import Message
from engine.errors import InvariantError, NumericalError, PromptTooLong
from engine.events import (
    EndReason,
    Event,
    PlainRunProgress,
    PlainStep,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    Settings,
)
from engine.passes import Passes
from engine.recording import Recorder
from engine.session_core import SessionCore
from engine.stats import Statistics

if TYPE_CHECKING:
    from engine.answer import Answer, Limits

REPORT_EVERY = 8
"""Plain steps between two progress events."""
_RESERVE = 2048
"""Tokens the caches make room for at most before an answer begins; a longer one makes them grow."""


@dataclass(slots=True)
class RunSoFar:
    """What a run has come to; it goes on counting when the run is resumed."""

    number: int = 0
    given: tuple[int, ...] = ()
    """Ids its answer starts with now, and, at first, those it began with."""
    began_with: int = 0
    """How many ids were given when it began."""
    prompt_length: int = 0
    messages: tuple[Message, ...] = ()
    settings_id: int = 0
    rounds: int = 0
    prefill_ms: float = 0.0
    first_ms: float | None = None
    decode_ms: float = 0.0
    drifted: bool = False
    """Whether its costs were measured again as they had drifted, which is done once."""
    texts: set[object] = field(default_factory=set)
    """What fixed the text of each of its segments, as ``Pair.text_key`` gives it."""
    passes: Passes = field(default_factory=Passes)
    """What its rounds fed the target, where its text is to be that of plain decoding."""

    @property
    def written(self) -> int:
        """Tokens that earlier parts of the run wrote."""
        return len(self.given) - self.began_with


class SessionParts(SessionCore):
    """What a run needs of its session."""

    def __init__(self, config: Config, recorder: Recorder | None = None) -> None:
        super().__init__(config, recorder)
        self._changed: Config | None = None
        self._run = RunSoFar()
        self._lengths: tuple[Settings, LengthChooser] | None = None  # who chooses K, and for which settings

    def eject(self) -> None:
        super().eject()
        self._lengths = None

    def _chooser_of(self, settings: Settings) -> LengthChooser:
        """Who chooses K: the one who learnt from the rounds before, while drafter and law are the same."""
        kind = replace(settings, seed=0)
        if self._lengths is None or self._lengths[0] != kind:
            self._lengths = kind, chooser_for(settings)
        return self._lengths[1]

    def _prompt(self, messages: Sequence[Message], given: int = 0) -> list[int]:
        text, run = self.pair.target.text, self.config.run
        raw = run.template == "raw"
        prompt = text.encode_raw(messages) if raw else text.encode_chat(messages, run.thinking)
        limit = self.pair.target.context_length
        if len(prompt) + given >= limit:
            begun = f" and the answer begins with {given} more" if given else ""
            name = self.pair.target.info.name
            raise PromptTooLong(
                f"the prompt has {len(prompt)} tokens{begun}; {name} reads {limit} at most",
                hint="shorten the context",
            )
        return prompt

    def _limits(self, prompt_length: int) -> Limits:
        from engine.answer import Limits

        target, run = self.pair.target, self.config.run
        room = target.context_length - prompt_length
        wanted = self.config.resolved_limits()[0]
        return Limits(
            max_new_tokens=room if wanted is None else max(1, wanted - self._run.written),
            context_length=target.context_length,
            eos_ids=frozenset() if run.ignore_eos else target.eos_ids,
            stop=tuple(run.stop),
        )

    def _expected(self, max_rounds: int | None) -> int:
        """Tokens the caches should have room for after the prompt, the drafts of the last round included."""
        width = self.config.draft.most_drafts + 1
        max_new_tokens = self.config.resolved_limits()[0]
        limits = (max_new_tokens, max_rounds and max_rounds * width)
        return min(_RESERVE, *(limit for limit in limits if limit)) + width

    @contextmanager
    def _following(self, answer: Answer) -> Iterator[None]:
        """The target's cache follows this answer, until it ends or another one begins.

        Whatever happens, the cache then keeps the committed tokens and nothing else.
        """
        from engine.pair import map_torch_errors

        if self._current is not None:  # a run that was left without being closed
            self._rewind(self._current)
        self._current = answer
        try:
            with map_torch_errors():
                yield
        except NumericalError:
            self.forget()  # a NaN in the keys would reach later passes from behind their mask
            raise
        finally:
            if self._current is answer:
                self._rewind(answer)
                self._current = None

    def _check_follows(self, answer: Answer) -> None:
        if self._current is not answer:
            raise InvariantError("this run was left: another one has begun, or its models went")

    def _rewind(self, answer: Answer) -> None:
        if self._pair is not None:
            self._pair.cache.truncate(len(answer.tokens) - 1)
            self._held = answer.tokens[: len(self._pair.cache)]

    # -- what all runs have in common

    def _begin(
        self, messages: Sequence[Message], given: tuple[int, ...] = (), *, resumed: bool = False
    ) -> tuple[Answer, Settings]:
        """The answer that a run is to write, and what it is decoded with; it is the last run from now on."""
        from engine.answer import Answer

        self._cancelled.clear()
        prompt = self._prompt(messages, len(given))
        self._apply_change()
        settings = self.pair.settings(self.config, self.seed)
        if resumed:
            self._run.given = given
        else:
            self._run = RunSoFar(self._run.number + 1, given, len(given))
            self.run_statistics = Statistics()
        self._run.prompt_length, self._run.messages = len(prompt), tuple(messages)
        self._run.texts.add(self.pair.text_key(settings))
        answer = Answer([*prompt, *given], self.pair.target.text, self._limits(len(prompt) + len(given)))
        self._last = (answer, settings)
        return answer, settings

    def _apply_change(self) -> None:
        """Take over what was changed after the last round of the run before."""
        if self._changed is not None:
            self.config, self._changed = self._changed, None

    def _told(self, messages: Sequence[Message], answer: Answer, events: Iterator[Event]) -> Iterator[Event]:
        """The events of a run, recorded, while the target's cache follows its answer."""
        with self._following(answer):
            yield from self._write_header(messages)
            for event in events:
                yield from self._released(event)
                self._check_follows(answer)

    def _started(
        self, answer: Answer, max_rounds: int | None, *, mode: str = "speculative", resumed: bool = False
    ) -> RunStarted:
        """Make the caches ready, and tell of the run."""
        pair, run, limits = self.pair, self._run, answer.limits
        prompt = answer.tokens[: run.prompt_length]
        given_text = answer.begin_after(run.given)
        reused = pair.rewind(self._held, answer.tokens)
        pair.reserve(len(answer.tokens) + self._expected(max_rounds))
        return RunStarted(
            *self._stamp(),
            run=run.number,
            mode=mode,
            prompt=tuple(prompt),
            prompt_pieces=tuple(map(pair.target.text.piece, prompt)),
            reused=min(reused, len(prompt)),
            max_new_tokens=limits.max_new_tokens + run.written,
            max_rounds=max_rounds,
            stop=limits.stop,
            given=run.given,
            given_pieces=tuple(map(pair.target.text.piece, run.given)),
            given_text=given_text,
            resumed=resumed,
            messages=run.messages,
            ignore_eos=self.config.run.ignore_eos,
        )

    def _prefill(self, total: int, chunks: Iterator[int]) -> Iterator[Event]:
        """Take in the prompt chunk by chunk, ``total`` tokens in all, unless it is cancelled."""
        ms = 0.0
        while not self._cancelled.is_set():
            start = time.perf_counter()
            done = next(chunks, None)
            ms += (time.perf_counter() - start) * 1e3
            if done is None:
                break
            yield PrefillProgress(*self._stamp(), done, total)
        self._run.prefill_ms += ms
        if not self._cancelled.is_set():
            yield PrefillFinished(*self._stamp(), ms)

    def _foretell(self, answer: Answer, settings: Settings, max_rounds: int | None) -> Iterator[Event]:
        """Have plain decoding write the rest first, for a drafter that is to know it; no clock runs."""
        from engine.answer import Answer, Limits

        pair, run = self.pair, self._run
        if not pair.drafter.needs_plain_run or self._cancelled.is_set():
            return
        left = answer.budget
        if max_rounds is not None:
            left = min(left, (max_rounds - run.rounds + 1) * (settings.num_draft_tokens + 1))
        own = answer.limits
        known = Answer(
            answer.tokens, pair.target.text, Limits(left, own.context_length, own.eos_ids, own.stop)
        )
        decoder, ids = pair.plain_decoder(settings, self._stamp), list[int]()
        while len(ids) < left and not self._cancelled.is_set():
            step = decoder.step(known, len(ids) + 1)
            ids.append(step.id)  # those of a stop string too, which the rounds have to write as well
            if step.cut:
                break
            if len(ids) % REPORT_EVERY == 0:
                yield PlainRunProgress(*self._stamp(), len(ids), left)
        pair.cache.truncate(len(answer.tokens) - 1)
        pair.drafter.foretell([*answer.tokens, *ids])

    def _end(self, step: Round | PlainStep, max_rounds: int | None) -> EndReason | None:
        """Why the answer ends after a round or a plain step; None while it goes on."""
        if step.cut:
            return step.cut
        if max_rounds is not None and step.number >= max_rounds:
            return EndReason.ROUNDS
        return EndReason.CANCELLED if self._cancelled.is_set() else None

    def _finished(self, answer: Answer, reason: EndReason) -> RunFinished:
        run = self._run
        finished = RunFinished(
            *self._stamp(),
            reason=reason,
            text=answer.finish(stopped=reason is EndReason.STOP),
            tokens=run.written + len(answer.new_tokens),
            prefill_ms=run.prefill_ms,
            ttft_ms=None if run.first_ms is None else run.prefill_ms + run.first_ms,
            decode_ms=run.decode_ms,
        )
        self.run_statistics.set_run(finished)
        return finished

    # -- runs that are no part of the conversation

    @contextmanager
    def aside(self, adapt: Callable[[Config], Config]) -> Iterator[None]:
        """What runs meanwhile is neither recorded nor counted: the last run stays the last one.

        What the caches hold of it stays, so that the next run can use its prompt again. What the drafter
        learns of it does not.

        Args:
            adapt: gives the configuration it is decoded with from the session's own; not with other models.
        """
        self._apply_change()
        pair, kept = self._pair, (self.config, self._run, self.run_statistics, self._last)
        lengths, self._lengths = self._lengths, None
        self.config, self._recording = adapt(self.config), False
        try:
            with nullcontext() if pair is None else pair.drafter.aside():
                yield
        finally:
            self._recording = True
            self.config, self._run, self.run_statistics, last = kept
            self._lengths = lengths
            self._last = last if self._pair is pair else None

    def forget(self) -> None:
        """Empty the caches: the next run reads its whole prompt."""
        self.pair.forget()
        self._held = []
