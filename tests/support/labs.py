"""Labs for the proofs by enumeration: pairs of tables of every kind, and how far a text is from its law."""

from __future__ import annotations

import pytest
from support.enumerate import EnumeratingDraws, Lab, distance, reference_sequences, speculative_law
from support.tables import (
    KINDS,
    Table,
    TableModel,
    disjoint_tables,
    often_equal_tables,
    random_table,
    settings,
)

from engine.drafters.base import Drafter
from engine.drafters.model import ModelDrafter
from engine.events import Settings
from engine.sampling import Law
from engine.verify import GreedyMatch, SpeculativeSampling

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


def lab(
    pair: tuple[Table, Table],
    k: int,
    *,
    given: Settings | None = None,
    drafter: type[Drafter] = ModelDrafter,
    rule: SpeculativeSampling | GreedyMatch | None = None,
    greedy_drafter: bool = False,
    place: str = "middle",
    prompt: tuple[int, ...] = (0,),
    max_new_tokens: int = 1_000_000,
    law: Law | None = None,
    shift: float = 0.5,
    sizes: tuple[int, int] = (3, 3),
) -> Lab:
    return Lab(
        target=TableModel(pair[0], sizes[0], shift=shift),
        draft_model=TableModel(pair[1], sizes[1], shift=shift / 2),
        drafter_class=drafter,
        rule=rule or SpeculativeSampling(),
        k=k,
        settings=given or settings(),
        prompt=prompt,
        greedy_drafter=greedy_drafter,
        max_new_tokens=max_new_tokens,
        draws=EnumeratingDraws(place),
        law=law,
    )


def error(tried: Lab, length: int) -> float:
    """How far the text of the rounds is from the law it should have."""
    written = speculative_law(tried, length)
    assert sum(written.values()) == pytest.approx(1, abs=EXACT)
    return distance(written, reference_sequences(tried, length))
