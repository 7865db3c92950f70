"""One answer of one arm, on a live session, timed by the events that every run tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.bench.trials.plan import Arm
from engine.config import Config
from engine.context import Message
from engine.costs import Costs
from engine.events import Calibrated, EndReason, Event, PlainStep, Round, RunFinished, SegmentStarted
from engine.stats import Statistics, Timing

if TYPE_CHECKING:
    from engine.session import Session

PEER_LOOKUP = 10
"""Draft tokens of transformers' prompt lookup where K is "auto": what its documentation calls it with."""
PEER_TOKENS = 32
"""A peer's answer is at least this long: its clock runs from the first commit to the last, it takes two."""


@dataclass(slots=True)
class Written:
    """An answer, and what it took."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    """Up to the end of text."""
    statistics: Statistics = field(default_factory=Statistics)
    rounds: list[Round] = field(default_factory=list)
    greedy: bool = False

    @property
    def ttft_ms(self) -> float | None:
        return None if self.statistics.timing is None else self.statistics.timing.ttft_ms


def decode(
    session: Session,
    arm: Arm,
    messages: Sequence[Message],
    *,
    limit: int,
    natural_end: bool,
    seed: int,
    costs: Costs | None = None,
) -> Written | None:
    """Answer the messages; None if the session was cancelled meanwhile.

    The caches are empty before: the whole prompt is read by every arm.

    Args:
        limit: tokens to write.
        natural_end: end where the model ends its text, else go on past that to the limit.
        costs: what the rounds are predicted by.

    Raises:
        ContextError, PromptTooLong, EngineError, ResourceError: as ``Session.generate``.
    """
    written = Written()
    with _aside(session, _limited(arm, limit, natural_end), seed):
        session.forget()
        run: Any = session.plain if arm.kind == "plain" else session.generate
        with closing(run(messages)) as events:
            for event in events:
                if isinstance(event, SegmentStarted):
                    written.greedy = event.settings.temperature == 0
                    if costs is not None:
                        session.run_statistics.set_costs(costs)
                elif isinstance(event, RunFinished) and event.reason is EndReason.CANCELLED:
                    return None
                _take(written, event)
        written.statistics = session.run_statistics.copy()
    return written


def calibrate(session: Session, arm: Arm, messages: Sequence[Message], seed: int) -> Costs | None:
    """What the parts of decoding cost at the end of this prompt; None where there is no room to measure it.

    It stops before the first round: nothing of that run is used but its costs.
    """
    config = _limited(arm, _CALIBRATION_TOKENS, natural_end=False)
    config = config.model_copy(update={"run": config.run.model_copy(update={"baseline": "calibrated"})})
    run: Any = session.generate(messages)
    session.forget_costs()
    with _aside(session, config, seed), closing(run) as events:
        for event in events:
            if isinstance(event, Calibrated):
                return event.costs
            if isinstance(event, Round | RunFinished):
                break
    return None


_CALIBRATION_TOKENS = 64
"""Room for the widest round that is measured, and for the longest draft."""


def decode_by_peer(session: Session, arm: Arm, messages: Sequence[Message], *, limit: int) -> Written:
    """Answer the messages by transformers' own loop, on the very weights of the session. Greedy.

    Raises ContextError, PromptTooLong, EngineError, ResourceError.
    """
    from engine.bench import peers
    from engine.pair import map_torch_errors

    pair, k = session.pair, arm.config.draft.num_draft_tokens
    prompt = session.prompt_tokens(messages)[0]
    asked: dict[str, Any] = {}
    if arm.peer == "lookup":
        asked["lookup"] = k if isinstance(k, int) else PEER_LOOKUP
    elif arm.peer == "assisted":
        drafter = pair.drafter.context.model
        assert drafter is not None, "assisted generation is planned where a model drafts"
        asked |= {"assistant": drafter.model, "k": k if isinstance(k, int) else None}
    with map_torch_errors():
        timed = peers.generate(pair.target.model, prompt, max(limit, PEER_TOKENS), **asked)
    tokens = len(timed.ids)
    statistics = Statistics(emitted=tokens, timing=Timing(timed.ms_per_token * tokens, None))
    return Written(list(timed.ids[:limit]), statistics=statistics, greedy=True)


@contextmanager
def _aside(session: Session, config: Config, seed: int) -> Iterator[None]:
    """The session decodes with this, and is as it was afterwards."""
    before, session.seed = session.seed, seed
    try:
        with session.aside(lambda _: config):
            yield
    finally:
        session.seed = before


def _limited(arm: Arm, limit: int, natural_end: bool) -> Config:
    """The arm's configuration for one answer. Costs are measured apart; only "auto" needs its own."""
    changes = {
        "max_new_tokens": limit,
        "rounds": None,
        "ignore_eos": not natural_end,
        "stop": (),
        "baseline": "calibrated" if arm.k == "auto" else "off",
    }
    return arm.config.model_copy(update={"run": arm.config.run.model_copy(update=changes)})


def _take(written: Written, event: Event) -> None:
    match event:
        case PlainStep():
            written.ids.append(event.id)
        case Round():
            written.ids += event.tokens
            written.rounds.append(event)
    if isinstance(event, PlainStep | Round | RunFinished):
        written.text += event.text
