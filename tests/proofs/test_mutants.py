"""Known mistakes: the proof by enumeration must see every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from support import mutants
from support.enumerate import (
    Lab,
    distance,
    mean_accepted,
    reference_sequences,
    round_law,
    speculative_law,
    walked_law,
)
from support.labs import BIASED, EXACT, PAIRS, WAYS, error, lab, lab_of, rule_named
from support.reference_rules import product_thresholds
from support.tables import ListCache, random_table, settings
from torch import Tensor

from engine.drafters.base import Draft
from engine.drafters.tli import TliDrafter
from engine.draws import Draws
from engine.sampling import Law
from engine.verify import Block, Match

PENALTY = settings(repetition_penalty=2.0)
CUT = settings(temperature=0.7, top_k=2)
RANDOM = PAIRS["random"]
SKEWED = random_table(50, 3), random_table(150, 3)
"""Often a first draft stands although P_1 < 1; in most pairs of so few ids hardly ever."""


class WarmQ(mutants.WarmQ):
    warm = Law(settings(temperature=0.7), torch.float64)


class RawQ(mutants.RawQ):
    raw = Law(settings(), torch.float64)


class CutQ(TliDrafter):
    """Reports its softmax over all its tokens, of which the one that the target lacks has a fifth."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return draft if draft.q is None else replace(draft, q=draft.q * 0.8)


class OwnIdsQ(TliDrafter):
    """Reports its law in the order of its own ids."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        order = ["abc".index(token) for token in WAYS["tli"].own if len(token) == 1]
        return draft if draft.q is None else replace(draft, q=draft.q[:, order])


def walked_error(tried: Lab) -> float:
    return distance(walked_law(tried, 3), reference_sequences(tried, 3))


@contextmanager
def patched(residual: Callable[..., Tensor]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.verify.residual", residual)
        yield


def from_p(p: Tensor, q: Tensor | None, drafts: Tensor, n_accepted: Tensor) -> Tensor:
    return p[n_accepted]


def with_epsilon(p: Tensor, q: Tensor | None, drafts: Tensor, n_accepted: Tensor) -> Tensor:
    """1e-9 for every id of the vocabulary, so that the sum is never 0."""
    n = int(n_accepted)
    if n == len(drafts) or q is None:
        return p[n]
    return (p[n] - q[n]).clamp(min=0) + 1e-9


def error_with(residual: Callable[..., Tensor], pair: str = "random", **more: Any) -> float:
    with patched(residual):
        return error(lab(PAIRS[pair], 2, **more), 2)


def looking_ahead() -> Lab:
    tried = lab(RANDOM, 2)
    tried.chooser_class = lambda k: mutants.LooksAtTheDraft(tried, k)
    return tried


@dataclass(frozen=True)
class Mutant:
    """A mistake, and how far it takes the law of the text from where it should be."""

    source: str
    """Where it is known from: a trap of speculative decoding as commonly implemented, or a paper."""
    error: Callable[[], float]
    least: float = BIASED


MUTANTS = {
    # The q reported is not the q sampled.
    "argmax with softmax q": Mutant(
        "trap 1", lambda: error(lab(RANDOM, 2, drafter=mutants.ArgmaxWithSoftmaxQ, greedy_drafter=True), 2)
    ),
    "drawn at 0.7, reported at 1": Mutant("trap 1", lambda: error(lab(RANDOM, 2, drafter=WarmQ), 2)),
    "reported before the processors": Mutant(
        "trap 1", lambda: error(lab(RANDOM, 2, drafter=RawQ, given=CUT), 2)
    ),
    "argmax with softmax q, by blocks": Mutant(
        "trap 1",
        lambda: error(
            lab(RANDOM, 2, drafter=mutants.ArgmaxWithSoftmaxQ, greedy_drafter=True, rule=Block()), 2
        ),
    ),
    # Numbers.
    "u <= p/q": Mutant(
        "trap 2", lambda: error(lab(PAIRS["disjoint"], 2, place="low", rule=mutants.AcceptsAtZero()), 2)
    ),
    "an epsilon over the vocabulary": Mutant("trap 3", lambda: error_with(with_epsilon), least=100 * EXACT),
    "a vocabulary cut without renormalising": Mutant(
        "trap 5",
        lambda: error(lab((RANDOM[0], random_table(31, 4)), 2, drafter=mutants.WideQ, sizes=(3, 4)), 2),
    ),
    "one key for all rounds": Mutant(
        "trap 6", lambda: walked_error(lab(RANDOM, 1, draws=mutants.OneKeyForAllRounds(), max_new_tokens=3))
    ),
    "the target's numbers for the draft": Mutant(
        "trap 6", lambda: error(lab(RANDOM, 2, drafter=mutants.ReadsTheTargetsNumbers), 2)
    ),
    "the target's numbers for the draft, by blocks": Mutant(
        "trap 6", lambda: error(lab(RANDOM, 2, drafter=mutants.ReadsTheTargetsNumbers, rule=Block()), 2)
    ),
    "shared tokens without renormalising": Mutant(
        "Timor et al.", lambda: error(lab(RANDOM, 2, drafter=CutQ, own=WAYS["tli"].own), 2)
    ),
    "shared tokens under the drafter's ids": Mutant(
        "Timor et al.", lambda: error(lab(RANDOM, 2, drafter=OwnIdsQ, own=WAYS["tli"].own), 2)
    ),
    # Rules.
    "resampling from p": Mutant("Leviathan et al.", lambda: error_with(from_p)),
    "resampling from p after a certain draft": Mutant(
        "Leviathan et al.", lambda: error_with(from_p, greedy_drafter=True)
    ),
    "lenience": Mutant("lossy rules", lambda: error(lab(RANDOM, 2, rule=mutants.Lenient()), 2)),
    "dropping a doubtful draft": Mutant(
        "looking ahead", lambda: error(lab(RANDOM, 2, drafter=mutants.DropsDoubt), 2)
    ),
    "deciding on a draft by the next one": Mutant(
        "looking ahead", lambda: error(lab(RANDOM, 2, drafter=mutants.DecidesByTheSecond), 2)
    ),
    "choosing K by what would be drafted": Mutant("looking ahead", lambda: error(looking_ahead(), 2)),
    "a block that breaks at the first failure": Mutant(
        "Sun et al.", lambda: error(lab(RANDOM, 2, rule=mutants.BlockThatBreaks()), 3)
    ),
    "a block with the token residual": Mutant(
        "Sun et al.", lambda: error(lab(SKEWED, 2, rule=mutants.BlockWithTokenResidual()), 3)
    ),
    "products of min(1, p/q) with the token residual": Mutant(
        "Sun et al.",
        lambda: error(lab(RANDOM, 2, rule=mutants.ProductOfRatios(), thresholds_of=product_thresholds), 3),
    ),
    "match with one key for a round": Mutant(
        "trap 6", lambda: error(lab(RANDOM, 2, rule=mutants.MatchWithOneKey()), 2)
    ),
    "noise without a position": Mutant(
        "Daliri et al.",
        lambda: error(lab(RANDOM, 2, rule=rule_named("seed_exact"), draws=mutants.NoiseWithoutPosition()), 2),
    ),
    # Processors.
    "penalty without the draft prefix": Mutant(
        "Leviathan et al.",
        lambda: error(
            lab(RANDOM, 2, given=PENALTY, law=mutants.ForgetsDraftPrefix(PENALTY, torch.float64)), 2
        ),
    ),
    "penalty by the whole draft": Mutant(
        "Leviathan et al.",
        lambda: error(lab(RANDOM, 2, given=PENALTY, law=mutants.SeesTheFuture(PENALTY, torch.float64)), 2),
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_is_seen(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.error() > mutant.least, mutant.source


def test_a_target_cache_that_is_rewound_wrongly_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right length and the wrong content: a rewind that drops the oldest entries (trap 7)."""
    monkeypatch.setattr(ListCache, "truncate", lambda cache, length: cache.ids.__delitem__(slice(0, -length)))
    with pytest.raises(AssertionError, match="all committed tokens but the newest"):
        round_law(lab(RANDOM, 2, prompt=(0, 1)), ())


def test_the_worked_example_of_dropping_low_confidence() -> None:
    """p = (.7, .3), q = (.5, .5), only the first id is admitted as a draft: (.85, .15) comes out."""
    pair = lambda _: (0.7, 0.3), lambda _: (0.5, 0.5)
    written = speculative_law(lab(pair, 1, drafter=mutants.AdmitsTheFirst, sizes=(2, 2)), 1)
    assert written[(0,)] == pytest.approx(0.85)
    assert written[(1,)] == pytest.approx(0.15)


# -- mistakes that cost acceptance, or the seed, but never the law


def test_a_stale_drafter_cache_changes_the_guesses_only() -> None:
    """A drafter that forgets to rewind guesses badly, but the text keeps its law: q is what it drew from."""
    assert error(lab(RANDOM, 2, drafter=mutants.ForgetsToRewind, max_new_tokens=3), 3) < EXACT


def test_noise_of_the_wrong_place_costs_acceptance_only() -> None:
    """A round then ends by the noise of the token after it, so only whole answers show the law: each token
    still has its own noise."""
    late = lab(
        RANDOM, 2, rule=rule_named("seed_exact"), drafter=mutants.NoiseOfTheNextPlace, max_new_tokens=3
    )
    assert walked_error(late) < EXACT
    assert mean_accepted(late) < mean_accepted(lab_of("seed_exact", "model drawn", RANDOM, 2)) - 0.05


@pytest.mark.parametrize("rule", [mutants.MatchKeyedByRound(), mutants.MatchOnTheDraftStream()])
def test_match_keyed_by_the_round_keeps_the_law(rule: Match) -> None:
    """What it loses is that the seed fixes the text: proof F sees that (test_seed_exact.py)."""
    assert error(lab(RANDOM, 2, rule=rule), 3) < EXACT
    assert walked_error(lab(PAIRS["mixed"], 1, rule=rule, max_new_tokens=3)) < EXACT
