"""Running a plan: arms interleaved prompt by prompt, forth and back (A B B A), all alone on the machine.

For each prompt the plain arm comes first and decides the length: it ends where the model ends its text, at
the plan's limit at the latest, and every other run writes as many tokens. A further turn is asked after plain
decoding's answer, so all arms read the same conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from engine.bench.trials.cells import Cell, cell_of, results_of
from engine.bench.trials.comparing import Pairing
from engine.bench.trials.decode import Written, calibrate, decode, decode_by_peer
from engine.bench.trials.events import CellMeasured, Finished, Progress, TrialEvent
from engine.bench.trials.plan import Arm, Plan
from engine.bench.trials.questions import Question
from engine.bench.trials.units import Unit, key_of_unit
from engine.config import Config
from engine.context import Message
from engine.costs import Costs
from engine.errors import PromptTooLong
from engine.user_text import shown_name

if TYPE_CHECKING:
    from engine.session import Session

SessionOf = Callable[[Config], "Session"]
"""Gives the loaded session of what a configuration names; the same one for the same models."""
WARM_UP_TOKENS = 8


def run_trials(
    session_of: SessionOf,
    plan: Plan,
    *,
    kept: Mapping[str, Unit] | None = None,
    keep: Callable[[Unit], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[TrialEvent]:
    """Run the plan: (Progress*, CellMeasured*)*, Finished.

    Sessions are left as they were: nothing is recorded, their last run stays the last one, and only what
    their caches hold of a prompt is lost. ``session.cancel`` ends the bench at its next commit, as
    ``cancelled`` does between two answers: then no Finished comes.

    Args:
        kept: units of an earlier run of the same plan, by their key; they are not run again.
        keep: called with each unit that is finished.
        cancelled: asked before each answer.

    Raises:
        ContextError, PromptTooLong: a prompt cannot be answered; of several turns only the first has to fit.
        EngineError, ResourceError: the engine cannot go on.
    """
    bench = _Bench(session_of, plan, dict(kept or {}), cancelled)
    if bench.is_open:
        bench.check()
        if not bench.warm_up():
            return
    for repeat in range(1, plan.repeats + 1):
        for question in plan.questions:
            if key_of_unit(question.id, repeat) in bench.units:
                continue
            unit = yield from bench.unit(question, repeat)
            if unit is None:
                return
            keep(unit)
            yield from map(CellMeasured, bench.cells())
    yield Finished(results_of(plan, bench.in_order()))


class _Bench:
    """The state of a run of a plan."""

    def __init__(
        self, session_of: SessionOf, plan: Plan, units: dict[str, Unit], cancelled: Callable[[], bool]
    ) -> None:
        self._session_of, self._plan, self._cancelled = session_of, plan, cancelled
        keys = [key_of_unit(question.id, n + 1) for n in range(plan.repeats) for question in plan.questions]
        self.units = {key: units[key] for key in keys if key in units}
        self._keys = keys
        turns = {question.id: len(question.turns) for question in plan.questions}
        self._done = sum(2 * len(plan.arms) * turns[unit.question] for unit in self.units.values())
        self._answers, self._began = 0, time.monotonic()

    @property
    def is_open(self) -> bool:
        """Whether anything is left to run."""
        return len(self.units) < len(self._keys)

    def in_order(self) -> list[Unit]:
        """What is measured, in the plan's order."""
        return [self.units[key] for key in self._keys if key in self.units]

    def cells(self) -> Iterator[Cell]:
        """What the arms have come to so far; without intervals, which take long."""
        units = self.in_order()
        return (cell_of(self._plan, arm, units, resamples=0) for arm in self._plan.arms)

    def check(self) -> None:
        """Raise PromptTooLong, which names the prompt, before minutes are spent on those before it."""
        for question in self._plan.questions:
            try:
                self._fits(question.messages(()), first=True)
            except PromptTooLong as error:
                name = shown_name(question.id)
                raise PromptTooLong(f"prompt {name}: {error.message}", error.hint) from None

    def warm_up(self) -> bool:
        """Run every width and every arm once, untimed; returns whether the bench is to go on."""
        messages = self._plan.questions[0].messages(())
        for arm in self._plan.arms:
            if self._cancelled():
                return False
            session = self._session_of(arm.config)
            if arm.kind == "speculative":
                session.pair.warm_up(arm.config.draft.most_drafts)
            if self._answer(arm, messages, WARM_UP_TOKENS, 0, None) is None:
                return False
        self._began = time.monotonic()
        return True

    def unit(self, question: Question, repeat: int) -> Generator[Progress, None, Unit | None]:
        """A prompt, once forth and back; None if it was cancelled."""
        start = time.monotonic()
        pairings = {arm.name: Pairing(arm, self._session_of(arm.config)) for arm in self._plan.arms}
        answers: list[str] = []
        for turn in range(len(question.turns)):
            messages = question.messages(answers)
            if not self._fits(messages, first=turn == 0):
                self._done += 2 * len(self._plan.arms) * (len(question.turns) - turn)
                break
            answer = yield from self._turn(question, repeat, messages, pairings)
            if answer is None:
                return None
            answers.append(answer)
        trials = tuple(pairing.trial() for pairing in pairings.values())
        unit = Unit(question.id, question.category, repeat, trials, time.monotonic() - start)
        self.units[unit.key] = unit
        return unit

    def _turn(
        self, question: Question, repeat: int, messages: Sequence[Message], pairings: Mapping[str, Pairing]
    ) -> Generator[Progress, None, str | None]:
        """One turn, forth and back; gives plain decoding's answer, or None if it was cancelled."""
        references: dict[str, Written] = {}
        for arms in (self._plan.arms, self._plan.arms[::-1]):
            costs = self._costs(messages, repeat)  # near the runs in time: a machine's speed drifts
            for arm in arms:
                yield self._progress(arm, question, repeat)
                if self._cancelled():
                    return None
                reference = references.get(arm.plain)
                limit = self._plan.tokens if reference is None else len(reference.ids)
                known = costs.get(_group(arm))
                written = self._answer(arm, messages, limit, repeat, known, reference is None)
                if written is None:
                    return None
                reference = references.setdefault(arm.plain, written)
                pairings[arm.name].add(messages, written, reference)
                self._done += 1
                self._answers += 1
        return next(iter(references.values())).text

    def _answer(
        self,
        arm: Arm,
        messages: Sequence[Message],
        limit: int,
        repeat: int,
        costs: Costs | None,
        natural_end: bool = False,
    ) -> Written | None:
        session, seed = self._session_of(arm.config), self._plan.seed + repeat
        if arm.kind == "peer":
            return decode_by_peer(session, arm, messages, limit=limit)
        return decode(session, arm, messages, limit=limit, natural_end=natural_end, seed=seed, costs=costs)

    def _costs(self, messages: Sequence[Message], repeat: int) -> dict[object, Costs]:
        """Calibrations of this prompt: one for arms that differ in K only, made with the largest one."""
        widest: dict[object, Arm] = {}
        for arm in self._plan.arms:
            if arm.kind == "speculative" and isinstance(arm.k, int):
                known = widest.setdefault(_group(arm), arm)
                if isinstance(known.k, int) and arm.k > known.k:
                    widest[_group(arm)] = arm
        found = {}
        for group, arm in widest.items():
            costs = calibrate(self._session_of(arm.config), arm, messages, self._plan.seed + repeat)
            if costs is not None:
                found[group] = costs
        return found

    def _fits(self, messages: Sequence[Message], *, first: bool) -> bool:
        """Whether every session can read this and write an answer. Raises PromptTooLong if the first turn
        does not fit."""
        try:
            for arm in self._plan.arms:
                session = self._session_of(arm.config)
                length = len(session.prompt_tokens(messages)[0])
                limit = session.pair.target.context_length
                if length + self._plan.tokens > limit:
                    raise PromptTooLong(
                        f"the prompt has {length} tokens and the answer {self._plan.tokens} more; "
                        f"{session.pair.target.info.name} reads {limit} at most",
                        hint="leave it out, or shorten it",
                    )
        except PromptTooLong:
            if first:
                raise
            return False
        return True

    def _progress(self, arm: Arm, question: Question, repeat: int) -> Progress:
        total, left = self._plan.runs, None
        if self._answers:
            left = (time.monotonic() - self._began) / self._answers * (total - self._done)
        return Progress(self._done, total, left, arm.name, question.id, question.category, repeat)


def _group(arm: Arm) -> object:
    """What arms share that differ in K only."""
    return arm.configuration, arm.rule, arm.temperature
