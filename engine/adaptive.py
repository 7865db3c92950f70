"""How many tokens to draft next: always the same, or whatever past rounds and measured costs say; torch-free.

A choice is made before its round drafts, from rounds that are over. It sees neither the draft nor anything
drawn for it, and nothing drafted is withdrawn, so the text keeps the target's law: given what is committed, a
round of any length is exact (``docs/exactness.md``).

``AdaptiveLength`` picks the K of the largest Speedup(K) = tau(K) t1 / (time of a round), as
``engine.predictor`` does after a run, but with what happened long ago forgotten. K = 0 is plain decoding.
"""

from __future__ import annotations

from typing import Protocol

from engine.costs import Costs
from engine.events import Round, Settings
from engine.recent import RecentAcceptance, RecentTimes

AUTO = "auto"
OFF = "auto: off"
"""How ``Round.k_reason`` begins where drafting would not pay."""
PROBE = "probe"
LIMIT = "limit near"
START = 4
"""K while no cost is known, and the most for a first try or a probe."""
_BUDGET, _BUDGET_AFTER_PROBE = 3.0, 2.0
"""Plain steps that drafting may lose before it is turned off: while it is on, and just after a probe."""
_OFF_BELOW = 0.975
"""Speedup below which drafting is turned off. Closer to 1 the noise of the estimate would decide."""
_PROBE_EVERY = 32
"""Least tokens between two probes."""
_TOKENS_A_STEP = 250
"""Tokens between the first probes of a drafter that takes a plain step a token; fewer for others."""
_PROBE_SHARE = 0.007
"""Largest share of the time that probes may lose."""
_DOUBT = 0.25
"""What is left of the evidence against a drafter when a probe succeeds."""


class LengthChooser(Protocol):
    """Says how many tokens a round is to draft."""

    def choose(self, room: int) -> tuple[int, str]:
        """K of the next round, 0 .. ``room``, and why.

        Args:
            room: tokens that fit before the target's own one.
        """

    def observe(self, round_: Round) -> None:
        """Learn of a round that is over."""

    def calibrated(self, costs: Costs | None) -> None:
        """Learn what things cost; the same costs again change nothing."""

    def begin(self) -> None:
        """Another text begins: what did not pay before is tried once more."""


class FixedLength:
    """The same K in every round, as long as there is room."""

    def __init__(self, k: int) -> None:
        self._k = k

    def choose(self, room: int) -> tuple[int, str]:
        return (self._k, "fixed") if self._k <= room else (room, LIMIT)

    def observe(self, round_: Round) -> None:
        """Nothing that happens changes it."""

    def calibrated(self, costs: Costs | None) -> None:
        """Nor does anything that is measured."""

    def begin(self) -> None:
        """Nor another text."""


class AdaptiveLength:
    """The K that pays most by what the newest rounds were like; none where none pays, with a probe at times.

    Turned off it stays so for 32 tokens at least, and longer the dearer the drafter is: what the last probe
    lost, with all that the drafter had to read first, may only be a small share of the time. A drafter that
    looks up costs nothing until it finds something, so a probe of it lasts until it does. One probe that
    succeeds turns drafting on again.

    Args:
        most: largest K.
        draft_cost: plain steps that each draft is charged beyond what it takes; for synthetic drafters.
    """

    def __init__(self, most: int, draft_cost: float = 0.0) -> None:
        assert most >= 1, "a draft has a token at least"
        self._most, self._draft_cost = most, draft_cost
        self._acceptance = RecentAcceptance(most)
        self._times: RecentTimes | None = None
        self._pending: Round | None = None
        self._k = 0
        self._is_on = True
        self._lost, self._budget = 0.0, _BUDGET
        self._wait = 0.0
        self._best = 1.0

    def choose(self, room: int) -> tuple[int, str]:
        self._digest()
        if self._times is None:
            k, reason = min(START, self._most), AUTO
        elif self._is_on and self._still_pays(self._times):
            k, reason = self._k, AUTO
        elif self._wait > 0:
            return 0, f"{OFF}, best K gives {self._best:.2f}x"
        else:
            k, reason = self._first(self._times), PROBE
        return (k, reason) if k <= room else (room, LIMIT)

    def observe(self, round_: Round) -> None:
        self._pending = round_  # what it teaches is worked out in the time of the next round

    def calibrated(self, costs: Costs | None) -> None:
        if costs is None or (self._times is not None and self._times.costs is costs):
            return
        self._times = RecentTimes(costs, self._most, self._draft_cost)
        self._k = self._k or self._first(self._times)

    def begin(self) -> None:
        self._digest()
        self._acceptance.fade(0.5)
        self._wait = 0.0

    # -- what a round teaches

    def _digest(self) -> None:
        round_, self._pending = self._pending, None
        if round_ is None:
            return
        if self._times is not None:
            self._times.add(round_)
        if round_.k == 0:
            self._wait -= len(round_.tokens)
            return
        self._acceptance.add(round_)
        if self._times is not None:
            self._judge(round_, self._times)

    def _judge(self, round_: Round, times: RecentTimes) -> None:
        lost = round_.ms / times.plain_ms - len(round_.tokens) + self._draft_cost * len(round_.drafts)
        if self._is_on:
            # A cumulative sum (Page 1954): what was gained long ago does not pay for what is lost now.
            self._lost = max(0.0, self._lost + lost)
        elif 2 * round_.accepted > len(round_.drafts):
            self._acceptance.fade(_DOUBT)
            self._is_on = True
            self._lost, self._budget = 0.0, _BUDGET_AFTER_PROBE
        elif round_.drafts:
            self._wait_longer(times, lost)

    def _wait_longer(self, times: RecentTimes, lost: float = 0.0) -> None:
        """Let some tokens pass before the next probe: the more, the more the last one lost."""
        self._wait = max(_PROBE_EVERY, _TOKENS_A_STEP * times.c, lost / _PROBE_SHARE)

    # -- what follows from it

    def _still_pays(self, times: RecentTimes) -> bool:
        """Take the best K; False if none is worth its time."""
        speedups = self._speedups(times)
        best = max(range(1, self._most + 1), key=lambda k: speedups[k])
        self._best = speedups[best]
        if self._best < _OFF_BELOW and self._lost > self._budget:
            self._is_on, self._lost = False, 0.0
            self._wait_longer(times)
            return False
        self._k = best
        return True

    def _speedups(self, times: RecentTimes) -> list[float]:
        """For K = 0 .. most, each over plain decoding."""
        taus, given = self._acceptance.taus(), self._acceptance.given()
        plain = times.plain_ms
        return [tau * plain / ms for tau, ms in zip(taus, times.round_ms(given), strict=True)]

    def _first(self, times: RecentTimes) -> int:
        """A K to begin with, and to probe with: the best one for a drafter of which nothing is known."""
        unknown = RecentAcceptance(self._most)
        ms = times.round_ms(unknown.given())
        taus = unknown.taus()
        return max(range(1, min(START, self._most) + 1), key=lambda k: taus[k] / ms[k])


def chooser_for(settings: Settings) -> LengthChooser:
    """What the settings ask for, new: nothing is known yet."""
    most = settings.num_draft_tokens
    return AdaptiveLength(most, settings.draft_cost or 0.0) if settings.adaptive else FixedLength(most)
