"""The parts that the runs of a session are made of: the prompt, the limits, and whom the cache follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.config import Config
from engine.context import Message
from engine.errors import InvariantError, PromptTooLong
from engine.recording import Recorder
from engine.session_core import SessionCore

if TYPE_CHECKING:
    from engine.answer import Answer, Limits

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
        width = self.config.draft.num_draft_tokens + 1
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
