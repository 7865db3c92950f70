"""What the newest rounds were like, older ones forgotten bit by bit; torch-free.

Chances are products of conditional rates, so that rounds which asked for less say nothing about later
positions (Kaplan and Meier 1958); each past round counts less than the one after it.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from engine.costs import Costs
from engine.events import Round

HALF_LIFE = 40
"""Rounds with a draft after which a round counts half."""
_FADE = 0.5 ** (1 / HALF_LIFE)
_PRIOR = 0.75
"""Acceptance that a drafter of which nothing is known is taken to have."""
_PRIOR_ROUNDS = 3.0
"""What that counts for at first; it is forgotten like any round, but for the last bit of it."""
_LEAST_PRIOR = 0.5
_BORROWED = 6.0
"""Rounds that the rate of the position before counts for."""
_USUAL = 3.0
"""Rounds of the expected time that the times of the newest rounds are mixed with."""
_GIVES = 0.9
"""Chance that a drafter goes on, where that was not seen."""
_OUTLIER = 1.5
"""How many times its usual time something is taken to have lasted at most."""
_LEAST_MS, _LEAST_WEIGHT = 1e-6, 1e-3
"""Less is as good as nothing, and nothing is divided by it."""


class _Rates:
    """How often something happened at each position, of how often it could."""

    def __init__(self, most: int) -> None:
        self.happened, self.tried = [0.0] * most, [0.0] * most

    def add(self, at: int, *, happened: bool) -> None:
        self.tried[at] += 1.0
        self.happened[at] += happened

    def fade(self, factor: float) -> None:
        self.happened = [count * factor for count in self.happened]
        self.tried = [count * factor for count in self.tried]


class RecentAcceptance:
    """How far drafts come and stand.

    Args:
        most: the longest draft that is asked for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._prior = _PRIOR_ROUNDS
        self._stood = _Rates(most)  # drafts that were accepted, of those given after accepted ones
        self._followed = _Rates(most)  # given, of those asked for after accepted ones
        self._came = _Rates(most)  # given, of those asked for after given ones

    def add(self, round_: Round) -> None:
        """Count a round with drafts asked for. One in which nothing was found is no rejection."""
        self.fade(_FADE)
        asked, given = min(round_.k, self._most), min(len(round_.drafts), self._most)
        accepted = min(round_.accepted, given)
        for at in range(accepted):
            self._followed.add(at, happened=True)
            self._stood.add(at, happened=True)
        if not round_.was_cut and accepted < asked:
            self._followed.add(accepted, happened=round_.rejected)
            if round_.rejected:
                self._stood.add(accepted, happened=False)
        for at in range(given):
            self._came.add(at, happened=True)
        if given < asked:
            self._came.add(given, happened=False)

    def fade(self, factor: float) -> None:
        """Have all that was seen count less."""
        self._prior = max(self._prior * factor, _LEAST_PRIOR)
        for rates in (self._stood, self._followed, self._came):
            rates.fade(factor)

    def taus(self) -> list[float]:
        """Tokens a round for K = 0 .. most."""
        stands, weight, chances = _PRIOR, self._prior, list[float]()
        comes = _GIVES
        positions = zip(
            self._stood.happened,
            self._stood.tried,
            self._followed.happened,
            self._followed.tried,
            strict=True,
        )
        for stood, judged, followed, wanted in positions:
            stands = (stood + weight * stands) / (judged + weight)
            likely = max(comes, _GIVES)  # a drafter that found something mostly goes on
            comes = (followed + _LEAST_PRIOR * likely) / (wanted + _LEAST_PRIOR)
            chances.append(stands * comes)
            weight = _BORROWED
        survival = accumulate(chances, mul)  # S_1 .. S_most
        return list(accumulate(survival, initial=1.0))

    def given(self) -> list[float]:
        """The chance that the first i drafts come if as many are asked for, i = 1 .. most."""
        counts = zip(self._came.happened, self._came.tried, strict=True)
        chances = ((came + _GIVES * _LEAST_PRIOR) / (asked + _LEAST_PRIOR) for came, asked in counts)
        return list(accumulate(chances, mul))


class RecentTimes:
    """What rounds take: calibrated costs, corrected by how long the newest rounds really took.

    The target's passes are corrected by their width, the rest of a round (drafting, judging) as a whole. A
    width that was not seen lately is corrected as all are together: a machine that became slower did so for
    plain steps too.

    Args:
        costs: of the newest calibration.
        most: the longest draft that is asked for.
        draft_cost: plain steps that each draft is charged beyond what it takes.
    """

    def __init__(self, costs: Costs, most: int, draft_cost: float = 0.0) -> None:
        self.costs = costs
        self._charged = draft_cost * costs.t1_ms
        widths = range(1, most + 2)
        self._passes = [costs.pass_ms(rows) for rows in widths]
        self._hosts = [costs.host_ms(rows) for rows in widths]
        self._drafting = {
            source: [costs.draft_ms(k, source) for k in range(most + 1)] for source in costs.sources or ("",)
        }
        self._sources = dict.fromkeys(self._drafting, 0.0)
        self._by_width = [_Ratio() for _ in widths]
        self._all, self._beside = _Ratio(), _Ratio()
        self._read_along = True

    @property
    def c(self) -> float:
        """Drafting one token over a plain step, by the dearest part of the drafter."""
        return (self.costs.c() or 0.0) + self._charged / self.costs.t1_ms

    @property
    def plain_ms(self) -> float:
        """A plain step."""
        common = self._all.value()
        return self.costs.plain_pass_ms * self._by_width[0].value(common) + self.costs.plain_host_ms * common

    def add(self, round_: Round) -> None:
        """Learn how long a round took."""
        if round_.drafts:
            self._sources = {source: weight * _FADE for source, weight in self._sources.items()}
            if round_.source in self._sources:
                self._sources[round_.source] += 1.0
        at = len(round_.drafts)
        if at >= len(self._passes):
            return
        pass_ms = max(self._passes[at], _LEAST_MS)
        for ratio in self._by_width:
            ratio.fade()
        for ratio in (self._by_width[at], self._all):
            ratio.add(round_.verify_ms / pass_ms)
        # A drafter that did not read along first catches up, which later rounds need not.
        if round_.drafts and self._read_along:
            beside = max(self.costs.of_round(round_) - pass_ms, _LEAST_MS)
            self._beside.add((round_.ms - round_.verify_ms) / beside)
        self._read_along = bool(round_.k)

    def round_ms(self, given: list[float]) -> list[float]:
        """A whole round for K = 0 .. most.

        Args:
            given: the chance that the first i drafts come, i = 1 .. most.
        """
        common, beside = self._all.value(), self._beside.value()
        scored = [
            pass_ms * ratio.value(common) + host_ms * beside
            for pass_ms, host_ms, ratio in zip(self._passes, self._hosts, self._by_width, strict=True)
        ]
        steps = (chance * (scored[at + 1] - scored[at] + self._charged) for at, chance in enumerate(given))
        passes = accumulate(steps, initial=scored[0])
        return [draft * beside + ms for draft, ms in zip(self._mean_drafting(), passes, strict=True)]

    def _mean_drafting(self) -> list[float]:
        """Drafting K = 0 .. most tokens by whoever drafted lately; by the dearest part if none did."""
        total = sum(self._sources.values())
        if total < _LEAST_WEIGHT:
            return max(self._drafting.values(), key=lambda ms: ms[-1])
        shares = [(weight / total, self._drafting[source]) for source, weight in self._sources.items()]
        if len(shares) == 1:
            return shares[0][1]
        return [sum(share * ms[k] for share, ms in shares) for k in range(len(self._passes))]


class _Ratio:
    """How many times as long as expected something took lately."""

    __slots__ = ("_sum", "_weight")

    def __init__(self) -> None:
        self._sum = self._weight = 0.0

    def add(self, ratio: float) -> None:
        """Count one more; one that is far off counts as less far."""
        now = self.value()
        self.fade()
        self._weight += 1.0
        self._sum += min(max(ratio, now / _OUTLIER), now * _OUTLIER)

    def fade(self) -> None:
        self._sum *= _FADE
        self._weight *= _FADE

    def value(self, expected: float = 1.0) -> float:
        """Mixed with what is expected where there is little."""
        return (self._sum + _USUAL * expected) / (self._weight + _USUAL)
