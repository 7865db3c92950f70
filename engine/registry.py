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
    follows_seed: bool = False
    """A rule with which the text at any temperature is that of plain decoding with the same seed."""
    any_tokenizer: bool = False
    """A drafter whose model may have another tokenizer than the target."""
    knows_text: bool = False
    """A drafter that is told the text: it has to be one that the seed or temperature 0 fixes."""
    options: tuple[str, ...] = ()
    """Keys of [draft] that only some methods have, and this one has."""


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
        options=("min_match", "history"),
    ),
    "hybrid": Entry(
        "engine.drafters.hybrid:HybridDrafter",
        loads_model=True,
        summary="As lookup where enough of the newest words occurred before; elsewhere a model drafts.",
        options=("min_match", "history"),
    ),
    "slem": Entry(
        "engine.drafters.slem:SlemDrafter",
        loads_model=True,
        any_tokenizer=True,
        summary="A language model with another tokenizer drafts; what it writes goes over as text.",
    ),
    "tli": Entry(
        "engine.drafters.tli:TliDrafter",
        loads_model=True,
        any_tokenizer=True,
        summary="A language model with another tokenizer drafts in the tokens that the target has too.",
    ),
    "synthetic": Entry(
        "engine.drafters.synthetic:SyntheticDrafter",
        loads_model=False,
        summary="No real drafter: it knows the answer and is right as often as asked.",
        knows_text=True,
        options=("acceptance", "cost"),
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
        follows_seed=True,
    ),
    "block": Entry(
        "engine.verify:Block",
        loads_model=False,
        summary="All drafts are judged together, which accepts more; the text keeps the target's law.",
    ),
    "match": Entry(
        "engine.verify:Match",
        loads_model=False,
        summary="The target draws its tokens, and drafts equal to them stand; the seed alone fixes the text.",
        follows_seed=True,
    ),
    "seed_exact": Entry(
        "engine.verify:SeedExact",
        loads_model=False,
        summary="As match, with noise that drafter and target share; the seed alone fixes the text.",
        follows_seed=True,
    ),
}


def load(entry: Entry) -> type:
    """Import the class behind one entry."""
    module, _, name = entry.target.partition(":")
    found: object = getattr(import_module(module), name)
    assert isinstance(found, type), f"{entry.target} is not a class"
    return found
