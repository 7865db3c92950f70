"""One round of a recording checked again: verdicts, draws, the target's token, the laws as far as known."""

from __future__ import annotations

import math

from engine.events import Alternative, Origin, Round, Settings, Verdict
from engine.recheck_block import capped_products
from engine.recheck_finding import SLACK, Grade
from engine.recheck_rules import RuleChecks


class RoundChecks(RuleChecks):
    """The checks that need a round and its settings only."""

    def _decisions(self, event: Round, settings: Settings) -> None:
        """Everything that the round decided."""
        self._expect(
            0 <= event.k <= settings.num_draft_tokens,
            "settings",
            f"{event.k} drafts were asked for, {settings.num_draft_tokens} may be",
        )
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
        if not full and settings.verify_strategy in {"speculative_sampling", "block"}:
            self._correction(event, settings)

    def _correction(self, event: Round, settings: Settings) -> None:
        """It is drawn from what the target's law has over the drafter's; under block that law is scaled."""
        target, rejected = event.target, event.drafts[event.n_accepted]
        before = event.drafts[: event.n_accepted] if settings.verify_strategy == "block" else ()
        scale = [1.0, *capped_products(before)][-1]
        p, q = scale * target.p, target.q or 0.0
        # Where the two are equal nothing is left of max(p - q, 0), and p itself is drawn from.
        if p <= q and not math.isclose(scale * rejected.p, rejected.q, rel_tol=1e-3):
            near = p >= q * (1 - SLACK)
            self._expect(
                False,
                "target",
                f"a correction has p > q; p is {p:.9g}, q {q:.9g}",
                Grade.ROUNDING if near else Grade.BUG,
            )
        if rejected.q == 1.0:
            self._expect(target.id != rejected.id, "target", "the correction is the token that was rejected")

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
        self._expect(0.0 <= value <= 1.0 + SLACK, "laws", f"{name} is {value:g}, no probability")

    def _top(self, row: tuple[Alternative, ...], name: str) -> None:
        rates = [entry.probability for entry in row]
        self._expect(rates == sorted(rates, reverse=True), "laws", f"{name} is not in order")
        self._expect(
            all(rate >= 0 for rate in rates) and sum(rates) <= 1 + SLACK, "laws", f"{name} is no law"
        )
        self._expect(len({entry.id for entry in row}) == len(row), "laws", f"{name} names an id twice")

    def _agrees(self, id_: int, value: float, row: tuple[Alternative, ...], name: str) -> None:
        """A token among the likeliest has the probability that stands there, another one no more.

        The list comes from a normalisation of its own, so the last bits may differ.
        """
        listed = [entry.probability for entry in row if entry.id == id_]
        if listed:
            self._expect(
                math.isclose(value, listed[0], rel_tol=SLACK, abs_tol=1e-9),
                "laws",
                f"{name} is {value:.9g}, in the list {listed[0]:.9g}",
            )
        elif row:
            least = row[-1].probability
            self._expect(
                value <= least * (1 + SLACK),
                "laws",
                f"{name} is {value:.9g}, yet it is not among the likeliest",
            )
