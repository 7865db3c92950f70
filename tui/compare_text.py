"""The statistics of two runs side by side, as text: values, their difference, their ratio."""

from __future__ import annotations

from typing import Any

from engine.events import Divergence
from tui.compare import Comparison
from tui.drafting import SYNTHETIC
from tui.same_text import BUG, TIE, divergence_dict, divergence_of

LABELS = {
    "speedup": "speedup",
    "tokens_per_second": "tokens/s",
    "baseline_tokens_per_second": "plain tokens/s",
    "tau": "tau",
    "alpha_hat": "alpha-hat",
    "draft_efficiency": "draft efficiency",
    "tokens": "tokens",
    "rounds": "rounds",
    "ttft_ms": "first token, ms",
    "draft_ms_per_round": "draft ms a round",
    "verify_ms_per_round": "verify ms a round",
    "host_ms_per_round": "host ms a round",
    "identical": "same as plain",
}
"""Measures by their machine-readable names, what matters most first."""
ABSENT = "--"


def measure_rows(comparison: Comparison) -> list[tuple[str, str, str, str, str]]:
    """Name, A, B, B - A and B / A of each measure."""
    measures = comparison.measures
    first, second = (
        SYNTHETIC if run.facts.synthetic else "real" for run in (comparison.first, comparison.second)
    )
    drafts = [("drafts", first, second, "", "")] if SYNTHETIC in {first, second} else []
    return [
        *drafts,
        *(
            (label, value_text(a), value_text(b), difference_text(a, b), ratio_text(a, b))
            for label, (a, b) in ((label, measures[name]) for name, label in LABELS.items())
        ),
        *_divergences(comparison),
    ]


def _divergences(comparison: Comparison) -> list[tuple[str, str, str, str, str]]:
    """What the differences from plain decoding are, if any was looked at."""
    first, second = (divergence_of(run.facts.baseline) for run in (comparison.first, comparison.second))
    if first is None and second is None:
        return []
    return [("difference is", _verdict(first), _verdict(second), "", "")]


def _verdict(found: Divergence | None) -> str:
    told = divergence_dict(found)
    if told is None:
        return ABSENT
    verdict = told["verdict"] or "not measured"
    return "BUG" if verdict == BUG else "a tie" if verdict == TIE else verdict


def setting_rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Name, A and B of each setting that differs."""
    return [
        (name.replace("_", " "), value_text(a), value_text(b)) for name, (a, b) in comparison.settings.items()
    ]


def verdict(comparison: Comparison) -> str:
    """Whether the answers are the same, and where they part; tokens counted from 1."""
    at = comparison.difference
    prompts = "" if comparison.same_prompt else "; the prompts differ"
    if at is None:
        return f"the same {len(comparison.first_tokens):,} tokens{prompts}"
    return f"they part at token {at + 1:,}{prompts}"


def value_text(value: Any) -> str:
    """A measure or a setting; "--" for an absent one."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    return str(value)


def difference_text(first: Any, second: Any) -> str:
    """second - first with its sign; "" where there is none."""
    if not _are_numbers(first, second):
        return ""
    difference = second - first
    if not difference:
        return "0"
    return f"{difference:+,}" if isinstance(difference, int) else _number(difference, "+")


def ratio_text(first: Any, second: Any) -> str:
    """second / first; "" where there is none."""
    return f"{second / first:.2f}x" if _are_numbers(first, second) and first else ""


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _number(value: float, sign: str = "") -> str:
    return format(value, f"{sign}.3g") if abs(value) < 100 else format(value, f"{sign},.0f")
