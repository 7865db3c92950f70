"""The acceptance rules on hand-made rounds; that their law is right is proven in tests/proofs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.draws import Draws, Stream
from engine.verify import GreedyMatch, SpeculativeSampling, residual


class Chosen(Draws):
    """Uniform draws as told; the token is the heaviest id. Remembers what it was asked for."""

    def __init__(self, *u: float) -> None:
        super().__init__(seed=0)
        self.u = u
        self.weights = torch.empty(0)
        self.asked: list[tuple[int, Stream, int]] = []

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        self.asked.append((position, stream, count))
        return torch.tensor(self.u[:count])

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        self.asked.append((position, stream, index))
        self.weights = weights
        return weights.argmax()


P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
Q = torch.tensor([[0.8, 0.1, 0.1], [0.4, 0.4, 0.2]])


def test_all_accepted_then_the_bonus_from_the_last_row() -> None:
    draws = Chosen(0.62, 0.99)  # 0.62 * 0.8 < 0.5, 0.99 * 0.4 < 0.8
    judgement = SpeculativeSampling().judge(P, Q, torch.tensor([0, 1]), draws, 17)
    assert int(judgement.n_accepted) == 2
    assert int(judgement.token) == 2
    assert torch.equal(draws.weights, P[2])
    assert draws.asked == [(17, Stream.ACCEPT, 2), (17, Stream.TARGET, 0)]
    assert judgement.u is not None
    assert judgement.u.tolist() == pytest.approx([0.62, 0.99])


def test_the_first_rejection_ends_the_round() -> None:
    """A later draft that would pass is ignored."""
    draws = Chosen(0.63, 0.0)  # 0.63 * 0.8 > 0.5
    judgement = SpeculativeSampling().judge(P, Q, torch.tensor([0, 1]), draws, 0)
    assert int(judgement.n_accepted) == 0
    assert draws.weights.tolist() == pytest.approx([0.0, 0.2, 0.1])
    assert int(judgement.token) == 1


def test_the_second_draft_is_judged_by_the_second_row() -> None:
    draws = Chosen(0.0, 0.9)
    judgement = SpeculativeSampling().judge(P, Q, torch.tensor([1, 0]), draws, 0)
    assert int(judgement.n_accepted) == 1, "0.9 * 0.4 >= 0.1"
    assert draws.weights.tolist() == pytest.approx([0.0, 0.4, 0.0])


def test_a_deterministic_draft_is_accepted_with_its_probability() -> None:
    judgement = SpeculativeSampling().judge(P[:2], None, torch.tensor([1]), Chosen(0.29), 0)
    assert int(judgement.n_accepted) == 1
    draws = Chosen(0.31)
    judgement = SpeculativeSampling().judge(P[:2], None, torch.tensor([1]), draws, 0)
    assert int(judgement.n_accepted) == 0
    assert draws.weights.tolist() == pytest.approx([0.5, 0.0, 0.2]), "p with the refused token struck out"


def test_ids_the_drafter_does_not_know_have_no_q() -> None:
    q = torch.tensor([[0.9, 0.1]])
    draws = Chosen(0.99)
    SpeculativeSampling().judge(P[:2], q, torch.tensor([0]), draws, 0)
    assert draws.weights.tolist() == pytest.approx([0.0, 0.2, 0.2])


@pytest.mark.parametrize("rule", [SpeculativeSampling(), GreedyMatch()])
def test_no_drafts(rule: SpeculativeSampling | GreedyMatch) -> None:
    judgement = rule.judge(P[:1], None, torch.empty(0, dtype=torch.long), Chosen(), 3)
    assert int(judgement.n_accepted) == 0
    assert int(judgement.token) == 0


@pytest.mark.parametrize(
    ("drafts", "n_accepted", "token"),
    [([0, 1], 2, 2), ([0, 0], 1, 1), ([1, 1], 0, 0), ([2, 1], 0, 0), ([0], 1, 1), ([1], 0, 0)],
)
def test_greedy_match(drafts: list[int], n_accepted: int, token: int) -> None:
    p = P[: len(drafts) + 1]
    judgement = GreedyMatch().judge(p, None, torch.tensor(drafts), Chosen(), 0)
    assert (int(judgement.n_accepted), int(judgement.token)) == (n_accepted, token)
    assert judgement.u is None


@given(st.integers(0, 4), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_a_judgement_leaves_its_arguments_alone(k: int, seed: int, drawn: bool, greedy: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(k + 1, 6, generator=generator).softmax(-1)
    q = torch.rand(k, 5, generator=generator).softmax(-1) if drawn and k else None
    drafts = torch.randint(5, (k,), generator=generator)
    kept = p.clone(), None if q is None else q.clone(), drafts.clone()
    rule = GreedyMatch() if greedy else SpeculativeSampling()
    judgement = rule.judge(p, q, drafts, Draws(seed), 1)
    assert torch.equal(p, kept[0])
    assert q is None or kept[1] is None or torch.equal(q, kept[1])
    assert torch.equal(drafts, kept[2])
    assert 0 <= int(judgement.n_accepted) <= k
    assert 0 <= int(judgement.token) < 6
    again = rule.judge(p, q, drafts, Draws(seed), 1)
    assert (int(again.n_accepted), int(again.token)) == (int(judgement.n_accepted), int(judgement.token))


@given(st.integers(1, 4), st.integers(0, 2**32))
def test_temperature_zero_makes_the_two_rules_one(k: int, seed: int) -> None:
    """With point masses speculative sampling accepts exactly what the target would have written."""
    generator = torch.Generator().manual_seed(seed)
    likeliest = torch.randint(4, (k + 1,), generator=generator)
    p = torch.nn.functional.one_hot(likeliest, 4).float()
    drafts = torch.where(torch.rand(k, generator=generator) < 0.7, likeliest[:k], torch.tensor(3))
    sampling = SpeculativeSampling().judge(p, None, drafts, Draws(seed), 5)
    match = GreedyMatch().judge(p, None, drafts, Draws(seed), 5)
    assert int(sampling.n_accepted) == int(match.n_accepted)
    assert int(sampling.token) == int(match.token)


def test_the_residual_reads_the_row_of_the_rejection() -> None:
    drafts = torch.tensor([0, 0])
    assert residual(P, Q, drafts, torch.tensor(1)).tolist() == pytest.approx([0.0, 0.4, 0.0])
    assert residual(P, None, drafts, torch.tensor(1)).tolist() == pytest.approx([0.0, 0.8, 0.1])
    assert torch.equal(residual(P, Q, drafts, torch.tensor(2)), P[2])
