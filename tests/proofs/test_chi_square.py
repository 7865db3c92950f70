"""Proof C: the real draws and the float32 laws, counted, give what plain decoding gives (Pearson's test).

The enumeration of proof A replaces the draws; here they are the real ones. Fixed seeds, so the outcome never
changes; the threshold of 1e-6 would fail a correct engine with one seed in a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from support.enumerate import Lab, reference_sequences
from support.tables import KINDS, Table, TableModel, random_table, settings
from torch import Tensor

from engine.drafters.base import Drafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.events import EndReason
from engine.verify import SpeculativeSampling

N = 50_000
V = 5
FAIL = 1e-6
LEAST_EXPECTED = 5


def p_value(counts: Mapping[tuple[int, ...], int], law: Mapping[tuple[int, ...], float]) -> float:
    """Of the counts, if the law were true. Cells with few expected are pooled; the impossible gives 0."""
    if any(law.get(outcome, 0.0) == 0 for outcome in counts):
        return 0.0
    total = sum(counts.values())
    cells = sorted(((total * p, counts.get(outcome, 0)) for outcome, p in law.items()), reverse=True)
    large = [cell for cell in cells if cell[0] >= LEAST_EXPECTED]
    small = cells[len(large) :]
    expected = np.array([cell[0] for cell in large] + [sum(cell[0] for cell in small)])
    observed = np.array([cell[1] for cell in large] + [sum(cell[1] for cell in small)])
    if not small or expected[-1] == 0:
        expected, observed = expected[:-1], observed[:-1]
    elif expected[-1] < LEAST_EXPECTED:
        expected[-2] += expected[-1]
        observed[-2] += observed[-1]
        expected, observed = expected[:-1], observed[:-1]
    return float(chisquare(observed, expected * (total / expected.sum())).pvalue)


class Given(Draws):
    """The shipped categorical on draws that were made before."""

    def __init__(self, u: Tensor, wide: Tensor) -> None:
        super().__init__(seed=0)
        self.u = u
        self.wide = wide

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return self.u[:count]

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> Tensor:
        return self.wide


@lru_cache(maxsize=1)
def chance() -> tuple[Tensor, Tensor]:
    """The real draws of N rounds at N positions.

    Returns u (N, 2), and those of draft 0, draft 1, the target's token and the one after it (4, N, 1).
    """
    draws = Draws(seed=20_260_101)
    accept = torch.stack([draws.uniform(n, Stream.ACCEPT, 2) for n in range(N)])
    keys = ((0, Stream.DRAFT, 0), (0, Stream.DRAFT, 1), (0, Stream.TARGET, 0), (N, Stream.TARGET, 0))
    wide = [torch.stack([draws._wide_uniform(n + at, stream, i) for n in range(N)]) for at, stream, i in keys]
    return accept, torch.stack(wide)


def pick(rows: Tensor, wide: Tensor) -> Tensor:
    """The shipped categorical, N times.  # (N, V), (N, 1) -> (N,)"""

    def one(row: Tensor, drawn: Tensor) -> Tensor:
        return Given(drawn, drawn).categorical(row, 0, Stream.TARGET)

    picked: Tensor = torch.vmap(one)(rows, wide)
    return picked


def first_two_tokens(p: Table, q: Table | None, judge: Callable[..., Tensor]) -> Counter[tuple[int, ...]]:
    """Of N answers: a round with K = 2, and a plain step where it gave one token only.

    Args:
        q: None for drafts that are the same in every round.
        judge: ``judge(p, q, drafts, u, wide) -> (2,)`` of one round: n_accepted and the token.
    """
    u, wide = chance()

    def rows(table: Table, *columns: Tensor) -> Tensor:
        contexts = zip(*(column.tolist() for column in columns), strict=True) if columns else [()] * N
        return torch.tensor([table(context) for context in contexts], dtype=torch.float32)  # (N, V)

    if q is None:
        x1 = torch.full((N,), int(np.argmax(p(()))))
        x2 = torch.zeros(N, dtype=torch.long)
        laws = None
    else:
        x1 = pick(q_1 := rows(q), wide[0])
        x2 = pick(q_2 := rows(q, x1), wide[1])
        laws = torch.stack([q_1, q_2], dim=1)  # (N, 2, V)
    drafts = torch.stack([x1, x2], dim=1)  # (N, 2)
    target = torch.stack([rows(p), rows(p, x1), rows(p, x1, x2)], dim=1)  # (N, 3, V)
    judged = torch.vmap(judge, in_dims=(0, None if laws is None else 0, 0, 0, 0))(
        target, laws, drafts, u, wide[2]
    )
    n_accepted, token = judged.unbind(1)
    first = torch.where(n_accepted == 0, token, x1)
    second = torch.where(
        n_accepted == 1, token, torch.where(n_accepted == 0, pick(rows(p, first), wide[3]), x2)
    )
    return Counter(zip(first.tolist(), second.tolist(), strict=True))


def shipped(p: Tensor, q: Tensor | None, drafts: Tensor, u: Tensor, wide: Tensor) -> Tensor:
    judgement = SpeculativeSampling().judge(p, q, drafts, Given(u, wide), 0)
    return torch.stack([judgement.n_accepted, judgement.token])


def two_token_law(p: Table) -> dict[tuple[int, ...], float]:
    return {(a, b): p(())[a] * p((a,))[b] for a in range(V) for b in range(V)}


pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # of vmap, over clamp_


@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_rule_on_fifty_thousand_rounds(seed: int, drawn: bool) -> None:
    p = random_table(100 + seed, V, KINDS if seed else ("random",))
    q = random_table(200 + seed, V, KINDS if seed else ("random",)) if drawn else None
    assert p_value(first_two_tokens(p, q, shipped), two_token_law(p)) > FAIL


def test_the_batch_is_the_loop() -> None:
    """The vectorised run gives what one round after another gives, with the draws themselves."""
    draws = Draws(seed=20_260_101)
    u, wide = chance()
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(200, 3, V, generator=generator).softmax(-1)
    q = torch.rand(200, 2, V, generator=generator).softmax(-1)
    drafts = torch.randint(V, (200, 2), generator=generator)
    batch = torch.vmap(shipped)(p, q, drafts, u[:200], wide[2, :200])
    for n in range(200):
        judgement = SpeculativeSampling().judge(p[n], q[n], drafts[n], draws, n)
        assert batch[n].tolist() == [int(judgement.n_accepted), int(judgement.token)]


@pytest.mark.parametrize("drawn", [True, False])
def test_mutant_resampling_from_p_is_seen(monkeypatch: pytest.MonkeyPatch, drawn: bool) -> None:
    monkeypatch.setattr("engine.verify.residual", lambda p, q, drafts, n: p.index_select(0, n[None])[0])
    p, q = random_table(100, V), random_table(200, V)
    assert p_value(first_two_tokens(p, q if drawn else None, shipped), two_token_law(p)) < FAIL


def test_mutant_reuse_of_one_draw_is_seen() -> None:
    """The draft and the token in its place come from the same number: "a fixed key inside the loop"."""

    def judge(p: Tensor, q: Tensor | None, drafts: Tensor, u: Tensor, wide: Tensor) -> Tensor:
        return shipped(p, q, drafts, wide.to(u.dtype).expand(2), wide)

    p, q = random_table(100, V), random_table(200, V)
    assert p_value(first_two_tokens(p, q, judge), two_token_law(p)) < FAIL


def whole_loop(drafter: type[Drafter], answers: int, temperature: float) -> float:
    """The p-value of the first three tokens of many answers, each with a seed of its own."""
    given = settings(temperature=temperature)
    lab = Lab(
        target=TableModel(random_table(305, V), V, dtype=torch.float32),
        draft_model=TableModel(random_table(400, V), V, dtype=torch.float32),
        drafter_class=drafter,
        rule=SpeculativeSampling(),
        k=2,
        settings=given,
        prompt=(1, 2, 1),
        max_new_tokens=3,
        draws=Draws(0),
    )
    counts: Counter[tuple[int, ...]] = Counter()
    accepted = drafted = 0
    for seed in range(answers):
        answer, cache = lab.answer()
        lab.draws = Draws(seed)
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


@pytest.mark.parametrize(("drafter", "temperature"), [(ModelDrafter, 0.8), (LookupDrafter, 1.0)])
def test_the_whole_loop(drafter: type[Drafter], temperature: float) -> None:
    assert whole_loop(drafter, 3_000, temperature) > FAIL


@pytest.mark.soak
@pytest.mark.parametrize("temperature", [0.6, 1.4])
@pytest.mark.parametrize("drafter", [ModelDrafter, LookupDrafter])
def test_the_whole_loop_for_long(drafter: type[Drafter], temperature: float) -> None:
    assert whole_loop(drafter, 20_000, temperature) > FAIL
