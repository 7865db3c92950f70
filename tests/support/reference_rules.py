"""Where the uniform numbers of each rule decide, written out from the papers in plain Python.

p are the K+1 laws of the target, q the K laws of the drafter (a point mass for a certain guess), x the
drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Laws = Sequence[Sequence[float]]
RuleThresholds = Callable[[Laws, Laws, Sequence[int]], list[float]]


def token_thresholds(p: Laws, q: Laws, x: Sequence[int]) -> list[float]:
    """p_i(x_i) / q_i(x_i): Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1."""
    return [_ratio(p[i][x_i], q[i][x_i]) for i, x_i in enumerate(x)]


def block_thresholds(p: Laws, q: Laws, x: Sequence[int]) -> list[float]:
    """h_i of Sun et al. 2024 (arXiv 2403.10444), algorithm 2."""
    thresholds: list[float] = []
    product = 1.0  # P_i
    for i, ratio in enumerate(token_thresholds(p, q, x)):
        product = min(product * ratio, 1.0)
        if i == len(x) - 1:
            thresholds.append(product)
            break
        following = zip(p[i + 1], q[i + 1], strict=True)
        s = sum(max(product * p_z - q_z, 0.0) for p_z, q_z in following)
        rest = s + 1 - product
        thresholds.append(s / rest if rest > 0 else 1.0)
    return thresholds


def product_thresholds(p: Laws, q: Laws, x: Sequence[int]) -> list[float]:
    """Products of min(1, p/q): what a biased relative of block verification compares with."""
    product, thresholds = 1.0, []
    for ratio in token_thresholds(p, q, x):
        product *= min(1.0, ratio)
        thresholds.append(product)
    return thresholds


def _ratio(p: float, q: float) -> float:
    return p / q if q else float(p > 0)
