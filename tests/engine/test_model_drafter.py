"""The drafter that is a model: what it reads, what it reports, how it follows any change of the tokens."""

from __future__ import annotations

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from support.runs import context
from support.tables import TableModel, random_table, settings
from torch import Tensor

from engine.drafters.base import DrafterContext, Scored
from engine.drafters.model import ModelDrafter
from engine.draws import Draws
from engine.events import Settings
from engine.kv_cache import KVCache
from engine.laws import TOP
from engine.sampling import Law

TABLE = random_table(1, 6)
LAW = Law(settings(), torch.float64)


class Noting(TableModel):
    """Notes what it is fed."""

    fed: list[list[int]]

    def forward(self, ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        self.__dict__.setdefault("fed", []).append([int(id_) for id_ in ids])
        return super().forward(ids, cache, keep)


def drafter(model: TableModel | None = None, **options: bool) -> ModelDrafter:
    model = model or TableModel(TABLE, 6)
    return ModelDrafter(context(TableModel(TABLE, 6).as_lm(), model.as_lm(), **options))


def fresh_draft(tokens: list[int], k: int, law: Law = LAW) -> tuple[list[int], Tensor | None]:
    draft = drafter().propose(tokens, k, law, Draws(5))
    return draft.ids.tolist(), draft.q


@hypothesis.given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4)), max_size=6
    )
)
def test_the_past_does_not_matter(changes: list[tuple[int, list[int], int]]) -> None:
    """Whatever it drafted before, a draft is a function of the tokens and the draws."""
    tried, tokens = drafter(), [0]
    for keep, more, k in changes:
        tokens = [*tokens[: max(1, keep)], *more]
        draft = tried.propose(tokens, k, LAW, Draws(5))
        ids, q = fresh_draft(tokens, k)
        assert draft.ids.tolist() == ids
        assert draft.q is not None
        assert q is not None
        assert torch.equal(draft.q, q)
        tried.observe(Scored(ids, min(1, k)))
        if len(more) % 2:
            tokens = [*tokens, ids[0]]


def test_what_it_feeds() -> None:
    """The prompt once; then one token after a rejection, two after a full accept."""
    model = Noting(TABLE, 6)
    tried = drafter(model)
    assert tried.prefill_cost([0, 1, 2]) == 2
    assert list(tried.prefill([0, 1, 2])) == [2]
    first = tried.propose([0, 1, 2], 3, LAW, Draws(5)).ids.tolist()
    assert model.fed == [[2], [first[0]], [first[1]]]
    tried.observe(Scored(first, 3))
    model.fed.clear()
    longer = [0, 1, 2, *first, 4]
    second = tried.propose(longer, 2, LAW, Draws(5)).ids.tolist()
    assert model.fed == [[first[2], 4], [second[0]]]
    tried.observe(Scored(second, 0))
    model.fed.clear()
    other = (second[0] + 1) % 6
    tried.propose([*longer, other], 1, LAW, Draws(5))
    assert model.fed == [[other]]


def test_a_round_that_failed_is_forgotten() -> None:
    """Nothing was observed after the draft: the drafts in the cache are not taken for tokens."""
    tried = drafter()
    tried.propose([0, 1, 2], 4, LAW, Draws(5))
    tokens = [0, 1, 2, 5, 5]
    assert tried.propose(tokens, 3, LAW, Draws(5)).ids.tolist() == fresh_draft(tokens, 3)[0]


def test_a_round_without_drafts_changes_nothing() -> None:
    tried = drafter()
    ids = tried.propose([0, 1], 3, LAW, Draws(5)).ids.tolist()
    tried.observe(Scored(ids, 1))
    tried.observe(Scored([], 0))
    tokens = [0, 1, ids[0], 3, 4]
    assert tried.propose(tokens, 3, LAW, Draws(5)).ids.tolist() == fresh_draft(tokens, 3)[0]


@pytest.mark.parametrize("given", [settings(), settings(temperature=0.5, top_k=3, repetition_penalty=1.5)])
def test_q_and_the_likeliest(given: Settings) -> None:
    """Each q is the law after the tokens and the drafts before it."""
    law = Law(given, torch.float64)
    tokens, model = [0, 3, 1], TableModel(TABLE, 6)
    draft = drafter(model).propose(tokens, 3, law, Draws(8))
    rows = model.forward([*tokens, *draft.ids.tolist()[:-1]], model.new_cache(), keep=3)
    laws = law.laws(rows, tokens, draft.ids[:-1])
    assert draft.q is not None
    assert draft.top is not None
    assert torch.equal(draft.q, laws.widened().p)
    shown, expected = draft.top.tensor_split(2, dim=1), laws.top().tensor_split(2, dim=1)
    assert torch.equal(shown[1], expected[1])
    possible = expected[1] > 0
    assert torch.equal(shown[0][possible], expected[0][possible])
    assert draft.top.shape == (3, 2 * TOP)


def test_the_greedy_strategy_is_certain() -> None:
    tokens, model = [0, 3, 1], TableModel(TABLE, 6)
    draft = drafter(model, greedy=True).propose(tokens, 3, LAW, Draws(8))
    assert draft.q is None
    context_ids = list(tokens)
    for id_ in draft.ids.tolist():
        row = TABLE(tuple(context_ids))
        assert row[id_] == max(row)
        context_ids.append(id_)
    assert draft.top is not None
    assert draft.top[:, 0].tolist() == draft.ids.tolist()


@pytest.mark.parametrize(("room", "drafts"), [(-1, 0), (0, 0), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_its_context_ends(room: int, drafts: int) -> None:
    """It never reads past its own positions, and says why it stops."""
    tokens = [0, 1, 2, 3]
    tried = drafter(TableModel(TABLE, 6, context_length=len(tokens) + room))
    cost = tried.prefill_cost(tokens)
    assert list(tried.prefill(tokens)) == ([3] if room > 0 else [])
    assert cost == (3 if room > 0 else 0)
    draft = tried.propose(tokens, 3, LAW, Draws(5))
    assert len(draft.ids) == drafts
    near = "drafter context near its end" if room < 3 else None
    assert draft.reason == ("drafter context full" if room < 1 else near)


def test_an_id_it_does_not_know() -> None:
    """Its own vocabulary is smaller: nothing is read past an unknown id, wherever in the text it is."""
    small = TableModel(random_table(2, 4), 4)
    tried = ModelDrafter(DrafterContext(TableModel(TABLE, 6).as_lm(), small.as_lm(), 4, greedy=False))
    first = tried.propose([0, 1], 3, LAW, Draws(5))
    assert first.q is not None
    assert first.q.shape == (3, 4)
    tried.observe(Scored(first.ids.tolist(), 0))
    for tokens in ([0, 1, 5], [0, 1, 5, 2], [0, 4], [4]):
        draft = tried.propose(tokens, 3, LAW, Draws(5))
        assert len(draft.ids) == 0
        assert draft.reason == f"the drafter has no token {max(tokens)}"
        assert tried.prefill_cost(tokens) == 0
        assert list(tried.prefill(tokens)) == []
    assert len(tried.propose([0, 1, 3], 3, LAW, Draws(5)).ids) == 3


def test_it_names_its_model_and_counts_its_time() -> None:
    tried = drafter()
    assert tried.model_info is not None
    assert tried.model_info.name == "table"
    tried._model.clock._elapsed_ns = 3_000_000
    assert tried.take_ms() == 3.0
    assert tried.take_ms() == 0.0
