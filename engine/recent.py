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
_USUAL = 1.5
"""Rounds of the calibrated time that the times of the newest rounds are mixed with."""
_GIVES = 0.9
"""Chance that a drafter goes on, where that was not seen."""
_OUTLIER = 1.5
"""How many times its usual time a round is taken to have lasted at most."""


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

    What all widths have in common is no reason to choose another one: a machine that became slower did so for
    plain steps too. So a width without rounds of its own is corrected as all are together.

    Args:
        costs: of the newest calibration.
        most: the longest draft that is asked for.
        draft_cost: plain steps that each draft is charged beyond what it takes.
    """

    def __init__(self, costs: Costs, most: int, draft_cost: float = 0.0) -> None:
        self.costs = costs
        self._charged = draft_cost * costs.t1_ms
        widths = range(1, most + 2)
        self._widths = [costs.pass_ms(rows) + costs.host_ms(rows) for rows in widths]
        self._drafting = {
            source: [costs.draft_ms(k, source) for k in range(most + 1)] for source in costs.sources or ("",)
        }
        self._sources = dict.fromkeys(self._drafting, 0.0)
        self._weights, self._ratios = [0.0] * (most + 1), [0.0] * (most + 1)
        self._read_along = True

    @property
    def c(self) -> float:
        """Drafting one token over a plain step, by the dearest part of the drafter."""
        return (self.costs.c() or 0.0) + self._charged / self.costs.t1_ms

    @property
    def plain_ms(self) -> float:
        """A plain step."""
        return self.costs.t1_ms * self._correction(0, self._common())

    def add(self, round_: Round) -> None:
        """Learn how long a round took."""
        if round_.drafts:
            self._sources = {source: weight * _FADE for source, weight in self._sources.items()}
            if round_.source in self._sources:
                self._sources[round_.source] += 1.0
        at = len(round_.drafts)
        # A drafter that did not read along first catches up, which later rounds need not.
        usual, self._read_along = self._read_along or not round_.k, bool(round_.k)
        if not usual or at >= len(self._weights):
            return
        self._weights = [weight * _FADE for weight in self._weights]
        self._ratios = [ratio * _FADE for ratio in self._ratios]
        common, ratio = self._common(), round_.ms / max(self.costs.of_round(round_), 1e-6)
        self._weights[at] += 1.0
        self._ratios[at] += min(max(ratio, common / _OUTLIER), common * _OUTLIER)

    def round_ms(self, given: list[float]) -> list[float]:
        """A whole round for K = 0 .. most.

        Args:
            given: the chance that the first i drafts come, i = 1 .. most.
        """
        common = self._common()
        corrections = [self._correction(at, common) for at in range(len(self._widths))]
        scored = [ms * factor for ms, factor in zip(self._widths, corrections, strict=True)]
        steps = [chance * (scored[at + 1] - scored[at]) for at, chance in enumerate(given)]
        passes = accumulate(steps, initial=scored[0])
        drafting = self._mean_drafting()
        charged = accumulate((self._charged * chance for chance in given), initial=0.0)
        return [
            draft * factor + ms + extra
            for draft, factor, ms, extra in zip(drafting, corrections, passes, charged, strict=True)
        ]

    def _mean_drafting(self) -> list[float]:
        """Drafting K = 0 .. most tokens by whoever drafted lately; by the dearest part if none did."""
        total = sum(self._sources.values())
        if total < 1e-3:
            return max(self._drafting.values(), key=lambda ms: ms[-1])
        shares = [(weight / total, self._drafting[source]) for source, weight in self._sources.items()]
        if len(shares) == 1:
            return shares[0][1]
        return [sum(share * ms[k] for share, ms in shares) for k in range(len(self._widths))]

    def _common(self) -> float:
        """How many times as long as calibrated all rounds took together."""
        return (sum(self._ratios) + _USUAL) / (sum(self._weights) + _USUAL)

    def _correction(self, at: int, common: float) -> float:
        """The same of the rounds that ``at`` drafts came in."""
        return (self._ratios[at] + _BORROWED * common) / (self._weights[at] + _BORROWED)
