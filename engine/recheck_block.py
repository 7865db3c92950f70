"""Block verification computed again from what a round recorded (Sun et al. 2024, 2403.10444, algorithm 2).

Letters as in ``engine.verify.Block``. P_i and h_K follow from the recorded p(x) and q(x). Before the last
draft h_i needs both laws in whole, of which a few tokens are recorded, so it is known within bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.events import Alternative, DraftToken
from engine.recheck_finding import SLACK, float32

Row = Sequence[Alternative]


def capped_products(drafts: Sequence[DraftToken], *, rounded: bool = False) -> list[float]:
    """P_i of each draft: the running product of p(x) / q(x), never above 1.

    Args:
        rounded: every step in float32, as most runs compute it; else in float64.
    """
    products, product = [], 1.0
    for draft in drafts:
        ratio = draft.p / draft.q if draft.q > 0 else float(draft.p > 0)
        product = min(product * ratio, 1.0) if not rounded else _float32_step(product, ratio)
        products.append(product)
    return products


def _float32_step(product: float, ratio: float) -> float:
    return min(float32(product * float32(ratio)), 1.0)


def bounds_of_h(product: float, following: DraftToken, target: Row, drafter: Row) -> tuple[float, float]:
    """Least and largest h_i that the recorded part of the laws allows, rounding included.

    Args:
        product: P_i.
        following: the draft after it.
        target: what is known of p_(i+1) besides p of that draft; empty where it is another law.
        drafter: the same of q_(i+1).
    """
    if following.q == 1.0:  # all of q lies there, so nothing else is taken away
        left = product * (1 - following.p)
        return _h(max(left - SLACK, 0.0), product), _h(left + SLACK, product)
    known = {
        entry.id: (entry.probability, other.probability)
        for entry in target
        for other in drafter
        if entry.id == other.id
    }
    known[following.id] = (following.p, following.q)
    least = sum(max(product * p - q, 0.0) for p, q in known.values())
    most = product - sum(min(product * p, q) for p, q in known.values())
    return _h(max(least - SLACK, 0.0), product), _h(max(most, 0.0) + SLACK, product)


def _h(s: float, product: float) -> float:
    rest = s + 1 - product
    return 1.0 if rest <= 0 else min(s / rest, 1.0)


def standing(drafts: Sequence[DraftToken]) -> int:
    """How many drafts stand: up to the last one whose draw is below its h."""
    stand = [place for place, draft in enumerate(drafts, 1) if _is_below(draft)]
    return max(stand, default=0)


def _is_below(draft: DraftToken) -> bool:
    return draft.u is not None and draft.h is not None and draft.u < draft.h


def is_close(one: float, other: float) -> bool:
    """Whether rounding in float32 explains the difference of two h."""
    return math.isclose(one, other, rel_tol=SLACK, abs_tol=1e-9)
