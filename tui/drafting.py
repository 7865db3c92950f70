"""How a run drafts and judges, in words: the drafter with its options, and whether it is a synthetic one.

A synthetic drafter knows the answer. What a run with it measures is what a drafter of that acceptance WOULD
bring, so its numbers never stand without the word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.events import Settings
from engine.registry import DRAFTERS

SYNTHETIC = "synthetic"
SYNTHETIC_DRAFTS = "Synthetic drafts, which cost nothing:"
"""Stands before a sentence that holds a speedup."""
_OF_SYNTHETIC = "acceptance"
"""The option by which a method is told to be a synthetic one."""


def is_synthetic(method: str) -> bool:
    """Whether a drafting method knows the answer."""
    entry = DRAFTERS.get(method)
    return entry is not None and _OF_SYNTHETIC in entry.options


def loads_model(method: str) -> bool:
    """Whether a drafting method loads a model; one that is not known may."""
    return method not in DRAFTERS or DRAFTERS[method].loads_model


def any_synthetic(segments: Iterable[Settings | None]) -> bool:
    """Whether a part of a run was drafted by a synthetic drafter."""
    return any(settings is not None and is_synthetic(settings.drafter) for settings in segments)


def rule_words(rule: str) -> str:
    """The name of an acceptance rule, as short as it can be read."""
    return "sampling" if rule == "speculative_sampling" else rule.replace("_", " ")


def drafter_words(method: str, model: str | None) -> str:
    """Who drafts: the model, the method, or both where the method does more than to run its model.

    Args:
        model: name of the drafter's model; None where none is held.
    """
    if model is None or not method:
        return method
    return model if method == "model" else f"{method} {model}"


def option_words(settings: Settings) -> list[str]:
    """What there is to say of a drafter's own options."""
    words = []
    if settings.acceptance:
        words.append(f"right with probability {shares_text(settings.acceptance)} by its place")
    if settings.draft_cost:
        words.append(f"a draft costs {settings.draft_cost:.2f} of a plain step")
    if settings.min_match is not None:
        tokens = "token" if settings.min_match == 1 else "tokens"
        words.append(f"after at least {settings.min_match} equal {tokens}")
    if settings.history:
        words.append("also in earlier answers")
    return words


def shares_text(shares: Sequence[float]) -> str:
    """Acceptances by the place of the draft."""
    return ", ".join(f"{share:g}" for share in shares)


def synthetic_of(measures: Mapping[str, Any], settings: Settings | None) -> dict[str, Any] | None:
    """What the measures say of a synthetic drafter, else what the settings do; None for a real one."""
    told: dict[str, Any] | None = measures.get(SYNTHETIC)
    if told is not None or settings is None or not is_synthetic(settings.drafter):
        return told
    cost = settings.draft_cost or 0.0
    return {"acceptance": list(settings.acceptance), "draft_cost": cost, "speedup_at_cost": None}


def synthetic_sentence(sentence: str, synthetic: Mapping[str, Any] | None) -> str:
    """What a speedup means where drafts are synthetic: as measured, and with what they would have cost."""
    said = f"{SYNTHETIC_DRAFTS} {sentence}"
    cost, there = (synthetic or {}).get("draft_cost"), (synthetic or {}).get("speedup_at_cost")
    if cost and there is not None:
        said += f" It would be {there:.2f} times if drafting a token cost {cost:g} of a plain step."
    return said


def speedup_words(speedup: float, synthetic: Mapping[str, Any] | None) -> str:
    """A speedup as it was measured; of a synthetic run with what it leaves out."""
    words = f"{speedup:.2f}x" if speedup >= 1 else f"slower than plain decoding: {speedup:.2f}x"
    if synthetic is None:
        return words
    words = f"{SYNTHETIC}: {words} as measured, with drafts that cost nothing"
    cost, there = synthetic.get("draft_cost"), synthetic.get("speedup_at_cost")
    if cost and there is not None:
        words += f"; {there:.2f}x if drafting a token cost {cost:.2f} of a plain step"
    return words
