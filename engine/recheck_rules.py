"""What each acceptance rule decided in a recorded round, decided again."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.events import Alternative, Round, Settings, Verdict
from engine.philox import exponential, uniform24, uniform53
from engine.recheck_block import bounds_of_h, capped_products, is_close, standing
from engine.recheck_finding import SLACK, Checks, Grade, float32

ACCEPT_STREAM, TARGET_STREAM, NOISE_STREAM = 1, 2, 3
"""``engine.draws.Stream.ACCEPT``, ``.TARGET`` and ``.NOISE``."""
Chance = tuple[int, float]
"""An id and its probability."""
_MARGIN = 1e-5
"""How far h may leave its bounds: the division that ends it is rounded too."""


class RuleChecks(Checks):
    """Verdicts again from p, q and u, and each draw again from the seed."""

    def _judgements(self, event: Round, settings: Settings) -> None:
        """The verdicts of a round whose counts are sound."""
        rules: dict[str, Callable[[Round, Settings], None]] = {
            "speculative_sampling": self._token_verification,
            "block": self._block,
            "match": self._match,
            "seed_exact": self._match,
            "greedy_match": self._greedy_match,
        }
        rule = rules.get(settings.verify_strategy)
        if not self._expect(
            rule is not None, "settings", f"there is no rule {settings.verify_strategy!r} to judge by"
        ):
            return
        assert rule is not None
        if settings.verify_strategy != "block":
            self._expect(
                all(draft.h is None for draft in event.drafts), "draw", "only the rule block has an h"
            )
        rule(event, settings)

    # -- token verification

    def _token_verification(self, event: Round, settings: Settings) -> None:
        self._draws(event, settings)
        for place, draft in enumerate(event.drafts[: event.n_accepted + 1]):
            if draft.u is not None:
                self._accepted_rightly(place, draft.u, draft.q, draft.p, draft.verdict is Verdict.ACCEPTED)

    def _draws(self, event: Round, settings: Settings) -> None:
        """Every draft has the draw that the seed gives."""
        draws = uniform24(settings.seed, event.context_length, ACCEPT_STREAM, len(event.drafts))
        for place, (draft, drawn) in enumerate(zip(event.drafts, draws, strict=True), 1):
            if self._expect(draft.u is not None, "draw", f"draft {place} has no draw"):
                self._expect(
                    draft.u == drawn,
                    "draw",
                    f"u of draft {place} is {draft.u:.9g}; seed {settings.seed} gives {drawn:.9g}",
                )

    def _accepted_rightly(self, place: int, u: float, q: float, p: float, stands: bool) -> None:
        """Accepted if and only if u q < p, in the number format of the laws or exactly."""
        exactly, rounded = u * q < p, float32(u * q) < p
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

    # -- block verification

    def _block(self, event: Round, settings: Settings) -> None:
        self._draws(event, settings)
        if not event.drafts:
            return
        if not self._expect(
            all(draft.h is not None and 0 <= draft.h <= 1 for draft in event.drafts),
            "draw",
            "under the rule block every draft has an h between 0 and 1",
        ):
            return
        self._h(event, settings)
        stand = standing(event.drafts)
        self._expect(
            event.n_accepted == stand,
            "acceptance",
            f"{event.n_accepted} drafts stand, but the last one with u < h is number {stand}",
        )

    def _h(self, event: Round, settings: Settings) -> None:
        """Each h: the last one exactly, those before it within what the recorded laws allow."""
        exact, rounded = capped_products(event.drafts), capped_products(event.drafts, rounded=True)
        last = event.drafts[-1].h
        assert last is not None
        near = is_close(last, exact[-1])
        self._expect(
            last in {exact[-1], rounded[-1]},
            "h",
            f"h of the last draft is {last:.9g}; p and q of the block give {exact[-1]:.9g}",
            Grade.ROUNDING if near else Grade.BUG,
        )
        known = settings.temperature > 0  # else the recorded rows are those at temperature 1
        for place, (draft, following) in enumerate(zip(event.drafts, event.drafts[1:], strict=False)):
            target = event.p_top[place + 1] if known else ()
            low, high = bounds_of_h(exact[place], following, target, following.q_top if known else ())
            assert draft.h is not None
            self._expect(
                low - _MARGIN <= draft.h <= high + _MARGIN,
                "h",
                f"h of draft {place + 1} is {draft.h:.9g}; p and q allow {low:.6g} to {high:.6g}",
            )

    # -- drafts that equal the target's own token

    def _greedy_match(self, event: Round, settings: Settings) -> None:
        self._draws_nothing(event)
        for draft, row in zip(event.drafts[: event.n_accepted + 1], event.p_top, strict=False):
            stands = draft.verdict is Verdict.ACCEPTED
            self._expect(
                (draft.p == 1.0) == stands,
                "acceptance",
                f"p is {draft.p:g}, and it {'stands' if stands else 'fell'}",
            )
            self._likeliest(draft.id, row, stands)

    def _match(self, event: Round, settings: Settings) -> None:
        """The target drew the accepted drafts and its own token, each at its own position."""
        if settings.temperature == 0:
            self._greedy_match(event, settings)
            return
        self._draws_nothing(event)
        accepted = event.drafts[: event.n_accepted]
        if event.n_accepted < len(event.drafts):
            self._expect(
                event.drafts[event.n_accepted].id != event.target.id,
                "acceptance",
                f"draft {event.n_accepted + 1} fell, and it is the token that the target drew",
            )
        drawn = [*((draft.id, draft.p) for draft in accepted), (event.target.id, event.target.p)]
        for place, (token, row) in enumerate(zip(drawn, event.p_top, strict=False)):
            self._drawn(event.context_length + place, token, row, settings)

    def _draws_nothing(self, event: Round) -> None:
        for draft in event.drafts:
            self._expect(draft.u is None, "draw", f"this rule draws no u, it is {draft.u}")

    def _drawn(self, position: int, token: Chance, row: tuple[Alternative, ...], settings: Settings) -> None:
        """The seed picks this token at that position, as far as the recorded part of the law can tell."""
        id_, p = token
        seed = settings.seed
        if not self._expect(p > 0, "acceptance", f"the target drew id {id_}, to which it gives nothing"):
            return
        others = [(entry.id, entry.probability) for entry in row if entry.id != id_ and entry.probability > 0]
        if settings.verify_strategy == "seed_exact":
            least = min((_arrival(seed, position, other) for other in others), default=math.inf)
            self._expect(
                _arrival(seed, position, token) <= least * (1 + SLACK),
                "draw",
                f"seed {seed} picks another id than {id_} at position {position}",
            )
            return
        point = uniform53(seed, position, TARGET_STREAM)
        low = sum(chance for other, chance in others if other < id_)
        high = 1 - sum(chance for other, chance in others if other > id_)
        self._expect(
            low - SLACK <= point <= high + SLACK,
            "draw",
            f"seed {seed} picks at {point:.9g}, where id {id_} cannot lie: it is in {low:.6g} to {high:.6g}",
        )

    def _likeliest(self, id_: int, row: tuple[Alternative, ...], stands: bool) -> None:
        """At temperature 0 a token stands if and only if no other one is likelier."""
        if not row:
            return
        best = row[0].probability
        tied = {entry.id for entry in row if entry.probability == best}
        # More may be tied than were recorded.
        among = id_ in tied or (len(tied) == len(row) and all(entry.id != id_ for entry in row))
        if len(tied) > 1 and among:
            self._expect(False, "acceptance", f"{len(tied)} tokens are the likeliest alike", Grade.TIE)
        else:
            self._expect((id_ in tied) == stands, "acceptance", f"id {row[0].id} is the likeliest, not {id_}")


def _arrival(seed: int, position: int, token: Chance) -> float:
    """What is least for the token that shared noise picks: its exponential variable by its probability."""
    id_, p = token
    return exponential(seed, position, NOISE_STREAM, id_) / p
