"""One round: what it says of itself, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from support.runs import Forced, context, run_plain, run_rounds, stamps
from support.tables import ListCache, TableModel, random_table, settings
from support.tiny import noisy_copy, tiny_lm, tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from engine import laws, sampling
from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.drafters.base import Draft, Drafter, DrafterContext, Scored
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.events import EndReason, Origin, Round, Settings, TargetToken, Verdict
from engine.kv_cache import KVCache
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import Block, GreedyMatch, Match, Rule, SeedExact, SpeculativeSampling

V = 6
P, Q = random_table(1, V), random_table(2, V)
LIMITS = Limits(1000, 10_000)


def begin(
    drafter: Drafter | None = None,
    *,
    k: int = 3,
    rule: Rule | None = None,
    given: Settings | None = None,
    seed: int = 0,
    limits: Limits = LIMITS,
    prompt: tuple[int, ...] = (0, 1),
) -> tuple[Speculator, Answer]:
    target = TableModel(P, V)
    cache = ListCache()
    cache.ids = list(prompt[:-1])
    speculator = Speculator(
        target=target.as_lm(),
        cache=cast("KVCache", cache),
        drafter=drafter or ModelDrafter(context(target.as_lm(), TableModel(Q, V).as_lm())),
        rule=rule or SpeculativeSampling(),
        law=Law(given or settings(), torch.float64),
        draws=Draws(seed),
        chooser=FixedLength(k),
        settings_id=4,
        stamp=stamps(),
    )
    return speculator, Answer(prompt, target.text, limits)


def guesser(*ids: int) -> Drafter:
    """Guesses these ids, whatever comes before."""

    class Guesser(Drafter):
        scored: Scored | None = None

        def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
            return Draft(torch.tensor(ids[:k], dtype=torch.long))

        def observe(self, scored: Scored) -> None:
            self.scored = scored

        def take_ms(self) -> float:
            return 0.0

    return Guesser(DrafterContext(TableModel(P, V).as_lm(), None, V, greedy=False))


@pytest.mark.parametrize("seed", range(40))
def test_every_number_of_the_event(seed: int) -> None:
    """Checked against the tables and the draws themselves."""
    speculator, answer = begin(seed=seed)
    before = tuple(answer.tokens)
    r = speculator.round(answer, 7)
    assert (r.seq, r.number, r.settings_id, r.context_length) == (0, 7, 4, 2)
    assert (r.k, r.k_reason, len(r.drafts), len(r.p_top)) == (3, "fixed", 3, 4)
    u = Draws(seed).uniform(2, Stream.ACCEPT, 3).tolist()
    history = before
    for i, draft in enumerate(r.drafts):
        assert draft.piece == chr(ord("a") + draft.id).encode()
        assert draft.p == pytest.approx(P(history)[draft.id], abs=1e-12)
        assert draft.q == pytest.approx(Q(history)[draft.id], abs=1e-12)
        assert draft.u is not None
        assert draft.u == u[i]
        expected = Verdict.ACCEPTED if i < r.n_accepted else Verdict.REJECTED
        assert draft.verdict == (Verdict.IGNORED if i > r.n_accepted else expected)
        if i <= r.n_accepted:
            assert (draft.u * draft.q < draft.p) == (draft.verdict is Verdict.ACCEPTED)
        for top, row in ((draft.q_top, Q(history)), (r.p_top[i], P(history))):
            assert [a.probability for a in top] == pytest.approx(sorted(row, reverse=True)[:4], abs=1e-12)
            assert all(row[a.id] == pytest.approx(a.probability, abs=1e-12) for a in top)
        history = (*history, draft.id)
    rejected_at = (*before, *(d.id for d in r.drafts[: r.n_accepted]))
    full = r.n_accepted == 3
    assert r.target.origin is (Origin.BONUS if full else Origin.CORRECTION)
    assert r.target.p == pytest.approx(P(rejected_at)[r.target.id], abs=1e-12)
    if full:
        assert r.target.q is None
    else:
        assert r.target.q is not None
        assert r.target.q == pytest.approx(Q(rejected_at)[r.target.id], abs=1e-12)
        assert r.target.q < r.target.p, "only what the drafter offers too seldom is drawn"
    assert r.tokens == (*(d.id for d in r.drafts[: r.n_accepted]), r.target.id)
    assert tuple(answer.tokens) == (*before, *r.tokens)
    assert r.text == "".join(chr(ord("a") + id_) for id_ in r.tokens)
    assert (r.cut, r.taken_back) == (None, 0)
    assert r.origins == (Origin.ACCEPTED,) * r.n_accepted + (r.target.origin,)
    assert not isinstance(r.n_accepted, torch.Tensor)


def test_a_certain_guess_has_q_one_and_no_alternatives() -> None:
    speculator, answer = begin(guesser(5, 5, 5))
    r = speculator.round(answer, 1)
    assert [draft.q for draft in r.drafts] == [1.0, 1.0, 1.0]
    assert all(draft.q_top == () for draft in r.drafts)
    if r.n_accepted < 3:
        assert r.target.id != 5
        assert r.target.q == 0.0


def test_the_greedy_rule_draws_nothing() -> None:
    greedy = settings(temperature=0.0)
    speculator, answer = begin(rule=GreedyMatch(), given=greedy)
    r = speculator.round(answer, 1)
    assert all(draft.u is None for draft in r.drafts)
    assert {draft.p for draft in r.drafts} <= {0.0, 1.0}
    assert r.p_top[0][0].probability == pytest.approx(max(P((0, 1)))), "shown at temperature 1"


@pytest.mark.parametrize("n", range(4))
def test_verdicts(n: int) -> None:
    greedy = settings(temperature=0.0)
    future = [0, 1, *run_plain(TableModel(P, V).as_lm(), [0, 1], Limits(8, 99)).ids]
    drafter = Forced(context(TableModel(P, V).as_lm()), future, [n])
    speculator, answer = begin(drafter, given=greedy)
    r = speculator.round(answer, 1)
    ignored = [Verdict.IGNORED] * (2 - n)
    assert [d.verdict for d in r.drafts] == [Verdict.ACCEPTED] * n + [Verdict.REJECTED] * (n < 3) + ignored
    assert (r.n_accepted, r.accepted, r.drafted, r.rejected, r.was_cut) == (n, n, 3, n < 3, False)


@pytest.mark.parametrize(
    ("most", "k", "reason"), [(1, 0, "limit near"), (2, 1, "limit near"), (4, 3, "fixed")]
)
def test_no_draft_that_cannot_be_committed(most: int, k: int, reason: str) -> None:
    speculator, answer = begin(limits=Limits(most, 99))
    r = speculator.round(answer, 1)
    assert (r.k, len(r.drafts), len(r.p_top), r.k_reason) == (k, k, k + 1, reason)
    if k == 0:
        assert r.target.origin is Origin.BONUS
        assert r.target.q is None
        assert r.cut is EndReason.MAX_NEW_TOKENS
        assert (r.accepted, r.drafted, r.rejected, r.was_cut) == (0, 0, False, False)


def test_a_drafter_without_an_idea() -> None:
    speculator, answer = begin(LookupDrafter(context(TableModel(P, V).as_lm())))
    r = speculator.round(answer, 1)
    assert (r.k, r.drafts, r.k_reason) == (3, (), "no match")
    assert len(r.tokens) == 1


def test_fewer_drafts_than_asked_for() -> None:
    speculator, answer = begin(guesser(3))
    r = speculator.round(answer, 1)
    assert (r.k, len(r.drafts), len(r.p_top)) == (3, 1, 2)


def test_without_drafts_a_round_is_a_plain_step() -> None:
    """The same seed draws the same tokens."""
    target = TableModel(P, V).as_lm()
    for seed in range(5):
        plain = run_plain(target, [0], Limits(30, 99), given=settings(), draws=Draws(seed))
        rounds = run_rounds(target, guesser(), [0], Limits(30, 99), k=3, given=settings(), draws=Draws(seed))
        assert rounds.outcome == plain.outcome


def test_the_drafter_learns_what_became_of_its_draft() -> None:
    drafter = cast("Any", guesser(5, 4, 3))
    speculator, answer = begin(drafter)
    r = speculator.round(answer, 1)
    assert drafter.scored == Scored([5, 4, 3], r.n_accepted)


def test_times_of_older_passes_are_not_this_rounds() -> None:
    speculator, answer = begin()
    for clock in (speculator.target.clock, cast("Any", speculator.drafter)._model.clock):
        clock._elapsed_ns = 10**15
    r = speculator.round(answer, 1)
    assert 0 <= r.draft_ms < 10**6
    assert 0 <= r.verify_ms < 10**6
    assert r.host_ms >= 0
    assert r.ms == r.draft_ms + r.verify_ms + r.host_ms


def test_a_cache_out_of_step_is_noticed_at_once() -> None:
    speculator, answer = begin()
    speculator.cache.truncate(0)
    with pytest.raises(AssertionError, match="newest"):
        speculator.round(answer, 1)


def test_parts_may_be_exchanged_between_rounds() -> None:
    """An edit of the settings or of the drafter takes effect at the next round, on the same cache."""
    speculator, answer = begin()
    speculator.round(answer, 1)
    speculator.drafter = LookupDrafter(context(speculator.target))
    speculator.law = Law(settings(temperature=0.0), torch.float64)
    speculator.chooser = FixedLength(1)
    r = speculator.round(answer, 2)
    assert r.k == 1
    assert r.tokens[-1] == P(tuple(answer.tokens[:-1])).index(max(P(tuple(answer.tokens[:-1]))))


class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves __init_subclass__ untyped
    """Counts what would stop a GPU: values fetched one by one, and lengths that depend on values."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::")
        self.count += name.startswith(
            ("_local_scalar_dense", "nonzero", "_unique", "unique", "masked_select")
        )
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "given",
    [settings(), settings(temperature=0.0), settings(temperature=0.8, top_k=50, top_p=0.95, min_p=0.01)],
    ids=["sampled", "greedy", "processed"],
)
@pytest.mark.parametrize("rule", [SpeculativeSampling, GreedyMatch, Block, Match, SeedExact])
def test_one_transfer_a_round(
    monkeypatch: pytest.MonkeyPatch, rule: Callable[[], Rule], given: Settings
) -> None:
    """With the tensors of a GPU, whose lengths must not depend on what is in them."""
    for module in (laws, sampling):
        monkeypatch.setattr(module, "may_count", lambda device: False)
    lists = 0
    to_list = torch.Tensor.tolist

    def counted(self: torch.Tensor) -> Any:
        nonlocal lists
        lists += 1
        return to_list(self)

    model = tiny_model("llama")
    target = tiny_lm("llama", model=model)
    drafter = ModelDrafter(context(target, tiny_lm("llama", model=noisy_copy(model, 0.1))))
    draws = rule().draws(0)
    speculator = Speculator(
        target, target.new_cache(), drafter, rule(), Law(given), draws, FixedLength(4), 0, stamps()
    )
    answer = Answer([5, 6, 7], target.text, LIMITS)
    target.extend([5, 6], speculator.cache)
    speculator.round(answer, 1)
    monkeypatch.setattr(torch.Tensor, "tolist", counted)
    with Reads() as reads:  # type: ignore[no-untyped-call]  # and __init__
        speculator.round(answer, 2)
    assert (lists, reads.count) == (1, 0)


def some_round(n_drafts: int, n_accepted: int, n_tokens: int) -> Round:
    draft = cast("Any", object())
    origin = Origin.BONUS if n_accepted == n_drafts else Origin.CORRECTION
    return Round(
        seq=0,
        t_ns=0,
        number=1,
        settings_id=0,
        context_length=1,
        k=n_drafts,
        k_reason="fixed",
        drafts=(draft,) * n_drafts,
        p_top=(),
        n_accepted=n_accepted,
        target=TargetToken(9, b"", origin, 1.0, None),
        tokens=tuple(range(n_tokens)),
        text="",
        cut=EndReason.EOS if n_tokens <= n_accepted else None,
        taken_back=0,
        draft_ms=1.0,
        verify_ms=2.0,
        host_ms=4.0,
    )


@hypothesis.given(st.integers(0, 8), st.data())
def test_the_counts_of_a_round(n_drafts: int, data: st.DataObject) -> None:
    """The identities of the definitions hold for every round, cut or not."""
    n_accepted = data.draw(st.integers(0, n_drafts))
    n_tokens = data.draw(st.integers(0, n_accepted + 1))
    r = some_round(n_drafts, n_accepted, n_tokens)
    assert r.was_cut == (n_tokens < n_accepted + 1)
    assert n_tokens == r.accepted + 1 - r.was_cut, "emitted = accepted + rounds - cut rounds"
    assert 0 <= r.accepted <= r.drafted <= n_drafts
    assert r.rejected == (not r.was_cut and n_accepted < n_drafts)
    assert r.accepted <= n_accepted
    if r.was_cut:
        assert r.drafted == r.accepted == n_tokens, "drafts behind the cut do not count"
    else:
        assert r.drafted == n_drafts
    assert len(r.origins) == n_tokens
    assert r.origins.count(Origin.ACCEPTED) == r.accepted
    assert r.ms == 7.0
