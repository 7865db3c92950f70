"""Names a configuration may use, and where the class behind each lives. Listing them imports nothing."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True)
class Entry:
    """One choice of ``draft.method`` or ``verify.verify_strategy``."""

    target: str
    """Where it lives: "module:Class"."""
    loads_model: bool
    """Whether it needs a ``model_name`` of its own."""
    summary: str
    """One sentence for help and docs."""


DRAFTERS: dict[str, Entry] = {
    "model": Entry(
        "engine.drafters.model:ModelDrafter",
        loads_model=True,
        summary="A second, smaller language model drafts.",
    ),
    "lookup": Entry(
        "engine.drafters.lookup:LookupDrafter",
        loads_model=False,
        summary="What followed the same words earlier in the text is drafted; no model is needed.",
    ),
}

RULES: dict[str, Entry] = {
    "speculative_sampling": Entry(
        "engine.verify:SpeculativeSampling",
        loads_model=False,
        summary="A draft token is accepted with probability min(1, p/q); the text keeps the target's law.",
    ),
    "greedy_match": Entry(
        "engine.verify:GreedyMatch",
        loads_model=False,
        summary="A draft token is accepted if it is the target's likeliest one; this is temperature 0.",
    ),
}


def load(entry: Entry) -> type:
    """Import the class behind one entry."""
    module, _, name = entry.target.partition(":")
    found: object = getattr(import_module(module), name)
    assert isinstance(found, type), f"{entry.target} is not a class"
    return found
