"""Which drafters are tried on a context, and what each changes in the configuration; torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.config import Config
from engine.config_tables import AUTO, DraftConfig
from engine.costs import MOST_DRAFTS
from engine.registry import DRAFTERS
from engine.tune_ranking import K, Value

KS: tuple[int, ...] = (1, 2, 3, 5, 8, 12, MOST_DRAFTS)
"""K of the ranking. A run at the last one tells the acceptance at all the others."""


def drafters_of(config: Config, names: Sequence[str] = ()) -> tuple[DraftConfig, ...]:
    """The drafters worth a try, each with the largest K: the configuration's own one first.

    Args:
        names: models that may draft too, beside the configuration's own one.
    """
    own = config.draft
    found = [*_own(own), _with_method(own, "lookup", None)]
    if own.model_name is not None and not DRAFTERS[own.method].any_tokenizer:
        found += [_with_method(own, method, own.model_name) for method in ("model", "hybrid")]
    for name in names:
        found += [_with_method(own, method, name) for method in ("model", "hybrid")]
    return tuple(dict.fromkeys(found))


def with_k(draft: DraftConfig, k: K) -> DraftConfig:
    """The same drafter with another K."""
    return draft.model_copy(update={"num_draft_tokens": k})


def drafter_name(draft: DraftConfig) -> str:
    """In words: "lookup", "model NAME", "hybrid with NAME"."""
    if draft.model_name is None:
        return draft.method
    return f"{draft.method} {'' if draft.method == 'model' else 'with '}{draft.model_name}"


def changes(own: DraftConfig, other: DraftConfig) -> tuple[tuple[str, Value], ...]:
    """Keys and values that lead from one drafter to another."""
    values = other.model_dump(mode="json")
    return tuple(
        (f"draft.{key}", values[key])
        for key, value in own.model_dump(mode="json").items()
        if value != values[key]
    )


def plain_changes(own: DraftConfig) -> tuple[tuple[str, Value], ...]:
    """What makes a configuration decode plainly where that is faster: K that may be 0.

    The way of drafting is one that costs next to nothing to try again.
    """
    return changes(own, with_k(_with_method(own, "lookup", None), AUTO))


def _own(own: DraftConfig) -> Iterator[DraftConfig]:
    """A drafter that is told the answer is none to choose."""
    if not DRAFTERS[own.method].knows_text:
        yield with_k(own, MOST_DRAFTS)


def _with_method(own: DraftConfig, method: str, model_name: str | None) -> DraftConfig:
    """Another way of drafting, with those of the own options that it has."""
    options = DRAFTERS[method].options
    return DraftConfig(
        method=method,
        model_name=model_name,
        quantize=own.quantize if model_name is not None and model_name == own.model_name else "none",
        sample_strategy=own.sample_strategy,
        num_draft_tokens=MOST_DRAFTS,
        min_match=own.min_match if own.method == method and "min_match" in options else None,
        history=own.history and "history" in options,
    )
