"""Labs for the proofs by enumeration: pairs of tables of every kind, and how far a text is from its law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from support.branches import EnumeratingDraws, EnumeratingNoise
from support.enumerate import DrafterFactory, Lab, distance, reference_sequences, speculative_law
from support.reference_rules import RuleThresholds, block_thresholds, token_thresholds
from support.runs import Forced
from support.tables import (
    KINDS,
    Letters,
    Table,
    TableModel,
    disjoint_tables,
    often_equal_tables,
    random_table,
    settings,
)

from engine import registry
from engine.config_tables import DraftConfig
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, SharedNoise
from engine.events import Settings
from engine.sampling import Law
from engine.verify import Block, Rule, SpeculativeSampling

EXACT = 1e-12
"""What rounding may leave."""

BIASED = 1e-3
"""What no rounding explains."""

PAIRS: dict[str, tuple[Table, Table]] = {
    "random": (random_table(1, 3), random_table(2, 3)),
    "zeros": (random_table(3, 3, ("zeros",)), random_table(4, 3, ("zeros", "random"))),
    "equal": (random_table(5, 3), random_table(5, 3)),
    "often equal": often_equal_tables(6, 3),
    "disjoint": disjoint_tables(7, 3),
    "peaked": (random_table(8, 3, ("peaked",)), random_table(9, 3, ("peaked",))),
    "mixed": (random_table(10, 3, KINDS), random_table(11, 3, KINDS)),
}


@dataclass(frozen=True)
class Way:
    """A way of drafting: a method of the registry and how it is set up."""

    method: str
    """Of the registry; "" for a drafter of the tests."""
    greedy: bool = False
    acceptance: tuple[float, ...] | None = None
    min_match: int | None = None
    prompt: tuple[int, ...] = (0,)
    own: tuple[str, ...] = ()
    """The tokens of the drafter's model, where they are not "a", "b" and "c" as the target's are."""

    @property
    def factory(self) -> DrafterFactory:
        if not self.method:
            return partial(Forced, future=(0, 1, 2, 2, 1, 0) * 2, right=[9])
        return registry.load(registry.DRAFTERS[self.method])

    @property
    def options(self) -> DraftConfig:
        name = "drafter" if registry.DRAFTERS.get(self.method, _FORCED).loads_model else None
        method = self.method or "lookup"
        return DraftConfig(
            method=method, model_name=name, acceptance=self.acceptance, min_match=self.min_match
        )


_FORCED = registry.DRAFTERS["lookup"]

WAYS: dict[str, Way] = {
    "model drawn": Way("model"),
    "model greedy": Way("model", greedy=True),
    "lookup": Way("lookup", prompt=(1, 2, 1)),
    "hybrid": Way("hybrid", prompt=(1, 2, 1, 2), min_match=2),
    # A token of two letters, and a letter that it can neither read nor write. No more ids than the noise
    # of an enumerator has.
    "slem": Way("slem", own=("c", "a", "ab")),
    # Every letter under another id, and a token that the target lacks.
    "tli": Way("tli", own=("c", "a", "b", "ab")),
    "synthetic": Way("synthetic", acceptance=(0.7, 0.4)),
    "forced": Way(""),
}
"""Every kind of drafter that the proofs go over; each method of the registry has at least one."""


def rule_named(name: str) -> Rule:
    rule: Rule = registry.load(registry.RULES[name])()
    return rule


def goes_with(rule: str, way: str) -> bool:
    """Above temperature 0: a drafter that knows the text needs a rule by which the seed fixes it."""
    if rule == "greedy_match":
        return False
    return WAYS[way].method != "synthetic" or registry.RULES[rule].follows_seed


SAMPLED = [(rule, way) for rule in registry.RULES for way in WAYS if goes_with(rule, way)]
"""What can be run above temperature 0."""


def widened(table: Table, more: int) -> Table:
    """The same law, and ids behind it that take a fifth of the whole each."""
    return lambda context: (*((1 - more / 5) * p for p in table(context)), *[1 / 5] * more)


def enumerator_for(rule: Rule, place: str = "middle") -> EnumeratingDraws:
    """The source of chance that stands for the rule's own."""
    assert rule.draws in (Draws, SharedNoise), "an unknown source of chance: it needs an enumerator"
    return (EnumeratingNoise if rule.draws is SharedNoise else EnumeratingDraws)(place)


def lab(
    pair: tuple[Table, Table],
    k: int,
    *,
    given: Settings | None = None,
    drafter: DrafterFactory = ModelDrafter,
    rule: Rule | None = None,
    greedy_drafter: bool = False,
    place: str = "middle",
    prompt: tuple[int, ...] = (0,),
    max_new_tokens: int = 1_000_000,
    law: Law | None = None,
    shift: float = 0.5,
    sizes: tuple[int, int] = (3, 3),
    draws: Draws | None = None,
    thresholds_of: RuleThresholds | None = None,
    options: DraftConfig | None = None,
    own: tuple[str, ...] = (),
) -> Lab:
    rule = rule or SpeculativeSampling()
    if thresholds_of is None:
        thresholds_of = block_thresholds if isinstance(rule, Block) else token_thresholds
    model = TableModel(pair[1], sizes[1], shift=shift / 2)
    if own:
        model.text, model.vocab_size = Letters(own), len(own)
        model.table = widened(pair[1], len(own) - sizes[1])
    return Lab(
        target=TableModel(pair[0], sizes[0], shift=shift),
        draft_model=model,
        drafter_class=drafter,
        rule=rule,
        k=k,
        settings=given or settings(),
        prompt=prompt,
        greedy_drafter=greedy_drafter,
        max_new_tokens=max_new_tokens,
        draws=draws or enumerator_for(rule, place),
        law=law,
        thresholds_of=thresholds_of,
        options=options or DraftConfig(method="lookup"),
    )


def lab_of(rule: str, way: str, pair: tuple[Table, Table], k: int, **more: Any) -> Lab:
    """A rule of the registry with one of the ``WAYS`` of drafting."""
    found = WAYS[way]
    more = {"prompt": found.prompt, "own": found.own, **more}
    return lab(
        pair,
        k,
        rule=rule_named(rule),
        drafter=found.factory,
        greedy_drafter=found.greedy,
        options=found.options,
        **more,
    )


def error(tried: Lab, length: int) -> float:
    """How far the text of the rounds is from the law it should have."""
    written = speculative_law(tried, length)
    assert sum(written.values()) == pytest.approx(1, abs=EXACT)
    return distance(written, reference_sequences(tried, length))
