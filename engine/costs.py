"""What the parts of decoding cost, as measured with the models at hand; torch-free.

Letters as in ``docs/measuring.md``: t1 a whole plain step, tk(k) the same with k rows in its pass, D(K) the
time to draft K tokens over t1, r(k) = tk(k) / t1, o the extra host time of a round over t1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.events import Round

ROWS = (1, 2, 3, 5, 9, 17)
"""Rows of a target pass that are measured; what lies between is interpolated."""
KEPT = "measured before"
"""Why a run goes by costs of an earlier run."""
MOST_DRAFTS = ROWS[-1] - 1
"""The largest K that is looked at where K is to be found, predicted or compared."""
_LEAST_MS = 1e-6
"""A nanosecond: nothing that decodes a token takes less, and speedups are quotients of it."""


@dataclass(frozen=True, slots=True)
class RoundCost:
    """A round of one width, but for its drafting."""

    rows: int
    """K + 1."""
    pass_ms: float
    """Device time of the target's pass."""
    host_ms: float
    """The rest: laws, judging, bookkeeping, text."""

    @property
    def ms(self) -> float:
        return self.pass_ms + self.host_ms


@dataclass(frozen=True, slots=True)
class DraftCost:
    """A draft of one length."""

    source: str
    """The part that guesses, for a drafter that has several, as ``Round.source``."""
    drafts: int
    ms: float


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a pair at one context length, all of them medians."""

    context_length: int
    """Committed tokens when it was measured."""
    plain_pass_ms: float
    plain_host_ms: float
    rounds: tuple[RoundCost, ...]
    """By their rows, in rising order; one entry at least."""
    drafts: tuple[DraftCost, ...]
    """By source and length, in rising order; of a drafter that could not guess there is none."""
    took_ms: float
    """The measuring itself."""
    bandwidth_gbs: float | None = None
    """Weights read a second by a plain step's pass, 1e9 bytes."""
    copy_gbs: float | None = None
    """What this machine reads a second at best."""

    @property
    def t1_ms(self) -> float:
        """A whole plain step."""
        return self.plain_pass_ms + self.plain_host_ms

    @property
    def is_usable(self) -> bool:
        """Whether these can be costs: a file may say anything."""
        rows = [cost.rows for cost in self.rounds]
        times = [cost.pass_ms for cost in self.rounds] + [cost.host_ms for cost in self.rounds]
        times += [cost.ms for cost in self.drafts]
        lengths = [(cost.source, cost.drafts) for cost in self.drafts]
        speeds = [speed for speed in (self.bandwidth_gbs, self.copy_gbs) if speed is not None]
        return (
            bool(rows)
            and rows[0] >= 1
            and all(low < high for low, high in pairwise(rows))
            and all(low < high for low, high in pairwise(lengths))
            and all(cost.drafts >= 1 for cost in self.drafts)
            and min(times) >= 0
            and min(self.plain_pass_ms, self.plain_host_ms) >= 0
            and all(speed > 0 for speed in speeds)  # one is divided by the other
            and min(self.t1_ms, *(cost.ms for cost in self.rounds)) >= _LEAST_MS
        )

    def pass_ms(self, rows: int) -> float:
        """A target pass of so many rows."""
        return interpolated([(cost.rows, cost.pass_ms) for cost in self.rounds], rows)

    def host_ms(self, rows: int) -> float:
        """What a round of so many rows takes beside its passes."""
        return interpolated([(cost.rows, cost.host_ms) for cost in self.rounds], rows)

    def r(self, rows: int) -> float:
        """tk(rows) / t1."""
        return (self.pass_ms(rows) + self.plain_host_ms) / self.t1_ms

    def o(self, k: int) -> float:
        """Host time of a round of K drafts beyond that of a plain step, over t1."""
        return (self.host_ms(k + 1) - self.plain_host_ms) / self.t1_ms

    @property
    def sources(self) -> tuple[str, ...]:
        """The parts of the drafter that were measured."""
        return tuple(dict.fromkeys(cost.source for cost in self.drafts))

    def c(self, source: str | None = None) -> float | None:
        """D(1): drafting one token over a plain step; None where drafting was not measured.

        Args:
            source: a part of the drafter; None: the dearest one.
        """
        wanted = self.sources if source is None else (source,)
        found = [self.draft_ms(1, each) for each in wanted if each in self.sources]
        return max(found) / self.t1_ms if found else None

    def draft_ms(self, asked: int, source: str = "") -> float:
        """Drafting so many tokens: nothing where none is asked for.

        What came may be less: a drafter that looks up has looked, and one that translates has written.
        A source that was not measured costs what the cheapest one does: only one that looks up gives nothing.
        """
        if not asked or not self.drafts:
            return 0.0
        if source not in self.sources:
            return min(self.draft_ms(asked, each) for each in self.sources)
        points = [(cost.drafts, cost.ms) for cost in self.drafts if cost.source == source]
        return interpolated(points, asked)

    def round_ms(self, asked: int, given: int, source: str = "") -> float:
        """A whole round: its drafting, the pass of K + 1 rows, and the host.

        Args:
            asked: draft tokens asked for.
            given: K, those that came.
        """
        rows = given + 1
        return self.draft_ms(asked, source) + self.pass_ms(rows) + self.host_ms(rows)

    def as_dict(self) -> dict[str, Any]:
        """The machine-readable names; times in milliseconds, the others in plain steps."""
        return {
            "context_length": self.context_length,
            "t1_ms": self.t1_ms,
            "c": self.c(),
            "r": {str(cost.rows): self.r(cost.rows) for cost in self.rounds},
            "o": {str(cost.rows - 1): self.o(cost.rows - 1) for cost in self.rounds},
            "draft_ms": {
                source or "drafter": {
                    str(cost.drafts): cost.ms for cost in self.drafts if cost.source == source
                }
                for source in self.sources
            },
            "bandwidth_gbs": self.bandwidth_gbs,
            "copy_gbs": self.copy_gbs,
            "took_ms": self.took_ms,
        }

    def of_round(self, round_: Round) -> float:
        """What a round should take, in milliseconds."""
        return self.round_ms(round_.k, len(round_.drafts), round_.source)


def interpolated(points: Sequence[tuple[int, float]], at: int) -> float:
    """Straight lines between measured points; before the first one its value, after the last its slope.

    Args:
        points: at least one, by rising abscissa.
    """
    if len(points) == 1 or at <= points[0][0]:
        return points[0][1]
    (left, low), (right, high) = next(
        ((one, two) for one, two in pairwise(points) if at <= two[0]), (points[-2], points[-1])
    )
    slope = (high - low) / (right - left)
    if at > right:  # noise must not make a longer draft cheaper without end
        return high + max(slope, 0.0) * (at - right)
    return low + slope * (at - left)
