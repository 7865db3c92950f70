"""Numbers in sentences: a probability as words can hold it, two numbers told apart, what two laws think."""

from __future__ import annotations

from engine.events import DraftToken

_DIGITS = 6
"""Most decimals that two numbers are told apart by."""


def percent(share: float) -> str:
    """A probability as words can hold it: never 0 % or 100 % unless it is."""
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %"
    if share < 0.0001:
        return "under 0.01 %"
    if share > 0.999:
        return "over 99.9 %"
    value = share * 100
    return f"{value:.0f} %" if 10 <= value < 99 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"


def laws(draft: DraftToken) -> str:
    """What both models think of a draft."""
    target = "the target gives it no chance" if draft.p <= 0 else f"the target gives it {percent(draft.p)}"
    if draft.q >= 1:
        return f"{target}, the drafter guessed it for certain"
    return f"{target}, the drafter drew it with {percent(draft.q)}"


def odds(p: float, q: float) -> str:
    """p / q."""
    if q <= 0:
        return "infinity"
    ratio = p / q
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many decimals as tell them apart, at least two."""
    for decimals in range(2, _DIGITS):
        texts = _number(one, decimals), _number(other, decimals)
        # What is neither 0 nor 1 must not look like it.
        if texts[0] != texts[1] and (float(texts[0]) not in {0.0, 1.0} or one in {0.0, 1.0}):
            return texts
    return _number(one, _DIGITS), _number(other, _DIGITS)
