"""The numbers of the gauge, in the order they are shown."""

from __future__ import annotations

from collections.abc import Callable

from tui.state import Measures
from tui.widgets.bars import shown

Number = Callable[[Measures, str], str]
"""A measure as text; the second argument is what an absent one reads."""


def _alpha(measures: Measures, absent: str) -> str:
    alpha, error = measures.alpha_hat, measures.alpha_hat_error
    if alpha is None or error is None:
        return absent
    return f"{alpha:.2f}±{error:.2f}"


NUMBERS: tuple[tuple[str, Number], ...] = (
    ("speedup", lambda m, none: none if m.speedup is None else f"{m.speedup:.2f}x"),
    ("tokens/s", lambda m, none: shown(m.tokens_per_second, ".1f", none)),
    ("plain", lambda m, none: shown(m.baseline_tokens_per_second, ".1f", none)),
    ("tau", lambda m, none: shown(m.tau, ".2f", none)),
    ("alpha-hat", _alpha),
    ("efficiency", lambda m, none: shown(m.draft_efficiency, ".0%", none)),
    ("tokens", lambda m, _: str(m.tokens)),
    ("rounds", lambda m, _: str(m.rounds)),
)
