"""Plain against speculative decoding of the same context: each alone, warm, one after the other; torch-free.

What makes it fair: both ways are warmed up before either is timed. Each begins with empty caches, so each
reads the whole prompt (speculation also with its drafter: that is part of its price). Law, seed, draws and
the limit of tokens are the same. While one of them runs the engine's thread does nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from engine.config import Config
from engine.context import Message
from engine.events import EndReason, Event, PlainStep, Round, RunFinished, SegmentStarted
from engine.registry import RULES

if TYPE_CHECKING:
    from engine.session import Session

Arm = Literal["plain", "speculative"]
"""One of the two ways of decoding."""
ARMS: tuple[Arm, ...] = ("plain", "speculative")
"""In the order they run."""
WARM_UP = 4
"""Plain steps, and rounds, before anything is timed."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """An arm is warmed up; what it writes meanwhile is no result."""

    arm: Arm
    done: int
    """Steps or rounds that ended; 0 while the prompt is read."""
    total: int


@dataclass(frozen=True, slots=True)
class ArmEvent:
    """An event of the arm that runs now."""

    arm: Arm
    event: Event


@dataclass(frozen=True, slots=True)
class RaceFinished:
    """Both arms wrote their answers to the end."""

    identical: bool | None
    """Whether the ids are the same; None for answers that differ by chance."""
    first_difference: int | None
    """Index of the first id that differs, where the shorter answer ends at the latest; None if none does, and
    for answers that differ by chance."""


RaceEvent = WarmUp | ArmEvent | RaceFinished


def race(session: Session, messages: Sequence[Message]) -> Iterator[RaceEvent]:
    """Answer the messages plainly, then speculatively: WarmUp*, ArmEvent* of each arm, RaceFinished.

    ``session.cancel`` ends it, with the arm in progress or at the warm-up: then no RaceFinished comes. The
    last run of the session stays its last one, and nothing is recorded.

    Raises:
        InvariantError, ContextError, PromptTooLong, EngineError, ResourceError: as ``Session.generate``.
    """
    with session.aside(_limited_by_tokens):
        for arm in ARMS:
            if not (yield from _warm_up(session, arm, messages)):
                return
        answers = {arm: _Answer() for arm in ARMS}
        for arm, answer in answers.items():
            session.forget()
            for event in _run(session, arm, messages):
                answer.add(event)
                yield ArmEvent(arm, event)
            if answer.cancelled:
                return
        yield _compared(*answers.values())


def _run(session: Session, arm: Arm, messages: Sequence[Message]) -> Iterator[Event]:
    return session.plain(messages) if arm == "plain" else session.generate(messages)


def _limited_by_tokens(config: Config) -> Config:
    """Rounds are no limit that plain decoding has: as many tokens as they could give take its place."""
    max_new_tokens, rounds = config.resolved_limits()
    if max_new_tokens is None and rounds is not None:
        max_new_tokens = rounds * (config.draft.most_drafts + 1)
    run = config.run.model_copy(update={"max_new_tokens": max_new_tokens, "rounds": None})
    return config.model_copy(update={"run": run})


def _warm_up(session: Session, arm: Arm, messages: Sequence[Message]) -> Generator[WarmUp, None, bool]:
    """A few steps of an arm; returns whether the race is to go on."""
    done = 0
    for event in _run(session, arm, messages):
        if isinstance(event, RunFinished):
            return event.reason is not EndReason.CANCELLED
        done += isinstance(event, Round | PlainStep)
        yield WarmUp(arm, done, WARM_UP)
        if done == WARM_UP:
            break
    return True


@dataclass(slots=True)
class _Answer:
    """What an arm has written."""

    ids: list[int] = field(default_factory=list)
    repeats_plain: bool = False
    """Whether both arms must write the same."""
    cancelled: bool = False

    def add(self, event: Event) -> None:
        match event:
            case SegmentStarted():
                rule = RULES[event.settings.verify_strategy]
                self.repeats_plain = event.settings.temperature == 0 or rule.follows_seed
            case PlainStep():
                self._commit(event.taken_back, (event.id,))
            case Round():
                self._commit(event.taken_back, event.tokens)
            case RunFinished():
                self.cancelled = event.reason is EndReason.CANCELLED
                # A plain step does not say that a stop string, begun before it, took its token away again.
                del self.ids[event.tokens :]

    def _commit(self, taken_back: int, ids: Sequence[int]) -> None:
        del self.ids[len(self.ids) - taken_back :]
        self.ids += ids


def _compared(plain: _Answer, speculative: _Answer) -> RaceFinished:
    if not speculative.repeats_plain:
        return RaceFinished(None, None)
    pairs = zip(plain.ids, speculative.ids, strict=False)
    differing = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    if differing is None and len(plain.ids) != len(speculative.ids):
        differing = min(len(plain.ids), len(speculative.ids))
    return RaceFinished(differing is None, differing)
