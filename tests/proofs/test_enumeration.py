"""Proof A: the law of the text is that of plain decoding, by exact enumeration of the shipped functions.

Nothing of the engine is rebuilt here: the real round, plain step, rules, processors, drafters and commit run
on table models, and only the source of chance is replaced by one that walks every branch.
"""

from __future__ import annotations

import pytest
import torch
from support.enumerate import distance, plain_law, reference_sequences, walked_law
from support.labs import EXACT, PAIRS, error, lab
from support.tables import KINDS, random_table, settings
from torch import Tensor

from engine.drafters.base import Draft, Drafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.sampling import Law
from engine.verify import GreedyMatch, SpeculativeSampling

WARPED = {
    "temperature": settings(temperature=0.7),
    "top-k": settings(top_k=2),
    "top-p": settings(top_p=0.8),
    "min-p": settings(min_p=0.3),
    "penalty": settings(repetition_penalty=1.4),
    "all": settings(temperature=1.3, top_k=2, top_p=0.9, min_p=0.05, repetition_penalty=1.2),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_drawn_drafts(pair: str, k: int) -> None:
    tried = lab(PAIRS[pair], k, max_new_tokens=k + 1)
    assert error(tried, k + 1) < EXACT
    assert distance(plain_law(tried, k + 1), reference_sequences(tried, k + 1)) < EXACT


@pytest.mark.parametrize("place", ["low", "high"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_acceptance_regions_end_at_p_over_q(pair: str, place: str) -> None:
    """Each interval of u is as good at its ends as in its middle, u = 0 included."""
    assert error(lab(PAIRS[pair], 2, place=place, max_new_tokens=3), 3) < EXACT


@pytest.mark.parametrize("pair", ["random", "mixed"])
def test_without_a_limit_in_sight(pair: str) -> None:
    """Rounds of the full K at every context: a long answer, of which the first tokens are looked at."""
    assert error(lab(PAIRS[pair], 2), 3) < EXACT


@pytest.mark.parametrize(("pair", "k"), [("random", 1), ("mixed", 1), ("mixed", 2)])
def test_state_carried_from_round_to_round(pair: str, k: int) -> None:
    """Whole answers, nothing reset between rounds, and no draw is used twice in one."""
    tried = lab(PAIRS[pair], k, max_new_tokens=3)
    assert distance(walked_law(tried, 3), reference_sequences(tried, 3)) < EXACT


@pytest.mark.parametrize("place", ["low", "middle", "high"])
@pytest.mark.parametrize("pair", PAIRS)
def test_deterministic_drafts_of_a_model(pair: str, place: str) -> None:
    k = 3 if place == "middle" else 2
    tried = lab(PAIRS[pair], k, greedy_drafter=True, place=place, max_new_tokens=k + 1)
    assert error(tried, k + 1) < EXACT


@pytest.mark.parametrize("prompt", [(0, 1, 2, 0), (1, 1), (2,)])
@pytest.mark.parametrize("pair", ["random", "mixed"])
def test_deterministic_drafts_by_lookup(pair: str, prompt: tuple[int, ...]) -> None:
    tried = lab(PAIRS[pair], 3, drafter=LookupDrafter, prompt=prompt, max_new_tokens=4)
    assert error(tried, 4) < EXACT


@pytest.mark.parametrize("warped", WARPED)
@pytest.mark.parametrize("pair", ["random", "zeros"])
def test_processed_laws(pair: str, warped: str) -> None:
    tried = lab(PAIRS[pair], 2, given=WARPED[warped], max_new_tokens=3)
    assert error(tried, 3) < EXACT
    assert distance(plain_law(tried, 3), reference_sequences(tried, 3)) < EXACT


@pytest.mark.parametrize("drafter", [ModelDrafter, LookupDrafter])
def test_processed_laws_with_deterministic_drafts(drafter: type[Drafter]) -> None:
    tried = lab(PAIRS["random"], 2, given=WARPED["all"], drafter=drafter, greedy_drafter=True, prompt=(1, 1))
    assert error(tried, 3) < EXACT


@pytest.mark.parametrize("rule", [GreedyMatch(), SpeculativeSampling()])
@pytest.mark.parametrize("drafter", [ModelDrafter, LookupDrafter])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_temperature_zero(rule: SpeculativeSampling | GreedyMatch, drafter: type[Drafter], k: int) -> None:
    for seed in range(12):
        pair = random_table(seed, 3, ("random", "peaked", "zeros")), random_table(seed // 2, 3)
        given = settings(temperature=0.0, repetition_penalty=1.3 if seed % 2 else 1.0)
        tried = lab(pair, k, given=given, drafter=drafter, rule=rule)
        text = reference_sequences(tried, 6)
        assert len(text) == 1
        assert error(tried, 6) == 0
        assert distance(plain_law(tried, 6), text) == 0


@pytest.mark.parametrize("k", [1, 2])
def test_a_drafter_with_fewer_ids(k: int) -> None:
    """The drafter knows 4 of 5 ids: no mass of q on the fifth, and no draft once the text holds it."""
    pair = random_table(20, 5), random_table(21, 4)
    assert error(lab(pair, k, sizes=(5, 4), max_new_tokens=3), 3) < EXACT


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


def test_stopping_after_a_kept_draft_is_lossless() -> None:
    assert error(lab(PAIRS["random"], 2, drafter=StopsAfterDoubt), 3) < EXACT


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(9))
def test_many_tables(seed: int) -> None:
    """Vocabulary 4, K = 3, no limit in sight, every kind of row."""
    pair = random_table(1000 + seed, 4, KINDS), random_table(2000 + seed, 4, KINDS)
    place = ("low", "middle", "high")[seed % 3]
    assert error(lab(pair, 3, sizes=(4, 4), place=place), 4) < EXACT
    assert error(lab(pair, 3, sizes=(4, 4), place=place, greedy_drafter=True), 4) < EXACT


@pytest.mark.soak
@pytest.mark.parametrize("pair", PAIRS)
def test_whole_answers_of_every_kind(pair: str) -> None:
    tried = lab(PAIRS[pair], 2, max_new_tokens=4)
    assert distance(walked_law(tried, 4), reference_sequences(tried, 4)) < EXACT
