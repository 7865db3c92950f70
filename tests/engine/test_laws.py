"""Laws over few columns are the laws over all ids."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tables import settings
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from engine import laws as laws_module
from engine import sampling
from engine.draws import Draws, Stream
from engine.events import Settings
from engine.laws import TOP, Laws
from engine.sampling import Law

V = 1000
TOKENS = [5, 9, 5, 100, 383, 0, 7]
DRAFTS = torch.tensor([200, 5, 201, 999])
LAWS = {
    "greedy": settings(temperature=0.0),
    "greedy with a penalty": settings(temperature=0.0, repetition_penalty=1.3),
    "plain": settings(temperature=0.7),
    "top-k": settings(temperature=0.8, top_k=7),
    "top-k 1": settings(top_k=1),
    "top-p": settings(temperature=0.6, top_p=0.9),
    "low top-p": settings(top_p=0.01),
    "min-p": settings(min_p=0.05),
    "top-p, min-p": settings(top_p=0.9, min_p=0.05),
    "all": settings(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02, repetition_penalty=1.1),
}
each_law = pytest.mark.parametrize("name", LAWS)


def logits(rows: int, seed: int, scale: float = 4.0) -> Tensor:
    """Coarse, as in bfloat16, so that many are equal.  # (rows, V)"""
    wide = torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)) * scale
    return wide.to(torch.bfloat16)


def reference(law: Law, rows: Tensor) -> Tensor:
    """By the processors of transformers over all ids.  # (R, V)"""
    return law.probabilities(law.process(rows, TOKENS, DRAFTS[: len(rows) - 1]))


@each_law
@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0, 12.0])
def test_they_are_those_of_transformers(name: str, scale: float) -> None:
    """From flat laws, whose nuclei have more ids than are looked at first, to certain ones."""
    law = Law(LAWS[name], torch.float64)
    rows = logits(5, 1, scale)
    laws = law.laws(rows, TOKENS, DRAFTS)
    expected = reference(law, rows)
    found = laws.widened().p
    assert torch.equal(found > 0, expected > 0), "the same ids are allowed"
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)
    assert laws.ids_of(laws.columns_of(DRAFTS)).tolist() == DRAFTS.tolist()


@each_law
def test_few_columns(name: str) -> None:
    laws = Law(LAWS[name]).laws(logits(5, 1), TOKENS, DRAFTS)
    if name == "plain":
        assert laws.ids is None
    else:
        assert laws.ids is not None
        assert laws.p.shape[1] < V
        assert laws.ids.tolist() == sorted(set(laws.ids.tolist()))


@each_law
@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_a_row_gives_the_same_bits_alone(name: str, scale: float) -> None:
    """Plain decoding has one row, a round K+1; both draw from the same law."""
    law, rows = Law(LAWS[name]), logits(5, 3, scale)
    together = law.laws(rows, TOKENS, DRAFTS).widened().p
    for at in range(5):
        alone = law.laws(rows[at : at + 1], [*TOKENS, *DRAFTS[:at].tolist()])
        assert torch.equal(alone.widened().p[0], together[at])
    assert torch.equal(law.laws(rows, TOKENS, DRAFTS, every_id=True).p, together)


@each_law
def test_the_same_token_is_drawn_from_fewer_columns(name: str) -> None:
    law, rows = Law(LAWS[name]), logits(1, 4)
    laws = law.laws(rows, TOKENS)
    for position in range(50):
        narrow = laws.ids_of(Draws(1).target(laws.p[0], position))
        assert narrow == Draws(1).categorical(laws.widened().p[0], position, Stream.TARGET)


@given(st.integers(1, 12), st.integers(0, 999), st.integers(0, 12), st.sampled_from([6, 9, 12]))
def test_the_drafters_laws_in_the_same_columns(rows: int, seed: int, drafts: int, known: int) -> None:
    """A drafter may know fewer ids than the target; others have none of its mass."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(12, (drafts,), generator=generator)
    target = torch.randn(rows, 12, generator=generator, dtype=torch.float64)
    laws = Law(settings(top_k=4), torch.float64).laws(target, [0], torch.cat([ids, ids[:0]]))
    q = torch.rand(2, known, generator=generator, dtype=torch.float64)
    assert laws.ids is not None
    expected = torch.cat([q, q.new_zeros(2, 12 - known)], dim=1)[:, laws.ids]
    assert torch.equal(laws.narrowed(q), expected)


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
    """Remembers the operators that were called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


@each_law
def test_where_counts_may_not_be_read_all_columns_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: nothing depends on what is in a tensor, and the law is the same."""
    for module in (laws_module, sampling):
        monkeypatch.setattr(module, "may_count", lambda device: False)
    law, rows = Law(LAWS[name], torch.float64), logits(5, 1)
    with Counted() as counted:
        laws = law.laws(rows, TOKENS, DRAFTS)
        laws.top()
    waiting = ("_local_scalar_dense", "nonzero", "unique", "bincount", "masked_select", "item")
    assert not [name for name in counted.names if any(word in name for word in waiting)]
    assert laws.ids is None
    assert torch.allclose(laws.p, reference(law, rows), rtol=0, atol=1e-12)


def test_top_shows_the_likeliest() -> None:
    p = torch.tensor([[0.1, 0.4, 0.0, 0.2, 0.25, 0.05]], dtype=torch.float64)
    top = Laws(p, None, 6).top()
    assert top.shape == (1, 2 * TOP)
    assert top[0, :TOP].tolist() == [1, 4, 3, 0]
    assert top[0, TOP:].tolist() == pytest.approx([0.4, 0.25, 0.2, 0.1])
    assert Laws(p, torch.tensor([2, 3, 5, 7, 11, 13]), 20).top()[0, :TOP].tolist() == [3, 11, 7, 2]
    assert Laws(p[:, :3], None, 3).top().shape == (1, 6), "fewer ids than it could show"


def test_the_top_of_a_point_mass_is_that_of_the_softmax() -> None:
    rows = logits(3, 2)
    values, ids = rows.double().softmax(-1).topk(TOP)
    top = Law(settings(temperature=0.0), torch.float64).laws(rows, TOKENS, DRAFTS[:2]).top()
    assert torch.allclose(top[:, TOP:], values, rtol=0, atol=1e-12)
    assert torch.allclose(rows.gather(1, top[:, :TOP].long()), rows.gather(1, ids))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@each_law
def test_a_broken_row_is_noticed(name: str, bad: float) -> None:
    rows = logits(2, 7)
    rows[1, 17] = bad
    laws = Law(LAWS[name]).laws(rows, TOKENS, DRAFTS[:1])
    assert laws.sound().tolist() == [True, False]
    assert laws.top()[:, TOP:].isnan().any(-1).tolist() == [False, True]
    excluded = Law(LAWS[name]).laws(torch.full((1, V), -math.inf), TOKENS)
    assert not excluded.sound()
    assert excluded.top()[0, TOP:].isnan().any(), "no token is left"


def chosen(given_: Settings) -> int:
    laws = Law(given_).laws(torch.tensor([[1.0, 2.0, 2.0, 0.0, -1.0]]), [0])
    return int(laws.ids_of(laws.likeliest())[0])


def test_of_equal_ids_the_first_is_likeliest() -> None:
    for given_ in (settings(temperature=0.0), settings(), settings(top_k=2)):
        assert chosen(given_) == 1
