"""Several drafts for one place: what the papers say, in fractions. No rule of the engine, but a known trap.

SpecInfer (Miao et al. 2023, arXiv 2305.09781) and Sequoia (Chen et al. 2024, arXiv 2402.12374).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import pytest

LawOf = dict[int, Fraction]
P: LawOf = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 6)}
Q: LawOf = {0: Fraction(1, 6), 1: Fraction(1, 6), 2: Fraction(2, 3)}


def normalised(law: LawOf) -> LawOf:
    total = sum(law.values())
    return {x: weight / total for x, weight in law.items()} if total else {}


def written(children: int, *, replaced: bool, renormalised: bool = True) -> LawOf:
    """The law of the token after so many children were tried one after another.

    Args:
        replaced: whether a child may be drawn again.
        renormalised: whether q is made a law again after its child was taken out.
    """
    law: LawOf = defaultdict(Fraction)

    def walk(left: int, target: LawOf, q: LawOf, said: LawOf, weight: Fraction) -> None:
        """``q`` is what children are drawn from, ``said`` what the rule takes for it."""
        if left == 0 or not q:
            for x, p_x in target.items():
                law[x] += weight * p_x
            return
        for x, q_x in q.items():
            accept = min(Fraction(1), target.get(x, Fraction(0)) / said[x])
            law[x] += weight * q_x * accept
            if accept < 1:
                rest = {z: max(p_z - said.get(z, Fraction(0)), Fraction(0)) for z, p_z in target.items()}
                others = q if replaced else {z: w for z, w in q.items() if z != x}
                drawn = normalised(others)
                told = drawn if renormalised else {z: said[z] for z in others}
                walk(left - 1, normalised(rest), drawn, told, weight * q_x * (1 - accept))

    walk(children, P, Q, Q, Fraction(1))
    return dict(law)


@pytest.mark.parametrize("children", [1, 2, 3])
@pytest.mark.parametrize("replaced", [True, False])
def test_the_law_is_the_targets(children: int, replaced: bool) -> None:
    assert written(children, replaced=replaced) == P


def test_mutant_without_renormalising_is_biased() -> None:
    assert written(2, replaced=False, renormalised=False) != P
