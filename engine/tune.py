"""Which drafter and which K are the fastest on THIS context: tried for some seconds, and ranked.

First each drafter answers once with the largest K, beside plain decoding. That tells its acceptance at every
smaller K, and with the measured costs the speedup of each (``engine.predictor``). Then the most promising
ones are timed beside plain decoding, forth and back (A B B A), until the fastest one is a measured one. Plain
decoding is in the ranking, and may win.

What is found is right for the context it was found on. It is no figure for a drafter in general: K was chosen
on the very text that it is judged by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine import predictor
from engine.config import Config
from engine.config_tables import AUTO, DraftConfig
from engine.context import Message
from engine.costs import MOST_DRAFTS
from engine.errors import Cancelled, ContextError, ResourceError, UserError
from engine.events import EndReason, Event, PlainStep, Round, RunFinished
from engine.stats import Statistics
from engine.tune_candidates import KS, changes, drafter_name, drafters_of, plain_changes, with_k
from engine.tune_ranking import K, LeftOut, Ranked, Ranking, Trying, Tuned, TuneEvent, in_order
from engine.tune_times import Times

if TYPE_CHECKING:
    from engine.session import Session
    from engine.tune_sessions import TuneSessions

LIMIT_S = 30.0
"""Time for all of it; what runs then ends at its next commit."""
OVERTIME = 1.5
"""Times the limit in which a first pass forth and back may be brought to its end."""
TOKENS = 48
"""Of a run, at most."""
PASSES = 3
"""Forth and back, at most, for each choice of what is timed."""
_FEW = 8
"""Tokens that a run has at least, whatever the time."""
_SHARE = 16
"""Runs that have to fit into the time: a slow target writes fewer tokens in each."""
_AT_ONCE = 2
"""Predictions that are confirmed together."""

Timed = tuple[DraftConfig, K]
"""A drafter, by its configuration with the largest K, and the K that it is to have."""


def tune(
    session: Session,
    messages: Sequence[Message],
    *,
    names: Sequence[str] = (),
    limit_s: float = LIMIT_S,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[TuneEvent]:
    """Try drafters and K on a conversation: (Trying | LeftOut | Ranking)*, Tuned.

    The session's configuration, models, last run and recording are left as they are; its caches keep what
    they hold of the prompt. A cancel ends it at the next commit, and then no Tuned comes.

    Args:
        session: loaded.
        names: models on this machine that may draft too.
        limit_s: no run begins after so many seconds, but for what a ranking needs at least.
        cancelled: asked between tokens, and while a model is loaded.

    Raises:
        ContextError, PromptTooLong: the messages cannot be answered.
        EngineError, ResourceError: the engine cannot go on.
    """
    if not messages:
        raise ContextError("there is nothing to answer", "Write a message first.")
    from engine.tune_sessions import TuneSessions

    sessions = TuneSessions(session, cancelled)
    try:
        yield from _Tuning(session, sessions, messages, limit_s, cancelled).run(names)
    except Cancelled:
        return
    finally:
        sessions.close()


class _Tuning:
    """The state of it."""

    def __init__(
        self,
        session: Session,
        sessions: TuneSessions,
        messages: Sequence[Message],
        limit_s: float,
        cancelled: Callable[[], bool],
    ) -> None:
        self._session, self._sessions, self._messages = session, sessions, messages
        self._own = session.config.draft
        self._own_draft = with_k(self._own, MOST_DRAFTS)
        self._limit_s, self._cancelled = limit_s, cancelled
        self._start = time.monotonic()
        self._tokens = TOKENS
        self._times: Times[Timed] = Times()
        self._predicted: dict[Timed, predictor.Point] = {}
        self._taus: dict[Timed, float | None] = {}

    def run(self, names: Sequence[str]) -> Generator[TuneEvent, None, None]:
        """All of it."""
        yield self._trying("plain decoding")
        self._tokens = max(1, self._plain(natural_end=True).tokens)  # all others write as many
        for draft in drafters_of(self._session.config, names):
            yield from self._look(draft)
            yield Ranking(self._rows())
        while (chosen := self._next()) and self._time_is_left():
            yield from self._confirm(chosen)
        rows = self._rows()
        prompt = self._session.prompt_tokens(self._messages)[0]
        yield Tuned(rows, len(prompt), self._tokens, self._seconds)

    # -- looking: one run a drafter

    def _look(self, draft: DraftConfig) -> Iterator[TuneEvent]:
        """What a drafter's acceptance and costs lead to at each K."""
        name = drafter_name(draft)
        yield self._trying(f"{name}, K = {draft.num_draft_tokens}")
        try:
            session = self._sessions.of(draft)
        except (UserError, ResourceError) as error:
            yield LeftOut(name, str(error.message))
            return
        found = self._run(session, draft, calibrates=True)
        if found.costs is None:
            yield LeftOut(name, "there is no room after this prompt to measure its costs")
            return
        own_k = self._own.num_draft_tokens
        wanted = {*KS, own_k} if draft == self._own_draft else {*KS}
        for point in predictor.curve(found, found.costs):
            if point.k in wanted:
                self._predicted[draft, point.k] = point

    # -- timing: forth and back

    def _next(self) -> tuple[Timed, ...]:
        """What is to be timed next; nothing if the fastest one is known as far as it can be."""
        ahead = sorted(self._predicted, key=lambda timed: -self._predicted[timed].speedup)
        if not self._times.known:
            return self._first(ahead)
        fastest = max((self._times.speedup(timed) or 1.0 for timed in self._times.known), default=1.0)
        untimed = [timed for timed in ahead if timed not in self._times.known]
        return tuple(timed for timed in untimed[:1] if self._predicted[timed].speedup > max(fastest, 1.0))

    def _first(self, ahead: Sequence[Timed]) -> tuple[Timed, ...]:
        """The most promising ones, the best drafter with K left to the program, and what is set now."""
        first = [*ahead[:_AT_ONCE]]
        first += [(draft, AUTO) for draft, _ in ahead[:1]]
        if any(draft == self._own_draft for draft, _ in ahead):
            first.append((self._own_draft, self._own.num_draft_tokens))
        return tuple(dict.fromkeys(first))

    def _confirm(self, chosen: Sequence[Timed]) -> Iterator[TuneEvent]:
        """Time them beside plain decoding, forth and back, as often as there is time."""
        for timed in chosen:
            self._warm_up(timed)
        self._times.begin(chosen)
        for _ in range(PASSES):
            for way in (None, *chosen, *reversed(chosen), None):
                enough = self._times.is_enough(way) and not self._time_is_left()
                if enough or self._seconds > OVERTIME * self._limit_s:
                    yield Ranking(self._rows())
                    return
                yield self._trying("plain decoding" if way is None else _words(way))
                self._time(way)
            yield Ranking(self._rows())

    def _warm_up(self, timed: Timed) -> None:
        """Passes as wide as its rounds, so that no timed one is the first of its kind."""
        pair = self._sessions.of(timed[0]).pair
        before = pair.same_bits  # it belongs to the widths of the session's own runs
        pair.warm_up(with_k(*timed).most_drafts)
        pair.same_bits = before

    def _time(self, timed: Timed | None) -> None:
        if timed is None:
            found = self._plain(natural_end=False)
        else:
            found = self._run(self._sessions.of(timed[0]), with_k(*timed), calibrates=timed[1] == AUTO)
            self._taus[timed] = found.tau
        self._times.add(timed, found.decode_ms / max(1, found.tokens))

    # -- one run

    def _plain(self, *, natural_end: bool) -> Statistics:
        return self._answer(self._session, self._limited(self._own, natural_end), "plain")

    def _run(self, session: Session, draft: DraftConfig, *, calibrates: bool) -> Statistics:
        config = self._limited(draft)
        run = config.run.model_copy(update={"baseline": "calibrated" if calibrates else "off"})
        return self._answer(session, config.model_copy(update={"run": run}), "generate")

    def _limited(self, draft: DraftConfig, natural_end: bool = False) -> Config:
        """The configuration for one answer, as long as plain decoding's."""
        config = self._session.config
        changed = {
            "max_new_tokens": self._tokens,
            "rounds": None,
            "stop": (),
            "ignore_eos": not natural_end,
            "baseline": "off",
        }
        return config.model_copy(update={"draft": draft, "run": config.run.model_copy(update=changed)})

    def _answer(self, session: Session, config: Config, way: str) -> Statistics:
        """What one answer counts. Raises Cancelled."""
        if self._cancelled():
            raise Cancelled("tuning was cancelled")
        before, session.seed = session.seed, self._session.seed
        try:
            with session.aside(lambda _: config):
                run: Any = getattr(session, way)(self._messages)
                with closing(run) as events:
                    self._draw(session, events)
                return session.run_statistics.copy()
        finally:
            session.seed = before

    def _draw(self, session: Session, events: Iterator[Event]) -> None:
        tokens, ms = 0, 0.0
        for event in events:
            if self._cancelled():
                session.cancel()
            if isinstance(event, RunFinished) and event.reason is EndReason.CANCELLED:
                raise Cancelled("tuning was cancelled")
            if isinstance(event, PlainStep | Round):
                tokens += len(event.tokens) if isinstance(event, Round) else 1
                ms += event.ms
                slow = ms > 1e3 * self._limit_s / _SHARE
                if tokens >= _FEW and (slow or not self._time_is_left()):
                    return

    # -- the ranking

    def _rows(self) -> tuple[Ranked, ...]:
        rows = [Ranked("", 0, 1.0, None, None, True, 1.0, plain_changes(self._own))]
        for timed in dict.fromkeys([*self._times.known, *self._predicted]):
            speedup = self._times.speedup(timed)
            point = self._predicted.get(timed)
            if speedup is None and point is None:
                continue
            row = self._row(timed, point)
            if speedup is not None:
                low, high = self._times.spread(timed)
                row = replace(
                    row, speedup=speedup, low=low, high=high, measured=True, tau=self._taus.get(timed)
                )
            rows.append(row)
        return in_order(rows)

    def _row(self, timed: Timed, point: predictor.Point | None) -> Ranked:
        draft, k = timed
        other = with_k(draft, k)
        speedup, tau = (0.0, None) if point is None else (point.speedup, point.tau)
        return Ranked(
            drafter_name(draft),
            k,
            speedup,
            None,
            None,
            False,
            tau,
            changes(self._own, other),
        )

    # -- time

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _time_is_left(self) -> bool:
        return self._seconds < self._limit_s

    def _trying(self, what: str) -> Trying:
        return Trying(what, self._seconds, self._limit_s)


def _words(timed: Timed) -> str:
    return f"{drafter_name(timed[0])}, K = {timed[1]}"
