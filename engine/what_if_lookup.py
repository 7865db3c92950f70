"""What lookup would have made of a run: replayed over the run's own ids, no model needed; torch-free.

Every round is looked up as ``engine.drafters.lookup`` does it, in the text up to there. A draft counts as
accepted where it is the token that the answer goes on with. For a greedy run that is what would have
happened; for a sampled one it is the match rule, whose chances are the same (``engine.verify``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from engine.costs import MOST_DRAFTS, Costs
from engine.drafters.suffix_automaton import MIN_MATCH, SuffixAutomaton
from engine.what_if import End, Estimate, walked

LOOKUP = "lookup"
NEWEST = 4096
"""Tokens of an answer, its newest ones, that are looked up to tell what other methods would give."""


def other_methods(
    prompt: Sequence[int], answer: Sequence[int], costs: Costs | None, drafter: str
) -> tuple[Estimate, ...]:
    """What methods that load no model, and are not the run's own, would have come to.

    Args:
        drafter: the run's method.
    """
    if costs is None or not answer or drafter == LOOKUP:
        return ()
    earlier = max(len(answer) - NEWEST, 0)
    source = LOOKUP if LOOKUP in costs.sources else None
    return (lookup_best([*prompt, *answer[:earlier]], answer[earlier:], costs, source=source),)


def lookup_best(
    prompt: Sequence[int],
    answer: Sequence[int],
    costs: Costs,
    *,
    min_match: int = MIN_MATCH,
    source: str | None = None,
) -> Estimate:
    """What lookup with its best K would have come to, the smaller one of equals; as ``lookup_each``."""
    each = lookup_each(prompt, answer, costs, min_match=min_match, source=source)
    return max(each, key=lambda found: (found.speedup, -(found.k or 0)))


def lookup_each(
    prompt: Sequence[int],
    answer: Sequence[int],
    costs: Costs,
    *,
    min_match: int = MIN_MATCH,
    source: str | None = None,
    most: int = MOST_DRAFTS,
) -> list[Estimate]:
    """What lookup with K = 1 .. ``most`` would have come to.

    Args:
        prompt: ids before the answer, those among them that were given.
        answer: at least one id.
        source: the part of the costs that looks up; None: it was not measured, and its microseconds are left
            out.
    """
    drafts = looked_up(prompt, answer, min_match=min_match, most=most)
    right = [_right(draft, answer[at : at + most]) for at, draft in enumerate(drafts)]
    return [_estimate(drafts, right, costs, k, source) for k in range(1, most + 1)]


def looked_up(
    prompt: Sequence[int], answer: Sequence[int], *, min_match: int = MIN_MATCH, most: int = MOST_DRAFTS
) -> list[list[int]]:
    """The draft for each token of an answer, the text before it being committed."""
    text = SuffixAutomaton()
    for id_ in prompt:
        text.append(id_)
    drafts = []
    for id_ in answer:
        drafts.append(text.draft(most, min_match)[0])
        text.append(id_)
    return drafts


def _right(draft: Sequence[int], following: Sequence[int]) -> int:
    """How many drafts are right before the first one that is not."""
    pairs = enumerate(zip(draft, following, strict=False))
    return next((at for at, (guess, id_) in pairs if guess != id_), min(len(draft), len(following)))


def _estimate(
    drafts: Sequence[Sequence[int]], right: Sequence[int], costs: Costs, k: int, source: str | None
) -> Estimate:
    def ends(at: int) -> list[End]:
        given = min(len(drafts[at]), k)
        accepted = min(right[at], given)
        return [End(1.0, accepted, given, min(accepted + 1, given), 0.0)]

    price = cache(costs.round_ms)

    def round_ms(at: int, given: int) -> float:
        del at
        return price(0 if source is None else k, given, source or "")

    return walked(len(drafts), ends, round_ms).told(LOOKUP, k, costs.t1_ms)
