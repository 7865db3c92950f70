"""One round of a recording checked again: verdicts, draws, the target's token, the laws as far as known."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import StrEnum

from engine.events import Alternative, Origin, Round, Settings, Verdict
from engine.philox import uniform24

ACCEPT_STREAM = 1
"""``engine.draws.Stream.ACCEPT``."""
_SLACK = 1e-4
"""Relative difference of two normalisations of one law in float32: 1.2e-5 was seen over 49,152 ids."""


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
    margin: float | None = None
    """How far the numbers were from the other outcome; None where there is no such number."""


class RoundChecks:
    """The checks that need a round and its settings only."""

    def __init__(self, run: int) -> None:
        self.run = run
        """Number of the run."""
        self.checks = 0
        self._found: list[Finding] = []
        self._number: int | None = None

    def _expect(self, holds: bool, check: str, text: str, grade: Grade = Grade.BUG) -> bool:
        self.checks += 1
        if not holds:
            self._found.append(Finding(self.run, self._number, check, grade, text))
        return holds

    def _decisions(self, event: Round, settings: Settings) -> None:
        """Everything that the round decided."""
        if self._shape(event):
            self._judgements(event, settings)
            self._target(event, settings)
            self._laws(event, settings)

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


def _float32(value: float) -> float:
    number: float = struct.unpack("f", struct.pack("f", value))[0]
    return number
