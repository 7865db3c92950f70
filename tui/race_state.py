"""What the screen of a race knows, and what each side shows at a time of the clock: pure functions.

Each arm has a clock of its own that starts with it and counts what the engine counts: reading the prompt,
then its steps or rounds, nothing between them. So both can be shown side by side, although they ran one after
the other: what an arm had written at a time is looked up in its marks.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import StrEnum

from engine.events import Event, PlainStep, PrefillFinished, PrefillProgress, Round, RunFinished, RunStarted
from engine.race import ARMS, Arm, ArmEvent, RaceEvent, RaceFinished, WarmUp
from tui.state import Trail, ViewState, reduce


class Stage(StrEnum):
    """How far an arm is at a time."""

    WAITING = "waiting"
    WARMING = "warming"
    PREFILL = "prefill"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Mark:
    """What an arm had come to at a time of its clock."""

    seconds: float
    tokens: int = 0
    """Of its answer."""
    prefilled: int = 0
    """Prompt tokens that were computed."""


@dataclass(frozen=True, slots=True)
class ArmState:
    """One arm so far."""

    view: ViewState = field(default_factory=ViewState)
    """The fold of its events."""
    marks: Trail[Mark] = field(default_factory=Trail)
    """In the order of time; none before it starts."""
    start_ns: int = 0
    """When it started, by the stamps of its events."""

    @property
    def seconds(self) -> float:
        """Its clock at the newest mark; once it has finished, its finishing time."""
        return self.marks[-1].seconds if self.marks else 0.0

    @property
    def finished(self) -> RunFinished | None:
        """How it ended; None while it goes on."""
        return self.view.finished

    def at(self, seconds: float) -> Mark:
        """What it had come to at a time."""
        count = bisect_right(self.marks, seconds, key=lambda mark: mark.seconds)
        return self.marks[count - 1] if count else Mark(0.0)


@dataclass(frozen=True, slots=True)
class RaceState:
    """Everything that was told of a race."""

    plain: ArmState = field(default_factory=ArmState)
    speculative: ArmState = field(default_factory=ArmState)
    warm_up: WarmUp | None = None
    """The warm-up in progress."""
    running: Arm | None = None
    """The arm that runs, alone; None before the first and after the last one."""
    result: RaceFinished | None = None

    def arm(self, arm: Arm) -> ArmState:
        """One of both."""
        return self.plain if arm == "plain" else self.speculative

    @property
    def end(self) -> float:
        """Seconds until both have finished, as far as it is known."""
        return max(self.plain.seconds, self.speculative.seconds)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the engine had to say about the speculative arm."""
        return tuple(notice.text for notice in self.speculative.view.notices)

    @property
    def goal(self) -> int:
        """Tokens that a full bar stands for, on both sides the same: the length of the longer answer. Until
        the plain one is there, the limit."""
        longest = max(len(self.plain.view.output), len(self.speculative.view.output), 1)
        return longest if self.plain.finished is not None else max(self.plain.view.max_new_tokens, longest)


def reduce_race(state: RaceState, event: RaceEvent) -> RaceState:
    """The state after something was told."""
    match event:
        case WarmUp():
            return replace(state, warm_up=event)
        case RaceFinished():
            return replace(state, running=None, result=event)
        case ArmEvent(arm, told):
            after = _advanced(state.arm(arm), told)
            if arm == "plain":
                return replace(state, plain=after, warm_up=None, running=arm)
            return replace(state, speculative=after, warm_up=None, running=arm)


def _advanced(arm: ArmState, event: Event) -> ArmState:
    view = reduce(arm.view, event)
    if isinstance(event, RunStarted):
        return ArmState(view, Trail([Mark(0.0)]), event.t_ns)
    newest = arm.marks[-1] if arm.marks else Mark(0.0)
    seconds, prefilled = newest.seconds, newest.prefilled
    match event:
        case PrefillProgress():
            seconds, prefilled = (event.t_ns - arm.start_ns) / 1e9, event.done
        case PrefillFinished() | Round() | PlainStep():
            seconds = ((view.prefill_ms or 0.0) + view.total.decode_ms) / 1e3
        case RunFinished():
            # A plain step does not say that a stop string, begun before it, took its token away again.
            view = replace(view, output=view.output.take(event.tokens))
        case _:
            return replace(arm, view=view)
    mark = Mark(max(seconds, newest.seconds), len(view.output), prefilled)
    return replace(arm, view=view, marks=arm.marks.append(mark))


@dataclass(frozen=True, slots=True)
class Side:
    """What one side shows at a time."""

    arm: Arm
    stage: Stage
    seconds: float
    """Its clock: it stands still once the arm has finished."""
    view: ViewState
    """The answer as it was then; the rest of it is as it is now."""
    mark: Mark
    goal: int
    warm_up: WarmUp | None = None

    @property
    def decode_s(self) -> float:
        """Seconds of decoding up to the newest token that is shown."""
        return max(self.mark.seconds - (self.view.prefill_ms or 0.0) / 1e3, 0.0)

    @property
    def tokens(self) -> int:
        """Tokens that are shown."""
        return len(self.view.output)

    @property
    def per_second(self) -> float | None:
        """Tokens a second of decoding; None before the first."""
        return self.tokens / self.decode_s if self.tokens and self.decode_s else None


def side(state: RaceState, arm: Arm, seconds: float) -> Side:
    """What an arm shows at a time of the clock; the one that is in progress is taken to be as far as it is
    known to be."""
    own = state.arm(arm)
    view, mark = own.view, own.at(seconds)
    finished = own.finished is not None and seconds >= own.seconds
    shown = replace(view, output=view.output.take(mark.tokens), finished=view.finished if finished else None)
    return Side(
        arm=arm,
        stage=_stage(state, arm, seconds),
        seconds=min(seconds, own.seconds) if own.finished is not None else seconds if own.marks else 0.0,
        view=shown,
        mark=mark,
        goal=state.goal,
        warm_up=state.warm_up,
    )


def sides(state: RaceState, seconds: float) -> tuple[Side, ...]:
    """Both, in their order."""
    return tuple(side(state, arm, seconds) for arm in ARMS)


def _stage(state: RaceState, arm: Arm, seconds: float) -> Stage:
    own = state.arm(arm)
    if not own.marks:
        warming = state.warm_up is not None and state.warm_up.arm == arm
        return Stage.WARMING if warming else Stage.WAITING
    if own.finished is not None and seconds >= own.seconds:
        return Stage.FINISHED
    prefill_ms = own.view.prefill_ms
    return Stage.PREFILL if prefill_ms is None or seconds * 1e3 < prefill_ms else Stage.RUNNING
