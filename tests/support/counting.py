"""Pearson's test: whether counts are those of a law."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
from scipy.stats import chisquare

FAIL = 1e-6
"""A p-value below this fails: a correct engine does with one seed in a million."""
_LEAST_EXPECTED = 5


Outcome = TypeVar("Outcome", bound=Hashable)


def p_value(counts: Mapping[Outcome, int], law: Mapping[Outcome, float]) -> float:
    """Of the counts, if the law were true. Cells with few expected are pooled; the impossible gives 0."""
    if any(law.get(outcome, 0.0) == 0 for outcome in counts):
        return 0.0
    total = sum(counts.values())
    cells = sorted(((total * p, counts.get(outcome, 0)) for outcome, p in law.items()), reverse=True)
    large = [cell for cell in cells if cell[0] >= _LEAST_EXPECTED]
    small = cells[len(large) :]
    expected = np.array([cell[0] for cell in large] + [sum(cell[0] for cell in small)])
    observed = np.array([cell[1] for cell in large] + [sum(cell[1] for cell in small)])
    if not small or expected[-1] == 0:
        expected, observed = expected[:-1], observed[:-1]
    elif expected[-1] < _LEAST_EXPECTED:
        expected[-2] += expected[-1]
        observed[-2] += observed[-1]
        expected, observed = expected[:-1], observed[:-1]
    return float(chisquare(observed, expected * (total / expected.sum())).pvalue)
