"""All that explains a run's speed, gathered for a screen or a report; torch-free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.costs import Costs
from engine.events import Round
from engine.predictor import Point, curve
from engine.stats import Statistics
from engine.verdict import Explanation, explain, usual_k
from engine.what_if import Drafting, Estimate, estimate, oracle, places, static_best
from engine.what_if_lookup import other_methods


@dataclass(frozen=True, slots=True)
class AfterTheFact:
    """What would have been, once the rounds are known."""

    static_best: Estimate
    """With the one K that would have been the fastest."""
    oracle: Estimate
    """With what no rule can know: how many drafts would be accepted."""
    others: tuple[Estimate, ...]
    """With other methods."""
    asked: Estimate | None
    """With the drafting that was asked about."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "static_best": told(self.static_best),
            "oracle": told(self.oracle),
            "others": [told(other) for other in self.others],
            "what_if": None if self.asked is None else told(self.asked),
        }


@dataclass(frozen=True, slots=True)
class Explained:
    """A run's speed, explained."""

    statistics: Statistics
    """Not to be changed."""
    points: tuple[Point, ...]
    """The predicted speedup for each K from 0 on; empty without costs."""
    after: AfterTheFact | None
    """None without costs, or while no token is there."""
    explanation: Explanation | None

    @property
    def costs(self) -> Costs | None:
        return self.statistics.costs

    @property
    def survival(self) -> tuple[tuple[float, bool], ...]:
        """S_1, S_2, ...: how likely a round's first i drafts come and are all accepted, and whether a draft
        was judged at that position."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return tuple((after.tau - before.tau, after.observed) for before, after in pairs)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is None."""
        return {
            "costs": None if self.costs is None else self.costs.as_dict(),
            "predicted": [asdict(point) for point in self.points],
            "survival": [chance for chance, _ in self.survival],
            "after_the_fact": None if self.after is None else self.after.as_dict(),
            "why": None if self.explanation is None else self.explanation.sentence,
        }


def explained(
    statistics: Statistics,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    drafter: str,
    *,
    k: int | None = None,
    stop_below: float | None = None,
    costs: Costs | None = None,
) -> Explained:
    """Explain a run.

    Args:
        prompt: ids before those that the rounds wrote.
        rounds: of the run, or its newest ones; what would have been is told of these.
        drafter: its method.
        k: also tell what K drafts a round would have given.
        stop_below: and what rounds that end after a draft of a smaller q would have given; K is then ``k``,
            or that of most rounds.
        costs: to go by in place of those that were measured; then no measured speedup is told.
    """
    if costs is not None:
        statistics = as_if_measured(costs, rounds)
    known = statistics.costs
    points = () if known is None else curve(statistics, known)
    asked = None
    if k is not None or stop_below is not None:
        asked = Drafting(usual_k(statistics) if k is None else k, stop_below)
    after = None if known is None else after_the_fact(prompt, rounds, known, drafter, asked)
    others = () if after is None else after.others
    return Explained(statistics, points, after, explain(statistics, others))


def after_the_fact(
    prompt: Sequence[int],
    rounds: Sequence[Round],
    costs: Costs,
    drafter: str,
    asked: Drafting | None = None,
) -> AfterTheFact | None:
    """What other drafting would have given; None where there is no token. Arguments as ``explained``."""
    text = places(rounds)
    if not text:
        return None
    return AfterTheFact(
        static_best(text, costs),
        oracle(rounds, costs),
        other_methods(prompt, written(rounds), costs, drafter),
        None if asked is None else estimate(text, costs, asked),
    )


def written(rounds: Sequence[Round]) -> list[int]:
    """The ids that rounds wrote, less what later ones took back."""
    ids: list[int] = []
    for round_ in rounds:
        if round_.taken_back:
            del ids[-round_.taken_back :]
        ids += round_.tokens
    return ids


def as_if_measured(costs: Costs, rounds: Sequence[Round]) -> Statistics:
    """The counts of rounds as if they had come after such a calibration; no time that was measured."""
    stats = Statistics(costs=costs)
    for round_ in rounds:
        stats.add(round_)
    return stats


def told(found: Estimate) -> dict[str, Any]:
    """An estimate for JSON."""
    return {**asdict(found), "tau": found.tau}
