"""Proof A: the law of the text is that of plain decoding, by exact enumeration of the shipped functions.

Nothing of the engine is rebuilt here: the real round, plain step, rules, processors, drafters and commit run
on table models, and only the source of chance is replaced by one that walks every branch. Rules and drafters
come from the registry.
"""

from __future__ import annotations

import pytest
import torch
from support.enumerate import distance, mean_accepted, plain_law, reference_sequences, walked_law
from support.labs import EXACT, PAIRS, SAMPLED, WAYS, error, goes_with, lab, lab_of, rule_named
from support.tables import KINDS, random_table, settings
from torch import Tensor

from engine import registry
from engine.drafters.base import Draft
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.sampling import Law

WARPED = {
    "temperature": settings(temperature=0.7),
    "top-k": settings(top_k=2),
    "top-p": settings(top_p=0.8),
    "min-p": settings(min_p=0.3),
    "penalty": settings(repetition_penalty=1.4),
    "all": settings(temperature=1.3, top_k=2, top_p=0.9, min_p=0.05, repetition_penalty=1.2),
}
RULES = [rule for rule in registry.RULES if goes_with(rule, "model drawn")]
"""Those with a temperature."""
JUDGING = ["speculative_sampling", "block"]
"""Those that compare uniform numbers with thresholds."""


def test_each_method_of_the_registry_is_among_the_ways() -> None:
    missing = set(registry.DRAFTERS) - {way.method for way in WAYS.values()}
    assert not missing, f"say in WAYS of tests/support/labs.py how the proofs set up: {', '.join(missing)}"


def test_both_parts_of_a_hybrid_are_among_them() -> None:
    tried = lab_of("match", "hybrid", PAIRS["random"], 2)
    law = Law(settings(), torch.float64)
    texts = ([*tried.prompt, id_] for id_ in range(3))
    assert {tried.drafter.propose(text, 2, law, Draws(0)).source for text in texts} == {"lookup", "model"}


def test_the_other_vocabularies_are_other_ones() -> None:
    """No id means the same, and there is a token of two letters."""
    for method in (method for method, entry in registry.DRAFTERS.items() if entry.any_tokenizer):
        (way,) = (way for way in WAYS.values() if way.method == method)
        assert all(own != ours for own, ours in zip(way.own, "abc", strict=False))
        assert max(map(len, way.own)) == 2


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("rule", "way"), SAMPLED)
def test_every_rule_with_every_drafter(rule: str, way: str, pair: str) -> None:
    for k in (1, 2, 3) if pair == "mixed" else (1, 2):
        assert error(lab_of(rule, way, PAIRS[pair], k, max_new_tokens=k + 1), k + 1) < EXACT


@pytest.mark.parametrize("pair", ["zeros", "often equal"])
@pytest.mark.parametrize("rule", RULES)
def test_three_drawn_drafts(rule: str, pair: str) -> None:
    tried = lab_of(rule, "model drawn", PAIRS[pair], 3, max_new_tokens=4)
    assert error(tried, 4) < EXACT
    assert distance(plain_law(tried, 4), reference_sequences(tried, 4)) < EXACT


@pytest.mark.parametrize("place", ["low", "high"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("rule", JUDGING)
def test_the_acceptance_regions_end_where_the_paper_says(rule: str, pair: str, place: str) -> None:
    """Each interval of u is as good at its ends as in its middle, u = 0 included."""
    for way in ("model drawn", "model greedy"):
        assert error(lab_of(rule, way, PAIRS[pair], 2, place=place, max_new_tokens=3), 3) < EXACT


@pytest.mark.parametrize("rule", RULES)
def test_without_a_limit_in_sight(rule: str) -> None:
    """Rounds of the full K at every context: a long answer, of which the first tokens are looked at."""
    pair = "random" if rule in JUDGING else "mixed"
    assert error(lab_of(rule, "model drawn", PAIRS[pair], 2), 3) < EXACT


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", RULES)
def test_numbers_carried_from_round_to_round(rule: str, way: str) -> None:
    """Whole answers, nothing reset or drawn afresh between rounds, no argument about fresh numbers needed."""
    if goes_with(rule, way):
        for pair, k in (("random", 1), ("mixed", 2)):
            tried = lab_of(rule, way, PAIRS[pair], k, max_new_tokens=3)
            assert distance(walked_law(tried, 3), reference_sequences(tried, 3)) < EXACT


@pytest.mark.parametrize("warped", WARPED)
@pytest.mark.parametrize("rule", RULES)
def test_processed_laws(rule: str, warped: str) -> None:
    for pair in ("random", "zeros"):
        tried = lab_of(rule, "model drawn", PAIRS[pair], 2, given=WARPED[warped], max_new_tokens=3)
        assert error(tried, 3) < EXACT
        assert distance(plain_law(tried, 3), reference_sequences(tried, 3)) < EXACT


@pytest.mark.parametrize(("rule", "way"), SAMPLED)
def test_all_processors_with_every_drafter(rule: str, way: str) -> None:
    tried = lab_of(rule, way, PAIRS["random"], 2, given=WARPED["all"], max_new_tokens=4)
    assert error(tried, 3) < EXACT


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", registry.RULES)
def test_temperature_zero(rule: str, way: str) -> None:
    for seed in range(4):
        pair = random_table(seed, 3, ("random", "peaked", "zeros")), random_table(seed // 2, 3)
        given = settings(temperature=0.0, repetition_penalty=1.3 if seed % 2 else 1.0)
        for k in (1, 2, 3):
            tried = lab_of(rule, way, pair, k, given=given)
            text = reference_sequences(tried, 6)
            assert len(text) == 1
            assert error(tried, 6) == pytest.approx(0, abs=EXACT)
            assert distance(plain_law(tried, 6), text) == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_drafter_with_fewer_ids(rule: str) -> None:
    """No mass of q on the last id, and no draft once the text holds it."""
    small = random_table(20, 3), random_table(21, 2)
    for k in (1, 2):
        assert error(lab_of(rule, "model drawn", small, k, sizes=(3, 2), max_new_tokens=3), 3) < EXACT
        if rule in JUDGING:  # for the others five ids have too many branches
            large = random_table(20, 5), random_table(21, 4)
            assert error(lab_of(rule, "model drawn", large, k, sizes=(5, 4), max_new_tokens=3), 3) < EXACT


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_no_room_for_a_draft(rule: str, k: int) -> None:
    """One token more: the round drafts nothing and is a plain step."""
    tried = lab_of(rule, "model drawn", PAIRS["random"], k, max_new_tokens=1)
    assert error(tried, 1) < EXACT


class StopsAfterDoubt(ModelDrafter):
    """Ends the draft AFTER a token it had little confidence in; the token stays."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, 1, law, draws)
        if k == 1 or draft.q is None or float(draft.q[0, draft.ids[0]]) < 0.4:
            return draft
        # The key of a second draft is not that of the first, whatever the number of drafts.
        longer = _Indexed(draws, 1)
        more = super().propose([*tokens, *draft.ids.tolist()], 1, law, longer)
        assert more.q is not None
        assert draft.top is not None
        assert more.top is not None
        return Draft(
            torch.cat([draft.ids, more.ids]), torch.cat([draft.q, more.q]), torch.cat([draft.top, more.top])
        )


class _Indexed(Draws):
    """The draws of the next place in the round."""

    def __init__(self, inner: Draws, index: int) -> None:
        super().__init__(inner.seed)
        self.inner = inner
        self.index = index

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        return self.inner.categorical(weights, position - 1, stream, self.index)


@pytest.mark.parametrize("rule", JUDGING)
def test_stopping_after_a_kept_draft_is_lossless(rule: str) -> None:
    assert error(lab(PAIRS["random"], 2, drafter=StopsAfterDoubt, rule=rule_named(rule)), 3) < EXACT


# -- block verification accepts more


@pytest.mark.parametrize("way", ["model drawn", "model greedy"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_block_never_accepts_fewer(pair: str, k: int, way: str) -> None:
    """On average over a round; as many where K = 1 and where q is a point mass (Sun et al., theorem 2)."""
    block, token = (mean_accepted(lab_of(rule, way, PAIRS[pair], k)) for rule in ("block", JUDGING[0]))
    assert block >= token - EXACT
    if k == 1 or way == "model greedy":
        assert block == pytest.approx(token, abs=EXACT)
    elif pair == "random":
        assert block > token + 0.01


def test_the_worked_example_of_block_verification() -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3), K = 2: 10/9 drafts stand by tokens and 11/9 by the block."""
    pair = lambda _: (1 / 3, 2 / 3), lambda _: (2 / 3, 1 / 3)
    for rule, mean in (("speculative_sampling", 10 / 9), ("block", 11 / 9)):
        tried = lab_of(rule, "model drawn", pair, 2, sizes=(2, 2))
        assert mean_accepted(tried) == pytest.approx(mean, abs=EXACT)
        assert error(tried, 3) < EXACT


# -- the whole grid


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize("rule", JUDGING)
def test_many_tables(rule: str, seed: int) -> None:
    """Vocabulary 4, K = 3, no limit in sight, every kind of row."""
    pair = random_table(1000 + seed, 4, KINDS), random_table(2000 + seed, 4, KINDS)
    place = ("low", "middle", "high")[seed % 3]
    for way in ("model drawn", "model greedy"):
        assert error(lab_of(rule, way, pair, 3, sizes=(4, 4), place=place), 4) < EXACT


@pytest.mark.soak
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("rule", "way"), SAMPLED)
def test_three_drafts_of_every_kind(rule: str, way: str, pair: str) -> None:
    assert error(lab_of(rule, way, PAIRS[pair], 3, max_new_tokens=4), 4) < EXACT


@pytest.mark.soak
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("rule", RULES)
def test_whole_answers_of_every_kind(rule: str, pair: str) -> None:
    tried = lab_of(rule, "model drawn", PAIRS[pair], 2, max_new_tokens=4)
    assert distance(walked_law(tried, 4), reference_sequences(tried, 4)) < EXACT
