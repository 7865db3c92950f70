"""What another K, rule of stopping or table of costs would have made of a run, from its rounds; torch-free.

The answer's own tokens are walked again. Where a draft was judged, it is known whether one at that place is
right; the walk goes from place to place by that, so predictable stretches stay stretches. Places at which no
draft was judged, those past a round's K among them, are unobserved: there a draft is right as often as at all
others, and the estimate tells how much of it rests on them. Drafts past a rejection were made for another
text; nothing is taken from them but how many there were.

These are estimates. They hold the text fixed, while a sampled run would write another one, and take a draft
to depend on the text before it, not on its place in the round. Costs are those of one calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from engine.costs import MOST_DRAFTS, Costs
from engine.events import Round


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would have come to."""

    name: str
    """Of what is other: a drafter, "K", "oracle", ..."""
    k: int | None
    """Draft tokens asked for in every round, 0 being plain decoding; None where it varies."""
    tokens: int
    rounds: float
    """Expected, as what follows."""
    drafted: float
    speedup: float
    """In times plain decoding."""
    unobserved: float = 0.0
    """Share of the judged drafts of which the recording cannot tell whether they are right."""

    @property
    def tau(self) -> float:
        """Tokens a round."""
        return self.tokens / self.rounds


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of drafting one token of an answer, all before it being committed."""

    hit: bool | None
    """Whether the draft was accepted; None: none was judged here."""
    offered: bool = True
    """False: the drafter was asked for a token here and had none."""
    source: str = ""
    q: float | None = None
    """Of the draft that was judged."""
    behind: tuple[float, ...] = ()
    """q of the drafts after this one, where it was rejected."""
    ran_out: bool = False
    """Those were all that the drafter had, though it was asked for more."""


class End(NamedTuple):
    """One way in which a round may end."""

    chance: float
    accepted: int
    given: int
    """Drafts that the drafter gave."""
    judged: float
    """Drafts that were judged, at most one of them rejected."""
    unseen: float
    """Those of them at unobserved places."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """How many drafts a round asks for, decided without looking ahead."""

    k: int
    stop_below: float | None = None
    """The draft whose q is smaller is the last one of its round. It is kept: to drop it would change the
    law of the text."""


def places(rounds: Sequence[Round]) -> list[Place]:
    """The places of an answer in order, those taken back left out."""
    found: list[Place] = []
    source = next((round_.source for round_ in rounds if round_.drafts), "")
    for round_ in rounds:
        if round_.taken_back:
            del found[-round_.taken_back :]
        source = round_.source if round_.drafts else source
        found += _places_of(round_, round_.source if round_.k else source)
    return found


def _places_of(round_: Round, source: str) -> Iterator[Place]:
    """The places of one round.

    Args:
        source: who drafted in it; where nobody was asked to, who did before.
    """
    ran_out = len(round_.drafts) < round_.k
    for draft in round_.drafts[: round_.accepted]:
        yield Place(True, source=round_.source, q=draft.q)
    if round_.was_cut:
        return
    if round_.rejected:
        draft, *behind = round_.drafts[round_.n_accepted :]
        yield Place(False, True, round_.source, draft.q, tuple(later.q for later in behind), ran_out)
    elif ran_out:
        yield Place(False, offered=False, source=round_.source)
    else:
        yield Place(None, source=source)


def hit_rate(text: Sequence[Place]) -> float:
    """How often a draft is right, of all places where one was asked for and not cut off by another."""
    known = [place for place in text if place.hit is not None]
    return sum(bool(place.hit) for place in known) / len(known) if known else 0.0


def estimate(text: Sequence[Place], costs: Costs, drafting: Drafting, name: str = "K") -> Estimate:
    """What the run would have come to with other drafting.

    Args:
        text: at least one place.
    """
    if drafting.k == 0:
        return Estimate(name, 0, len(text), float(len(text)), 0.0, 1.0)
    rate = hit_rate(text)

    price = cache(costs.round_ms)

    def ends(at: int) -> list[End]:
        return _ends(text, at, drafting, rate)

    def round_ms(at: int, given: int) -> float:
        return price(drafting.k, given, text[at].source)

    return walked(len(text), ends, round_ms).told(name, drafting.k, costs.t1_ms)


def _ends(text: Sequence[Place], at: int, drafting: Drafting, rate: float) -> list[End]:
    """How a round that begins at a place may end; one way, where everything it meets is known."""
    found: list[End] = []
    k, left, unseen = drafting.k, 1.0, 0.0
    for count, place in enumerate(text[at : at + k]):
        if not place.offered:
            return [*found, End(left, count, count, count, unseen)]
        unseen += place.hit is None
        chance = rate if place.hit is None else float(place.hit)
        if chance < 1:
            given = _given(place, count + 1, drafting)
            found.append(End(left * (1 - chance), count, given, count + 1, unseen))
        left *= chance
        if not left:
            return found
        if _stops(place.q, drafting):
            return [*found, End(left, count + 1, count + 1, count + 1, unseen)]
    judged = min(k, len(text) - at)
    return [*found, End(left, judged, k, judged, unseen)]


def _given(place: Place, drafted: int, drafting: Drafting) -> int:
    """Drafts of a round whose last judged one is rejected: the drafter could not know, and went on."""
    if _stops(place.q, drafting):
        return drafted
    for more, q in enumerate(place.behind, 1):
        if drafted + more >= drafting.k or _stops(q, drafting):
            return min(drafted + more, drafting.k)
    return min(drafted + len(place.behind), drafting.k) if place.ran_out else drafting.k


def _stops(q: float | None, drafting: Drafting) -> bool:
    return drafting.stop_below is not None and q is not None and q < drafting.stop_below


@dataclass(frozen=True, slots=True)
class Walked:
    """Expected sums over the rounds of an answer."""

    tokens: int
    rounds: float
    ms: float
    drafted: float
    judged: float
    unseen: float

    def told(self, name: str, k: int | None, t1_ms: float) -> Estimate:
        """As an estimate; ``t1_ms`` is a plain step."""
        speedup = self.tokens * t1_ms / self.ms
        unobserved = self.unseen / self.judged if self.judged else 0.0
        return Estimate(name, k, self.tokens, self.rounds, self.drafted, speedup, unobserved)


def walked(
    tokens: int, ends: Callable[[int], Sequence[End]], round_ms: Callable[[int, int], float]
) -> Walked:
    """The rounds that write ``tokens`` tokens, from the last one backwards: a round's own sums and, by the
    chances of its ends, those of what follows it.

    Args:
        ends: of a round that begins at a token.
        round_ms: what such a round takes, by its beginning and the drafts that it was given.
    """
    sums = [(0.0, 0.0, 0.0, 0.0, 0.0)] * (tokens + 1)
    for at in range(tokens - 1, -1, -1):
        rounds = ms = drafted = judged = unseen = 0.0
        for end in ends(at):
            rest = sums[min(at + end.accepted + 1, tokens)]
            rounds += end.chance * (1 + rest[0])
            ms += end.chance * (round_ms(at, end.given) + rest[1])
            drafted += end.chance * (end.given + rest[2])
            judged += end.chance * (end.judged + rest[3])
            unseen += end.chance * (end.unseen + rest[4])
        sums[at] = rounds, ms, drafted, judged, unseen
    return Walked(tokens, *sums[0])


# -- after the fact


def static_best(text: Sequence[Place], costs: Costs, most: int = MOST_DRAFTS) -> Estimate:
    """The one K that would have been the fastest for the whole answer, the smaller one of equals."""
    each = [estimate(text, costs, Drafting(k)) for k in range(most + 1)]
    return max(each, key=lambda found: (found.speedup, -(found.k or 0)))


def oracle(rounds: Sequence[Round], costs: Costs, most: int = MOST_DRAFTS) -> Estimate:
    """Each round asks for drafts of which it is known that all will be accepted, as many as make the whole
    the fastest; for none where plain steps are faster. Nothing that drafts ``most`` tokens at most, and
    cannot know, is better.

    Args:
        rounds: at least one token in all.
    """
    text = places(rounds)
    rate, price = hit_rate(text), cache(costs.round_ms)
    sums = [_Sums(0.0, 0.0, 0.0, 0.0)] * (len(text) + 1)
    for at in range(len(text) - 1, -1, -1):
        sums[at] = _best_from(text[at : at + most], costs.t1_ms, price, sums[at : at + most + 2], rate)
    whole = sums[0]
    drafted = whole.drafted
    return Walked(len(text), whole.rounds, whole.ms, drafted, drafted, whole.unseen).told(
        "oracle", None, costs.t1_ms
    )


class _Sums(NamedTuple):
    """What a text's end comes to; the milliseconds decide."""

    ms: float
    rounds: float
    drafted: float
    unseen: float

    def after(self, ms: float, k: int, unseen: int) -> _Sums:
        """With one more round before it."""
        return _Sums(self.ms + ms, self.rounds + 1, self.drafted + k, self.unseen + unseen)

    def plus(self, other: _Sums, chance: float) -> _Sums:
        """With what comes of another case."""
        return _Sums(*(mine + chance * its for mine, its in zip(self, other, strict=True)))


def _best_from(
    ahead: Sequence[Place],
    t1_ms: float,
    round_ms: Callable[[int, int, str], float],
    rest: Sequence[_Sums],
    rate: float,
) -> _Sums:
    """The best that an oracle does from a place on.

    Args:
        ahead: the places from there on.
        rest: what follows each of them and the two after them, the place itself first.
    """
    expected, left, unseen = _Sums(0.0, 0.0, 0.0, 0.0), 1.0, 0
    best = rest[1].after(t1_ms, 0, 0)
    for k, place in enumerate(ahead, 1):
        chance = rate if place.hit is None else float(place.hit)
        expected = expected.plus(best, left * (1 - chance))
        left *= chance
        if not left:
            return expected
        unseen += place.hit is None
        following = rest[min(k + 1, len(rest) - 1)]
        best = min(best, following.after(round_ms(k, k, ahead[0].source), k, unseen))
    return expected.plus(best, left)
