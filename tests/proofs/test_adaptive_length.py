"""Proof A for a K that is chosen before each round: the law is that of plain decoding, whatever is chosen.

The shipped chooser stands in the shipped round, and whole answers are walked, its memory of the rounds before
carried on. Only the times it is told are the calibrated ones: real ones would make it choose by the clock.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.calibrated import costs
from support.enumerate import Lab, distance, reference_sequences, walked_law
from support.labs import EXACT, PAIRS, lab_of

from engine.adaptive import AdaptiveLength
from engine.costs import Costs
from engine.events import Round

CHEAP = costs(0.1, 0.1)
"""K = 3 pays if most drafts stand, and K = 1 if some do."""
DEAR = costs(4.0, 0.1)
"""None does: after the first round that lost there are none with drafts."""


class Timeless(AdaptiveLength):
    """Notes the lengths it chose."""

    def __init__(self, most: int, measured: Costs, seen: set[tuple[int, ...]]) -> None:
        super().__init__(most)
        self._measured, self._seen, self._chosen = measured, seen, list[int]()
        self.calibrated(measured)

    def choose(self, room: int) -> tuple[int, str]:
        k, reason = super().choose(room)
        self._chosen.append(k)
        self._seen.add(tuple(self._chosen))
        return k, reason

    def observe(self, round_: Round) -> None:
        pass_ms = self._measured.pass_ms(len(round_.drafts) + 1)
        beside = self._measured.of_round(round_) - pass_ms
        super().observe(replace(round_, draft_ms=beside, verify_ms=pass_ms, host_ms=0.0))


def adaptive(rule: str, way: str, most: int, measured: Costs) -> tuple[Lab, set[tuple[int, ...]]]:
    """A lab in which K is chosen, and all that was chosen in it."""
    seen: set[tuple[int, ...]] = set()
    pair = "mixed" if way == "model drawn" else "random"  # drawn drafts branch, and impossible ones do not
    tried = lab_of(rule, way, PAIRS[pair], most, max_new_tokens=most + 2)
    tried.chooser_class = lambda most: Timeless(most, measured, seen)
    return tried, seen


@pytest.mark.parametrize("measured", [CHEAP, DEAR], ids=["cheap", "dear"])
@pytest.mark.parametrize(
    ("rule", "way", "most"),
    [
        ("speculative_sampling", "model drawn", 2),
        ("block", "model drawn", 2),
        ("match", "model drawn", 2),
        ("speculative_sampling", "model greedy", 3),
        ("match", "model greedy", 3),
        ("match", "lookup", 3),
    ],
)
def test_the_law_is_that_of_plain_decoding(rule: str, way: str, most: int, measured: Costs) -> None:
    tried, seen = adaptive(rule, way, most, measured)
    assert distance(walked_law(tried, 3), reference_sequences(tried, 3)) < EXACT
    lengths = {k for chosen in seen for k in chosen}
    assert (0 in lengths and max(lengths) > 0) if measured is DEAR else len(lengths) > 1, seen


def test_it_was_the_past_that_chose() -> None:
    """After the same first K another one came, as that round went well or not."""
    tried, seen = adaptive("speculative_sampling", "model greedy", 3, CHEAP)
    tried.max_new_tokens = 8
    walked_law(tried, 3)
    firsts = {chosen[0] for chosen in seen}
    seconds = {chosen[1] for chosen in seen if len(chosen) == 2}
    assert len(firsts) == 1 < len(seconds), seen
