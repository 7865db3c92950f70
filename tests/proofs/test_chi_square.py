"""Proof C: the real draws and the float32 laws, counted, give what plain decoding gives (Pearson's test).

The enumeration of proof A replaces the draws; here they are the real ones. Fixed seeds, so the outcome never
changes; the threshold of 1e-6 would fail a correct engine with one seed in a million.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from support.counting import FAIL, p_value
from support.enumerate import Lab, reference_sequences
from support.labs import goes_with, rule_named
from support.tables import KINDS, Table, TableModel, random_table, settings
from torch import Tensor

from engine import registry
from engine.drafters.base import Drafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, SharedNoise, Stream
from engine.events import EndReason
from engine.verify import Rule

N = 50_000
V = 5
SEED = 20_260_101
PLACES = 3
"""Positions of a round with K = 2; the rounds lie so far apart that none shares a number with another."""

RULES = [rule for rule in registry.RULES if goes_with(rule, "model drawn")]
Chance = tuple[Tensor, ...]
"""The numbers of one round, or of N of them along the first dimension."""


class GivenDraws(Draws):
    """The shipped draws on numbers that were made before: those of ACCEPT, DRAFT and TARGET."""

    def __init__(self, accept: Tensor, draft: Tensor, target: Tensor) -> None:
        super().__init__(seed=0)
        self.accept, self.numbers = accept, {Stream.DRAFT: draft, Stream.TARGET: target}

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return self.accept[:count]

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> float:
        return cast("float", self.numbers[stream][position + index])  # one number for each of many rounds


class GivenNoise(SharedNoise):
    """The same of the shared noise."""

    def __init__(self, noise: Tensor) -> None:
        super().__init__(seed=0)
        self.noise = noise

    def _exponential(self, position: int, count: int) -> Tensor:
        return self.noise[position, :count]


def given(chance: Chance) -> Draws:
    return GivenNoise(*chance) if len(chance) == 1 else GivenDraws(*chance)


def chance_for(kind: type[Draws]) -> Chance:
    """The real numbers of N rounds, of one of the two sources of chance."""
    return noise_of_rounds() if kind is SharedNoise else numbers_of_rounds()


@lru_cache(maxsize=1)
def noise_of_rounds() -> Chance:
    """E of every id at the places of a round.  # (N, 3, V)"""
    noise = SharedNoise(SEED)
    flat = torch.stack([noise._exponential(position, V) for position in range(N * PLACES)])
    return (flat.reshape(N, PLACES, V).clone(),)


@lru_cache(maxsize=1)
def numbers_of_rounds() -> Chance:
    """ACCEPT (N, 2), DRAFT (N, 2, 1) and TARGET (N, 3, 1)."""
    draws = Draws(SEED)
    starts = range(0, N * PLACES, PLACES)
    accept = torch.stack([draws.uniform(start, Stream.ACCEPT, 2) for start in starts])
    draft = [draws._wide_uniform(start, Stream.DRAFT, i) for start in starts for i in range(2)]
    target = [draws._wide_uniform(start + i, Stream.TARGET, 0) for start in starts for i in range(PLACES)]
    wide = torch.float64
    return (
        accept,
        torch.tensor(draft, dtype=wide).reshape(N, 2, 1),
        torch.tensor(target, dtype=wide).reshape(N, PLACES, 1),
    )


def first_two_tokens(
    rule: Rule, p: Table, q: Table | None, chance: Chance | None = None
) -> Counter[tuple[int, ...]]:
    """Of N answers: a round with K = 2, and a plain step where it gave one token only.

    Args:
        q: None for drafts that are the same in every round.
        chance: other numbers than the rule's real ones.
    """
    chance = chance or chance_for(rule.draws)

    def rows(table: Table, *columns: Tensor) -> Tensor:
        contexts = zip(*(column.tolist() for column in columns), strict=True) if columns else [()] * N
        return torch.tensor([table(context) for context in contexts], dtype=torch.float32)  # (N, V)

    def draft(law: Tensor, index: int) -> Tensor:
        drawn: Tensor = torch.vmap(lambda row, c: given(c).draft(row, 0, index))(law, chance)
        return drawn

    if q is None:
        x1 = torch.full((N,), int(np.argmax(p(()))))
        x2 = torch.zeros(N, dtype=torch.long)
        laws = None
    else:
        x1 = draft(q_1 := rows(q), 0)
        x2 = draft(q_2 := rows(q, x1), 1)
        laws = torch.stack([q_1, q_2], dim=1)  # (N, 2, V)
    drafts = torch.stack([x1, x2], dim=1)  # (N, 2)
    target = torch.stack([rows(p), rows(p, x1), rows(p, x1, x2)], dim=1)  # (N, 3, V)
    n_accepted, token = judged(rule, target, laws, drafts, chance).unbind(1)
    first = torch.where(n_accepted == 0, token, x1)
    plain: Tensor = torch.vmap(lambda row, c: given(c).target(row, 1))(rows(p, first), chance)
    second = torch.where(n_accepted == 1, token, torch.where(n_accepted == 0, plain, x2))
    return Counter(zip(first.tolist(), second.tolist(), strict=True))


def judged(rule: Rule, p: Tensor, q: Tensor | None, drafts: Tensor, chance: Chance) -> Tensor:
    """Each round's n_accepted and token.  # (N, 2)"""

    def judge(p: Tensor, q: Tensor | None, drafts: Tensor, chance: Chance) -> Tensor:
        judgement = rule.judge(p, q, drafts, given(chance), 0)
        return torch.stack([judgement.n_accepted, judgement.token])

    found: Tensor = torch.vmap(judge, in_dims=(0, None if q is None else 0, 0, 0))(p, q, drafts, chance)
    return found


def two_token_law(p: Table) -> dict[tuple[int, ...], float]:
    return {(a, b): p(())[a] * p((a,))[b] for a in range(V) for b in range(V)}


pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap, over clamp_


@pytest.fixture(autouse=True)
def _few_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of an id does not depend on how many ids are asked for at once; fewer are quicker."""
    monkeypatch.setattr("engine.draws._IDS", 8)


@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_on_fifty_thousand_rounds(rule: str, seed: int, drawn: bool) -> None:
    p = random_table(100 + seed, V, KINDS if seed else ("random",))
    q = random_table(200 + seed, V, KINDS if seed else ("random",)) if drawn else None
    assert p_value(first_two_tokens(rule_named(rule), p, q), two_token_law(p)) > FAIL


@pytest.mark.parametrize("name", RULES)
def test_the_batch_is_the_loop(name: str) -> None:
    """The vectorised run gives what one round after another gives, with the draws themselves."""
    rule = rule_named(name)
    chance, draws = chance_for(rule.draws), rule.draws(SEED)
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(200, 3, V, generator=generator).softmax(-1)
    q = torch.rand(200, 2, V, generator=generator).softmax(-1)
    drafts = torch.randint(V, (200, 2), generator=generator)
    batch = judged(rule, p, q, drafts, tuple(numbers[:200] for numbers in chance))
    for n in range(200):
        judgement = rule.judge(p[n], q[n], drafts[n], draws, n * PLACES)
        assert batch[n].tolist() == [int(judgement.n_accepted), int(judgement.token)]


@pytest.mark.parametrize("drawn", [True, False])
def test_mutant_resampling_from_p_is_seen(monkeypatch: pytest.MonkeyPatch, drawn: bool) -> None:
    def from_p(p: Tensor, q: Tensor | None, drafts: Tensor, n: Tensor, scale: Tensor | None = None) -> Tensor:
        return p.index_select(0, n[None])[0]

    monkeypatch.setattr("engine.verify.residual", from_p)
    p, q = random_table(100, V), random_table(200, V)
    for rule in ("speculative_sampling", "block"):
        found = first_two_tokens(rule_named(rule), p, q if drawn else None)
        assert p_value(found, two_token_law(p)) < FAIL


@pytest.mark.parametrize("rule", ["speculative_sampling", "block"])
def test_mutant_reuse_of_one_draw_is_seen(rule: str) -> None:
    """The draft and the token in its place come from the same number: "a fixed key inside the loop"."""
    accept, draft, target = chance_for(Draws)
    p, q = random_table(100, V), random_table(200, V)
    one = target[:, 0].to(accept.dtype).expand(N, 2)
    assert p_value(first_two_tokens(rule_named(rule), p, q, (one, draft, target)), two_token_law(p)) < FAIL


@pytest.mark.parametrize("rule", ["match", "seed_exact"])
def test_mutant_one_number_for_all_places_is_seen(rule: str) -> None:
    found = rule_named(rule)
    *others, target = chance_for(found.draws)
    p, q = random_table(100, V), random_table(200, V)
    same = (*others, target[:, :1].expand_as(target))
    assert p_value(first_two_tokens(found, p, q, same), two_token_law(p)) < FAIL


def whole_loop(rule: str, drafter: type[Drafter], answers: int, **given: Any) -> float:
    """The p-value of the first three tokens of many answers, each with a seed of its own."""
    shipped = rule_named(rule)
    lab = Lab(
        target=TableModel(random_table(305, V), V, dtype=torch.float32),
        draft_model=TableModel(random_table(400, V), V, dtype=torch.float32),
        drafter_class=drafter,
        rule=shipped,
        k=2,
        settings=settings(**given),
        prompt=(1, 2, 1),
        max_new_tokens=3,
        draws=Draws(0),
    )
    counts: Counter[tuple[int, ...]] = Counter()
    accepted = drafted = 0
    for seed in range(answers):
        answer, cache = lab.answer()
        lab.draws = shipped.draws(seed)
        speculator = lab.speculator(cache)
        cut: EndReason | None = None
        while cut is None:
            happened = speculator.round(answer, 1)
            cut = happened.cut
            accepted += happened.accepted
            drafted += happened.drafted
        counts[tuple(answer.new_tokens)] += 1
    assert 0.1 < accepted / drafted < 0.9, "a run without acceptance or without rejection shows nothing"
    return p_value(counts, reference_sequences(lab, 3))


@pytest.mark.parametrize(
    ("rule", "drafter", "temperature"),
    [("block", ModelDrafter, 0.8), ("seed_exact", ModelDrafter, 1.0)],
)
def test_the_whole_loop(rule: str, drafter: type[Drafter], temperature: float) -> None:
    assert whole_loop(rule, drafter, 3_000, temperature=temperature) > FAIL


@pytest.mark.soak
@pytest.mark.parametrize("temperature", [0.6, 1.4])
@pytest.mark.parametrize("drafter", [ModelDrafter, LookupDrafter])
@pytest.mark.parametrize("rule", RULES)
def test_the_whole_loop_for_long(rule: str, drafter: type[Drafter], temperature: float) -> None:
    assert whole_loop(rule, drafter, 20_000, temperature=temperature) > FAIL
