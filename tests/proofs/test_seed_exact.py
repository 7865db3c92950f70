"""Proof F: by rules that follow the seed, sampled text is that of plain decoding with the same seed.

Token for token, in float64, over all drafters. No statistics: one wrong key, row or prefix shows at once.
"""

from __future__ import annotations

from functools import lru_cache

import pytest
from support import mutants
from support.labs import rule_named
from support.runs import DRAFTERS, Run, double_lm, make_drafter, run_plain, run_rounds
from support.tables import settings

from engine import registry
from engine.answer import Limits
from engine.events import Settings
from engine.verify import Rule

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42]
LIMITS = Limits(20, 512)
RULES = [name for name, entry in registry.RULES.items() if entry.follows_seed and name != "greedy_match"]
GIVEN = {
    "0.7": settings(temperature=0.7),
    "1.0": settings(),
    "cut": settings(temperature=1.2, top_k=30, top_p=0.9, min_p=0.01),
    "penalty": settings(temperature=0.8, repetition_penalty=1.4),
}


@lru_cache
def plain(rule: str, given: str, seed: int) -> tuple[int, ...]:
    draws = rule_named(rule).draws(seed)
    return tuple(run_plain(double_lm("llama"), PROMPT, LIMITS, given=GIVEN[given], draws=draws).ids)


def spoken(rule: Rule, drafter: str, k: int, given: Settings, seed: int, text: tuple[int, ...]) -> Run:
    target = double_lm("llama")
    made = make_drafter(drafter, target, "llama", [*PROMPT, *text])
    return run_rounds(target, made, PROMPT, LIMITS, k=k, given=given, rule=rule, draws=rule.draws(seed))


@pytest.mark.parametrize("given", [pytest.param("0.7", marks=pytest.mark.soak), "1.0", "cut", "penalty"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", RULES)
def test_the_seed_fixes_the_text(rule: str, drafter: str, given: str) -> None:
    k = 1 + (DRAFTERS.index(drafter) + 3 * list(GIVEN).index(given)) % 8
    accepted = 0
    for seed in (1, 2):
        text = plain(rule, given, seed)
        run = spoken(rule_named(rule), drafter, k, GIVEN[given], seed, text)
        assert tuple(run.ids) == text
        accepted += sum(r.accepted for r in run.rounds)
    if drafter not in ("lookup", "hostile"):
        assert accepted, "equality proves little where nothing is accepted"


@pytest.mark.parametrize("k", range(1, 9))
@pytest.mark.parametrize("rule", RULES)
def test_whatever_the_number_of_drafts(rule: str, k: int) -> None:
    text = plain(rule, "1.0", 3)
    assert tuple(spoken(rule_named(rule), "noisy", k, GIVEN["1.0"], 3, text).ids) == text


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("rule", RULES)
def test_another_seed_writes_another_text(rule: str, given: str) -> None:
    assert len({plain(rule, given, seed) for seed in (1, 2, 3)}) == 3


@pytest.mark.parametrize("drafter", ["noisy", "tli"])
def test_shared_noise_accepts_more(drafter: str) -> None:
    """What ``seed_exact`` is for: the same law, and a drafter that guesses the target's chance too."""
    accepted = {
        rule: sum(
            r.accepted
            for seed in range(4)
            for r in spoken(rule_named(rule), drafter, 3, settings(), seed, ()).rounds
        )
        for rule in ("match", "seed_exact")
    }
    assert accepted["seed_exact"] > 1.2 * accepted["match"]


@pytest.mark.parametrize("mutant", [mutants.MatchKeyedByRound(), mutants.MatchOnTheDraftStream()])
def test_mutant_numbers_keyed_by_the_round_are_seen(mutant: Rule) -> None:
    text = plain("match", "1.0", 1)
    assert tuple(spoken(mutant, "noisy", 4, GIVEN["1.0"], 1, text).ids) != text


def test_a_rule_that_does_not_follow_the_seed_is_seen() -> None:
    text = plain("match", "1.0", 1)
    assert tuple(spoken(rule_named("speculative_sampling"), "noisy", 4, GIVEN["1.0"], 1, text).ids) != text
