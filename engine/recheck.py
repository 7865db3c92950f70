"""A recording checked again without models: is every round what its own numbers say it must be?

Nothing of the engine's decisions is taken on trust: from p(x), q(x) and u each acceptance is decided again,
the draws are computed again from the seed, the counts are added up again. The laws themselves cannot be known
without the models.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from engine.events import (
    Alternative,
    BaselineFinished,
    EndReason,
    Event,
    Origin,
    PlainStep,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
    Verdict,
)
from engine.philox import uniform24
from engine.stats import Statistics

ACCEPT_STREAM = 1
"""``engine.draws.Stream.ACCEPT``."""
_SLACK = 1e-4
"""Relative difference of two normalisations of one law in float32: 1.2e-5 was seen over 49,152 ids."""
_TIME_SLACK_MS = 1.0


class Grade(StrEnum):
    """How much a finding weighs."""

    TIE = "exact tie"
    """Two answers are equally right, and this is one of them."""
    ROUNDING = "within rounding"
    """The numbers do not agree, but no more than rounding explains."""
    BUG = "BUG"
    """This cannot come from a correct engine, or the file was changed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be."""

    run: int
    round: int | None
    """Number of the round in its run; None: the run as a whole."""
    check: str
    """Stable name of the check: "acceptance", "draw", "target", "cut", ..."""
    grade: Grade
    text: str


class Recheck:
    """Checks the events of a recording in their order; nothing but counts and the ids of one answer is kept.

    ``rounds`` and ``checks`` say how much was looked at.
    """

    def __init__(self) -> None:
        self.runs = self.rounds = self.checks = 0
        self._run: _Run | None = None

    def add(self, event: Event) -> Iterator[Finding]:
        """What is wrong with one event; to be consumed before the next is added."""
        if isinstance(event, RunStarted):
            self.runs += 1
            self._run = _Run(event)
            return
        run = self._run
        if run is None:
            if isinstance(event, Round | PlainStep | RunFinished | BaselineFinished):
                self.checks += 1
                yield Finding(0, None, "order", Grade.BUG, f"a {type(event).__name__} comes before any run")
            return
        before = run.checks
        yield from run.add(event)
        self.checks += run.checks - before
        self.rounds += isinstance(event, Round)


class _Run:
    """One run, as far as it was read."""

    def __init__(self, started: RunStarted) -> None:
        self.started = started
        self.settings: dict[int, Settings] = {}
        self.newest: int | None = None
        self.statistics = Statistics()
        self.ids: list[int] = []
        """Of the answer, the given ones not among them."""
        self.steps = 0
        self.ended: EndReason | None = None
        self.checks = 0
        self._found: list[Finding] = []
        self._number: int | None = None

    def add(self, event: Event) -> Iterator[Finding]:
        self._found = []
        self._number = event.number if isinstance(event, Round | PlainStep) else None
        if isinstance(event, SegmentStarted):
            self.settings[event.settings_id] = event.settings
            self.newest = event.settings_id
        elif isinstance(event, Round):
            self._round(event)
        elif isinstance(event, PlainStep):
            self._step(event)
        elif isinstance(event, RunFinished):
            self._finished(event)
        elif isinstance(event, BaselineFinished):
            self._baseline(event)
        yield from self._found

    def _expect(self, holds: bool, check: str, text: str, grade: Grade = Grade.BUG) -> bool:
        self.checks += 1
        if not holds:
            self._found.append(Finding(self.started.run, self._number, check, grade, text))
        return holds

    # -- a round

    def _round(self, event: Round) -> None:
        self.steps += 1
        self._expect(event.number == self.steps, "order", f"it is round {self.steps} of its run")
        self._expect(self.ended is None, "order", "the answer had ended before it")
        length = len(self.started.prompt) + len(self.started.given) + len(self.ids)
        self._expect(
            event.context_length == length,
            "context",
            f"{length} tokens are committed, not {event.context_length}",
        )
        settings = self.settings.get(event.settings_id)
        if self._expect(
            settings is not None and event.settings_id == self.newest,
            "settings",
            f"settings {event.settings_id} are not those of its segment",
        ):
            assert settings is not None
            if self._shape(event):
                self._judgements(event, settings)
                self._target(event, settings)
                self._laws(event, settings)
        self._commit(event)

    def _shape(self, event: Round) -> bool:
        drafts, accepted = event.drafts, event.n_accepted
        fine = self._expect(
            0 <= accepted <= len(drafts) <= max(event.k, 0),
            "verdicts",
            f"{accepted} accepted of {len(drafts)} drafted of {event.k} asked for",
        )
        fine &= self._expect(
            len(event.p_top) == len(drafts) + 1,
            "laws",
            f"{len(event.p_top)} rows of the target's law for {len(drafts)} drafts",
        )
        verdicts = [Verdict.ACCEPTED] * accepted
        if accepted < len(drafts):
            verdicts += [Verdict.REJECTED, *[Verdict.IGNORED] * (len(drafts) - accepted - 1)]
        return fine & self._expect(
            [draft.verdict for draft in drafts] == verdicts, "verdicts", f"the first {accepted} are accepted"
        )

    def _judgements(self, event: Round, settings: Settings) -> None:
        """Each verdict again from p, q and u, and each u again from the seed."""
        judged = event.drafts[: event.n_accepted + 1]
        if settings.verify_strategy == "greedy_match":
            for draft, row in zip(judged, event.p_top, strict=False):
                stands = draft.verdict is Verdict.ACCEPTED
                self._expect(draft.u is None, "draw", f"greedy match draws nothing, u is {draft.u}")
                self._expect(
                    (draft.p == 1.0) == stands,
                    "acceptance",
                    f"p is {draft.p:g}, and it {'stands' if stands else 'fell'}",
                )
                self._likeliest(draft.id, row, stands)
            return
        if settings.verify_strategy != "speculative_sampling":
            return
        draws = uniform24(settings.seed, event.context_length, ACCEPT_STREAM, len(event.drafts))
        for place, draft in enumerate(event.drafts):
            if not self._expect(draft.u is not None, "draw", f"draft {place + 1} has no draw"):
                continue
            assert draft.u is not None
            self._expect(
                draft.u == draws[place],
                "draw",
                f"u of draft {place + 1} is {draft.u:.9g}; seed {settings.seed} gives {draws[place]:.9g}",
            )
            if place < len(judged):
                self._accepted_rightly(place, draft.u, draft.q, draft.p, draft.verdict is Verdict.ACCEPTED)

    def _accepted_rightly(self, place: int, u: float, q: float, p: float, stands: bool) -> None:
        """Accepted if and only if u q < p, in the number format of the laws or exactly."""
        exactly, rounded = u * q < p, _float32(u * q) < p
        if exactly == rounded == stands:
            self.checks += 1
            return
        near = stands in {exactly, rounded}
        self._expect(
            False,
            "acceptance",
            f"draft {place + 1} {'stands' if stands else 'fell'}, but u q is {u * q:.9g} and p {p:.9g}",
            Grade.ROUNDING if near else Grade.BUG,
        )

    def _likeliest(self, id_: int, row: tuple[Alternative, ...], stands: bool) -> None:
        """At temperature 0 a token stands if and only if no other one is likelier."""
        if not row:
            return
        best = row[0].probability
        tied = {entry.id for entry in row if entry.probability == best}
        if len(tied) > 1 and id_ in tied:
            self._expect(False, "acceptance", f"{len(tied)} tokens are the likeliest alike", Grade.TIE)
        else:
            self._expect((id_ in tied) == stands, "acceptance", f"id {row[0].id} is the likeliest, not {id_}")

    # -- the target's own token

    def _target(self, event: Round, settings: Settings) -> None:
        target, full = event.target, event.n_accepted == len(event.drafts)
        origin = Origin.BONUS if full else Origin.CORRECTION
        self._expect(target.origin is origin, "target", f"after this many accepted drafts it is a {origin}")
        self._expect(target.p > 0, "target", "the target gives its own token no probability")
        self._expect((target.q is None) == full, "target", "only a bonus has no q")
        row = event.p_top[event.n_accepted]
        if settings.temperature == 0:
            self._expect(target.p == 1.0, "target", f"at temperature 0 its p is 1, not {target.p:g}")
            self._likeliest(target.id, row, True)
            return
        if not full and settings.verify_strategy == "speculative_sampling":
            rejected = event.drafts[event.n_accepted]
            q = target.q or 0.0
            # Where p and q are equal nothing is left of max(p - q, 0), and p itself is drawn from.
            if target.p <= q and not math.isclose(rejected.p, rejected.q, rel_tol=1e-3):
                near = target.p >= q * (1 - _SLACK)
                self._expect(
                    False,
                    "target",
                    f"a correction has p > q; p is {target.p:.9g}, q {q:.9g}",
                    Grade.ROUNDING if near else Grade.BUG,
                )
            if rejected.q == 1.0:
                self._expect(
                    target.id != rejected.id, "target", "the correction is the token that was rejected"
                )

    # -- the laws, as far as they were recorded

    def _laws(self, event: Round, settings: Settings) -> None:
        known = settings.temperature > 0
        for place, draft in enumerate(event.drafts):
            self._rate(draft.q, f"q of draft {place + 1}")
            self._rate(draft.p, f"p of draft {place + 1}")
            self._expect(draft.q > 0, "laws", f"draft {place + 1} was drawn from a law that gives it nothing")
            self._top(draft.q_top, f"the drafter's law at draft {place + 1}")
            if known:
                self._agrees(draft.id, draft.p, event.p_top[place], f"p of draft {place + 1}")
                if draft.q_top and draft.q < 1.0:
                    self._agrees(draft.id, draft.q, draft.q_top, f"q of draft {place + 1}")
        for place, row in enumerate(event.p_top):
            self._top(row, f"the target's law at position {place + 1}")
        self._rate(event.target.p, "p of the target's token")
        if event.target.q is not None:
            self._rate(event.target.q, "q of the target's token")
        if known:
            self._agrees(
                event.target.id, event.target.p, event.p_top[event.n_accepted], "p of the target's token"
            )

    def _rate(self, value: float, name: str) -> None:
        self._expect(0.0 <= value <= 1.0 + _SLACK, "laws", f"{name} is {value:g}, no probability")

    def _top(self, row: tuple[Alternative, ...], name: str) -> None:
        rates = [entry.probability for entry in row]
        self._expect(rates == sorted(rates, reverse=True), "laws", f"{name} is not in order")
        self._expect(
            all(rate >= 0 for rate in rates) and sum(rates) <= 1 + _SLACK, "laws", f"{name} is no law"
        )
        self._expect(len({entry.id for entry in row}) == len(row), "laws", f"{name} names an id twice")

    def _agrees(self, id_: int, value: float, row: tuple[Alternative, ...], name: str) -> None:
        """A token among the likeliest has the probability that stands there, another one no more.

        The list comes from a normalisation of its own, so the last bits may differ.
        """
        listed = [entry.probability for entry in row if entry.id == id_]
        if listed:
            self._expect(
                math.isclose(value, listed[0], rel_tol=_SLACK, abs_tol=1e-9),
                "laws",
                f"{name} is {value:.9g}, in the list {listed[0]:.9g}",
            )
        elif row:
            least = row[-1].probability
            self._expect(
                value <= least * (1 + _SLACK),
                "laws",
                f"{name} is {value:.9g}, yet it is not among the likeliest",
            )

    # -- what was committed

    def _commit(self, event: Round) -> None:
        whole = [*(draft.id for draft in event.drafts[: event.n_accepted]), event.target.id]
        kept = list(event.tokens)
        self._expect(kept == whole[: len(kept)], "commit", "the committed ids are not those that stand")
        if event.cut is None:
            self._expect(
                kept == whole, "cut", f"{len(whole) - len(kept)} tokens are missing, and nothing cut them"
            )
            self._expect(event.taken_back == 0, "cut", "tokens were taken back, but no stop string was found")
        elif event.cut is not EndReason.STOP:
            self._expect(event.taken_back == 0, "cut", "only a stop string takes tokens back")
            self._expect(bool(kept), "cut", "a round commits a token at least")
        self._expect(0 <= event.taken_back <= len(self.ids), "cut", "more was taken back than there was")
        if event.cut in {EndReason.ROUNDS, EndReason.CANCELLED}:
            self._expect(kept == whole, "cut", f"{event.cut} does not cut a round")
        self.statistics.add(event)
        self._extend(kept, event.taken_back)
        self.ended = event.cut
        limit = self.started.max_new_tokens
        self._expect(len(self.ids) <= limit, "cut", f"{len(self.ids)} tokens, {limit} at most were asked for")
        if event.cut is EndReason.MAX_NEW_TOKENS:
            self._expect(
                len(self.ids) == limit, "cut", f"{len(self.ids)} tokens are not the {limit} asked for"
            )
        for name in ("draft_ms", "verify_ms", "host_ms"):
            value = getattr(event, name)
            self._expect(value >= 0, "time", f"{name} is {value:g}")

    def _extend(self, ids: list[int], taken_back: int) -> None:
        if taken_back:
            del self.ids[-taken_back:]
        self.ids += ids

    def _step(self, event: PlainStep) -> None:
        self.steps += 1
        self._expect(event.number == self.steps, "order", f"it is step {self.steps} of its run")
        self._expect(self.ended is None, "order", "the answer had ended before it")
        self._extend([event.id], event.taken_back)
        self.ended = event.cut

    # -- the run as a whole

    def _finished(self, event: RunFinished) -> None:
        self._expect(event.tokens == len(self.ids), "counts", f"{len(self.ids)} tokens, not {event.tokens}")
        limit = self.started.max_rounds
        self._expect(limit is None or self.steps <= limit, "counts", f"{self.steps} rounds, {limit} at most")
        if self.ended is not None:
            self._expect(
                event.reason is self.ended, "cut", f"it ended by {self.ended}, not by {event.reason}"
            )
        statistics = self.statistics
        try:
            statistics.check_identities()
        except AssertionError as error:
            self._expect(False, "identities", str(error))
        if statistics.rounds:
            summed = statistics.draft_ms + statistics.verify_ms + statistics.host_ms
            self._expect(
                abs(summed - event.decode_ms) <= _TIME_SLACK_MS + 1e-6 * summed,
                "time",
                f"its rounds took {summed:.3f} ms, the run says {event.decode_ms:.3f}",
            )

    def _baseline(self, event: BaselineFinished) -> None:
        if not event.complete:
            return
        ids = tuple(self.ids)
        shorter = min(len(ids), len(event.ids))
        differs = next((at for at in range(shorter) if ids[at] != event.ids[at]), None)
        self._expect(event.tokens == len(event.ids), "baseline", f"{len(event.ids)} ids, not {event.tokens}")
        if event.identical is None:
            return
        same = differs is None and len(ids) == len(event.ids)
        self._expect(event.identical == same, "baseline", "whether the texts are the same is told wrong")
        if differs is not None:
            self._expect(
                event.first_difference == differs, "baseline", f"the first difference is at token {differs}"
            )


def _float32(value: float) -> float:
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number
