"""The numerical traps that other engines fell into, each a test that is named after it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from support.enumerate import Lab
from support.runs import GREEDY, Forced, context, double_lm, run_rounds, stamps
from support.tables import Table, TableModel, random_table, settings
from support.tiny import noisy_copy, tiny_lm, tiny_model, tiny_tokenizer
from torch import Tensor

from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.errors import NumericalError
from engine.events import Settings
from engine.prefill import prefill, rewind_to_prefix
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import GreedyMatch, SpeculativeSampling, residual

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42]
WARM = settings(temperature=0.7, top_k=50, top_p=0.95, repetition_penalty=1.2)


class Constant(Draws):
    """Every uniform draw is the same number."""

    def __init__(self, u: float) -> None:
        super().__init__(seed=1)
        self.u = u

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return torch.full((count,), self.u)


@pytest.mark.parametrize("given", [settings(), WARM, settings(repetition_penalty=1.5)])
def test_trap_1_the_q_reported_is_the_q_sampled(given: Settings) -> None:
    """q(x) is that of all processors, of each draft's own prefix, and of the dtype it was drawn in."""
    model, law = double_lm("llama"), Law(given, torch.float64)
    draft = ModelDrafter(context(model, model)).propose(PROMPT, 4, law, Draws(3))
    rows = model.forward([*PROMPT, *draft.ids.tolist()[:-1]], model.new_cache(), keep=4)
    expected = law.probabilities(law.process(rows, PROMPT, draft.ids[:-1]))
    assert draft.q is not None
    assert torch.allclose(draft.q, expected, rtol=0, atol=1e-12)
    again = [Draws(3).categorical(row, len(PROMPT), Stream.DRAFT, i) for i, row in enumerate(draft.q)]
    assert draft.ids.tolist() == [int(id_) for id_ in again]


@pytest.mark.parametrize("greedy_by", ["temperature", "sample_strategy"])
def test_trap_1_an_argmax_draft_has_no_softmax_q(greedy_by: str) -> None:
    model = double_lm("llama")
    law = Law(GREEDY if greedy_by == "temperature" else WARM, torch.float64)
    drafter = ModelDrafter(context(model, model, greedy=greedy_by == "sample_strategy"))
    assert drafter.propose(PROMPT, 3, law, Draws(3)).q is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_trap_2_laws_are_float32_whatever_the_model(dtype: torch.dtype) -> None:
    model = tiny_lm("llama", model=tiny_model("llama").to(dtype))
    draft = ModelDrafter(context(model, model)).propose(PROMPT, 2, Law(WARM), Draws(3))
    assert draft.q is not None
    assert draft.q.dtype == torch.float32
    assert draft.q.sum(-1).tolist() == pytest.approx([1, 1], abs=1e-6)
    run = run_rounds(
        model, LookupDrafter(context(model)), PROMPT, Limits(6, 512), k=3, given=WARM, dtype=torch.float32
    )
    assert len(run.ids) == 6


@pytest.mark.parametrize("q", [None, torch.tensor([[0.0, 0.25, 0.75]])])
def test_trap_2_u_zero_does_not_accept_probability_zero(q: Tensor | None) -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    judgement = SpeculativeSampling().judge(p, q, torch.tensor([2]), Constant(0.0), 0)
    assert int(judgement.n_accepted) == 0
    assert int(judgement.token) != 2


@pytest.mark.parametrize("q_x", [1e-30, 0.3, 1.0])
def test_trap_2_the_ratio_is_not_divided(q_x: float) -> None:
    """A q that is as good as zero, or zero after rounding, makes neither NaN nor infinity."""
    p = torch.tensor([[0.3, 0.7], [1.0, 0.0]])
    for q0 in (q_x, 0.0):
        q = torch.tensor([[q0, 1 - q0]])
        judgement = SpeculativeSampling().judge(p, q, torch.tensor([0]), Constant(1 - 2.0**-24), 0)
        assert int(judgement.n_accepted) == int(q0 <= 0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_trap_3_nothing_left_of_equal_laws(dtype: torch.dtype) -> None:
    """p == q: the residual has no mass, p itself is the law, never NaN."""
    row = torch.tensor([0.2, 0.0, 0.8], dtype=dtype)
    p = torch.stack([row, row])
    left = residual(p, p[:1], torch.tensor([0]), torch.tensor(0))
    assert torch.equal(left, row)
    one_hot = torch.tensor([[0.0, 1.0, 0.0]] * 2, dtype=dtype)
    assert torch.equal(residual(one_hot, None, torch.tensor([1]), torch.tensor(0)), one_hot[0])
    judgement = SpeculativeSampling().judge(p, p[:1], torch.tensor([0]), Constant(1 - 2.0**-24), 0)
    assert int(judgement.n_accepted) == 1, "u < 1 accepts what p and q agree on"


def test_trap_3_no_epsilon_over_a_whole_vocabulary() -> None:
    """What has no mass gets none: 1e-9 over 152,000 ids would be 1.5e-4 of random tokens."""
    v = 152_000
    p = torch.zeros(2, v)
    p[:, :2] = torch.tensor([0.6, 0.4])
    q = torch.zeros(1, v)
    q[0, :2] = torch.tensor([0.9, 0.1])
    left = residual(p, q, torch.tensor([0]), torch.tensor(0))
    assert left.nonzero().flatten().tolist() == [1]
    assert {int(Draws(seed).categorical(left, 7, Stream.TARGET)) for seed in range(50)} == {1}


def test_trap_4_equality_needs_exact_arithmetic() -> None:
    """A pass over many rows and passes over one row differ; in float64 by less than any top-2 gap."""
    model, ids = double_lm("llama"), [*PROMPT, *range(100, 120)]
    cache = model.new_cache()
    narrow = torch.cat([model.forward([id_], cache, keep=1) for id_ in ids])
    wide = model.forward(ids, model.new_cache(), keep=len(ids))
    gaps = wide.topk(2).values.diff().abs()
    assert float((narrow - wide).abs().max()) < 1e-10 < float(gaps.min())


@pytest.mark.parametrize("rows", [352, 384, 448])
def test_trap_5_a_vocabulary_padded_differently(rows: int) -> None:
    """The drafter has fewer, as many and more rows of output than the target has tokens."""
    target = double_lm("llama")
    model = tiny_lm("llama", model=tiny_model("llama", 1, vocab_size=max(rows, 384)).double())
    common_ids = min(rows, target.vocab_size)
    drafter = ModelDrafter(type(context(target))(target, model, common_ids, greedy=False))
    assert model.vocab_size == len(tiny_tokenizer()), "padding rows are no tokens"
    assert model.forward(PROMPT, model.new_cache(), keep=2).shape == (2, 384)
    draft = drafter.propose(PROMPT, 8, Law(settings(), torch.float64), Draws(5))
    assert draft.q is not None
    assert draft.q.shape == (8, common_ids)
    assert draft.q.sum(-1).tolist() == pytest.approx([1.0] * 8)
    run = run_rounds(target, drafter, PROMPT, Limits(20, 512), k=4, given=settings(temperature=1.5))
    assert len(run.ids) == 20
    unknown = [r.target.q for r in run.rounds if r.target.id >= common_ids and r.target.q is not None]
    assert set(unknown) == ({0.0} if rows < 384 else set()), "corrections that the drafter has no token for"


def test_trap_6_no_draw_serves_twice() -> None:
    """Over a whole answer every key is new; a second run with the same seed repeats the first."""

    class Noted(Draws):
        def __init__(self, seed: int) -> None:
            super().__init__(seed)
            self.keys: list[tuple[str, int, Stream, int]] = []

        def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
            self.keys += [("uniform", position, stream, i) for i in range(count)]
            return super().uniform(position, stream, count)

        def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
            self.keys.append(("categorical", position, stream, index))
            return super().categorical(weights, position, stream, index)

    target, model = double_lm("llama"), double_lm("llama", 0.1)
    texts = []
    for seed in (4, 4, 5):
        draws = Noted(seed)
        drafter = ModelDrafter(context(target, model))
        run = run_rounds(target, drafter, PROMPT, Limits(30, 512), k=3, given=settings(), draws=draws)
        assert len(draws.keys) == len(set(draws.keys)) > 60
        texts.append(run.ids)
    assert texts[0] == texts[1] != texts[2]


def test_trap_6_an_unseen_run_of_equal_tokens() -> None:
    """With a fixed key inside the loop a uniform law would write one token for ever."""
    target = TableModel(lambda _: (0.25,) * 4, 4).as_lm()
    run = run_rounds(target, LookupDrafter(context(target)), [0], Limits(200, 512), k=3, given=settings())
    counts = [run.ids.count(id_) for id_ in range(4)]
    assert all(25 <= count <= 75 for count in counts), counts


def test_trap_7_the_drafter_after_a_full_accept_and_after_a_rejection() -> None:
    """After a full accept it lacks its last draft, after a rejection it holds what was refused."""
    table = random_table(5, 5)
    fed: list[list[int]] = []

    class Noting(TableModel):
        def forward(self, ids: list[int] | Tensor, cache: Any, keep: int) -> Tensor:
            fed.append([int(id_) for id_ in ids])
            return super().forward(ids, cache, keep)

    target = TableModel(table, 5).as_lm()
    drafter = ModelDrafter(context(target, Noting(table, 5).as_lm()))
    run = run_rounds(target, drafter, [0, 1], Limits(9, 512), k=3)
    assert [len(r.tokens) for r in run.rounds] == [4, 4, 1]
    tokens = run.answer.tokens
    assert fed[:3] == [[1], [tokens[2]], [tokens[3]]]
    assert fed[3] == tokens[4:6], "the last draft of the round before, and the bonus"

    fed.clear()
    other = ModelDrafter(context(target, Noting(random_table(6, 5), 5).as_lm()))
    run = run_rounds(target, other, [0, 1], Limits(20, 512), k=3)
    starts = fed[::3]
    refused = [r for r in run.rounds if r.k == 3 and r.n_accepted < 3]
    assert refused
    for r, start in zip(run.rounds[1:], starts[1:], strict=False):
        before = run.rounds[r.number - 2]
        assert len(start) == (2 if before.n_accepted == 3 else 1)
        assert start == run.answer.tokens[r.context_length - len(start) : r.context_length]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("given", [GREEDY, settings(), WARM])
def test_trap_8_a_target_with_broken_logits(given: Settings, bad: float) -> None:
    """An error that names the dtype; nothing is committed, and the cache is as good as before."""
    model = tiny_model("llama")
    target = tiny_lm("llama", model=model)
    sound = model.lm_head.weight[7].clone()
    drafters = [
        LookupDrafter(context(target)),
        ModelDrafter(context(target, tiny_lm("llama", model=noisy_copy(model, 0.1)))),
    ]
    for drafter in drafters:
        limits = Limits(20, 512)
        answer, cache = Answer(PROMPT, target.text, limits), target.new_cache()
        for _ in prefill(target, cache, PROMPT):
            pass
        rule = GreedyMatch() if given.temperature == 0 else SpeculativeSampling()
        speculator = Speculator(
            target, cache, drafter, rule, Law(given), Draws(0), FixedLength(4), 0, stamps()
        )
        plain = PlainDecoder(target, cache, Law(given), Draws(0), stamps())
        speculator.round(answer, 1)
        before = list(answer.tokens)
        model.lm_head.weight[7] = bad
        for decode in (speculator.round, plain.step):
            with pytest.raises(NumericalError, match="float32") as caught:
                decode(answer, 2)
            assert caught.value.hint is not None
            assert answer.tokens == before
            assert rewind_to_prefix(cache, before, before) == len(before) - 1
        model.lm_head.weight[7] = sound
        speculator.round(answer, 2)
        fresh = target.forward(answer.tokens, target.new_cache(), keep=1)
        kept = target.forward(answer.tokens[-1:], cache, keep=1)
        assert float((fresh - kept).abs().max()) < 1e-4


@pytest.mark.parametrize("given", [GREEDY, settings(), WARM])
def test_trap_8_a_drafter_with_broken_logits(given: Settings) -> None:
    """It is told as the drafter's fault: no crash in the next pass, and no token of the text."""
    model = tiny_model("llama")
    target = tiny_lm("llama", model=model)
    broken = noisy_copy(model, 0.1)
    broken.lm_head.weight[7] = float("nan")
    drafter = ModelDrafter(context(target, tiny_lm("llama", model=broken)))
    with pytest.raises(NumericalError, match=r"drafter's logits .* float32"):
        run_rounds(target, drafter, PROMPT, Limits(8, 512), k=3, given=given, dtype=torch.float32)


def test_trap_8_an_excluded_token_is_not_a_broken_one() -> None:
    """-inf is a legal logit: a token of probability zero."""

    def row(_: tuple[int, ...]) -> tuple[float, ...]:
        return (0.0, 0.5, 0.5)

    table: Table = row
    lab = Lab(
        target=TableModel(table, 3, dtype=torch.float32),
        draft_model=TableModel(table, 3, dtype=torch.float32),
        drafter_class=ModelDrafter,
        rule=SpeculativeSampling(),
        k=2,
        settings=settings(repetition_penalty=1.3),
        max_new_tokens=30,
        draws=Draws(1),
    )
    answer, cache = lab.answer()
    while lab.speculator(cache).round(answer, 1).cut is None:
        pass
    assert 0 not in answer.new_tokens


def test_inference_mode_does_not_leak() -> None:
    target = double_lm("gpt2")
    run = run_rounds(target, Forced(context(target), [*PROMPT, 1, 2, 3], [1]), PROMPT, Limits(3, 512), k=2)
    assert run.ids
    assert not torch.is_inference_mode_enabled()
    assert not cast("Any", torch.ones(1) * 2).is_inference()
