"""Proof D: at temperature 0 the rounds write what plain decoding and transformers write, token for token.

In float64, where a pass over K+1 rows and K+1 passes over one row differ by 1e-14 and the two likeliest
tokens of these models by far more; real architectures, random weights.
"""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from support.labs import rule_named
from support.runs import (
    DRAFTERS,
    GREEDY,
    METHODS,
    Forced,
    context,
    double_lm,
    make_drafter,
    run_plain,
    run_rounds,
)
from support.tables import TableModel, random_table, settings
from support.tiny import ATTENTION_KINDS, SLIDING_WINDOW, tiny_model

from engine import registry
from engine.answer import Limits
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.events import EndReason

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42, 60, 61, 62, 63, 64, 40, 41]
LENGTH = 16
FOREVER = Limits(LENGTH, 512)
RULES = list(registry.RULES)

assert len(PROMPT) > SLIDING_WINDOW, "the sliding layers must have something to forget"


@lru_cache
def generated(kind: str, length: int = LENGTH, penalty: float = 1.0) -> tuple[int, ...]:
    """What transformers' own loop writes after PROMPT."""
    ids = torch.tensor([PROMPT])
    written = double_lm(kind).model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=length,
        repetition_penalty=penalty,
        eos_token_id=None,
        pad_token_id=0,
    )
    return tuple(written[0, len(PROMPT) :].tolist())


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_plain_decoding_is_that_of_transformers(kind: str) -> None:
    run = run_plain(double_lm(kind), PROMPT, FOREVER)
    assert tuple(run.ids) == generated(kind)
    assert run.text == double_lm(kind).text.tokenizer.decode(run.ids, skip_special_tokens=True)
    assert len(set(run.ids)) > LENGTH / 3, "a text that repeats itself proves little"


WIDTHS = {"llama": (1, 2, 3, 4, 5, 6, 7, 8), "gemma3": (1, 4, 5, 8), "qwen3": (1, 5), "gpt2": (1, 5)}
"""Each K with a model, the shortest and the middle ones with all, and the longest with a sliding window."""


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    ("kind", "k"),
    [
        pytest.param(kind, k, marks=() if k in WIDTHS[kind] else pytest.mark.soak)
        for kind in ATTENTION_KINDS
        for k in range(1, 9)
    ],
)
def test_every_drafter_writes_the_same_text(kind: str, drafter: str, k: int) -> None:
    target = double_lm(kind)
    future = [*PROMPT, *generated(kind)]
    rule = rule_named(RULES[(k + DRAFTERS.index(drafter)) % len(RULES)])
    made, draws = make_drafter(drafter, target, kind, future), rule.draws(k)
    run = run_rounds(target, made, PROMPT, FOREVER, k=k, rule=rule, draws=draws)
    assert tuple(run.ids) == generated(kind)
    assert run.reason is EndReason.MAX_NEW_TOKENS
    per_round = [len(r.tokens) for r in run.rounds]
    if drafter == "perfect":
        assert all(size == k + 1 for size in per_round[:-1]), "every draft of the target itself is accepted"
    if drafter == "hostile":
        assert set(per_round) == {1}, "no draft is accepted"
    if drafter == "noisy" and k == 8:
        kept = {r.accepted for r in run.rounds}
        assert len(kept) > 1, "this drafter should be right now and then"


def test_each_method_of_the_registry_is_among_the_drafters() -> None:
    missing = set(registry.DRAFTERS) - set(METHODS.values())
    assert not missing, f"say in make_drafter of tests/support/runs.py how to build: {', '.join(missing)}"


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_with_every_drafter(rule: str, drafter: str) -> None:
    """With a repetition penalty, so that each row's prefix counts."""
    target, given = double_lm("llama"), settings(temperature=0.0, repetition_penalty=1.5)
    expected = generated("llama", penalty=1.5)
    made = make_drafter(drafter, target, "llama", [*PROMPT, *expected])
    shipped = rule_named(rule)
    run = run_rounds(target, made, PROMPT, FOREVER, k=4, given=given, rule=shipped, draws=shipped.draws(1))
    assert tuple(run.ids) == expected


@pytest.mark.parametrize("right", range(5))
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_each_number_of_accepted_drafts(kind: str, right: int) -> None:
    """n_accepted is forced to each of 0..K, round after round."""
    target = double_lm(kind)
    drafter = Forced(context(target), [*PROMPT, *generated(kind)], [right])
    run = run_rounds(target, drafter, PROMPT, FOREVER, k=4)
    assert tuple(run.ids) == generated(kind)
    assert {r.n_accepted for r in run.rounds[:-1]} == {right}
    assert {len(r.tokens) for r in run.rounds[:-1]} == {right + 1}


@pytest.mark.parametrize("drafter", ["lookup", "noisy"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_with_a_repetition_penalty(kind: str, drafter: str) -> None:
    target, given = double_lm(kind), settings(temperature=0.0, repetition_penalty=1.5)
    expected = generated(kind, penalty=1.5)
    assert expected != generated(kind)
    assert tuple(run_plain(target, PROMPT, FOREVER, given=given).ids) == expected
    made = make_drafter(drafter, target, kind, [*PROMPT, *expected])
    assert tuple(run_rounds(target, made, PROMPT, FOREVER, k=4, given=given).ids) == expected


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("drafter", ["perfect", "mixed", "lookup"])
def test_eos_at_every_offset_of_a_block(drafter: str, offset: int) -> None:
    target, written = double_lm("llama"), generated("llama")
    limits = Limits(LENGTH, 512, eos_ids=frozenset({written[offset], 9}))
    end = written.index(written[offset]) + 1
    made = make_drafter(drafter, target, "llama", [*PROMPT, *written])
    run = run_rounds(target, made, PROMPT, limits, k=4)
    assert run.outcome == run_plain(target, PROMPT, limits).outcome
    assert tuple(run.ids) == written[:end]
    assert run.reason is EndReason.EOS


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("right", [[3], [0], [2, 0, 3, 1]])
def test_stop_strings_inside_and_across_blocks(right: list[int], size: int) -> None:
    """Every stop string that the text holds, wherever it begins and ends."""
    target = TableModel(random_table(5, 5), 5).as_lm()
    whole = run_plain(target, [0], FOREVER)
    taken_back = 0
    for begin in range(LENGTH - size):
        stop = whole.text[begin : begin + size]
        limits = Limits(LENGTH, 512, stop=(stop, "never there"))
        run = run_rounds(target, Forced(context(target), [0, *whole.ids], right), [0], limits, k=3)
        assert run.outcome == run_plain(target, [0], limits).outcome
        first = whole.text.index(stop)
        assert run.text == whole.text[:first]
        assert run.ids == whole.ids[: first + 1], "the token in which the stop begins is the last one kept"
        assert run.reason is EndReason.STOP
        taken_back += run.rounds[-1].taken_back
    assert (taken_back > 0) == (size > 2), "a stop of three tokens or more can begin in an earlier round"


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_answers(drafter: str, length: int) -> None:
    target, written = double_lm("qwen3"), generated("qwen3")
    made = make_drafter(drafter, target, "qwen3", [*PROMPT, *written])
    run = run_rounds(target, made, PROMPT, Limits(length, 512), k=5)
    assert tuple(run.ids) == written[:length]
    assert all(r.k <= length - 1 for r in run.rounds), "no draft that cannot be committed"
    assert run.rounds[0].k_reason == "limit near"


@pytest.mark.parametrize("room", [1, 2, 5])
@pytest.mark.parametrize("drafter", ["perfect", "lookup", "hostile"])
def test_a_full_context_ends_the_answer(drafter: str, room: int) -> None:
    target, written = double_lm("llama"), generated("llama")
    limits = Limits(LENGTH, len(PROMPT) + room)
    made = make_drafter(drafter, target, "llama", [*PROMPT, *written])
    run = run_rounds(target, made, PROMPT, limits, k=4)
    assert tuple(run.ids) == written[:room]
    assert run.reason is EndReason.CONTEXT
    assert run.outcome == run_plain(target, PROMPT, limits).outcome


@pytest.mark.parametrize("room", [-3, 0, 1, 4, 7])
def test_a_drafter_with_a_shorter_context(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    target, model = double_lm("llama"), double_lm("llama", 0.02)
    monkeypatch.setattr(model, "context_length", len(PROMPT) + room)
    run = run_rounds(target, ModelDrafter(context(target, model)), PROMPT, FOREVER, k=3)
    assert tuple(run.ids) == generated("llama")
    drafted = [len(r.drafts) for r in run.rounds]
    assert (sum(drafted) > 0) == (room > 0)
    full = [r for r in run.rounds if r.context_length >= len(PROMPT) + room and r.k > 0]
    assert full
    assert all(r.k_reason == "drafter context full" and not r.drafts for r in full)


def test_a_drafter_with_fewer_ids() -> None:
    """Once the text holds an id the drafter does not know, it is not asked to read it."""
    target = double_lm("llama")
    written = generated("llama")
    for common_ids in sorted(set(written))[-6:]:
        drafting = context(target, double_lm("llama", 0.02))
        cut = type(drafting)(target, drafting.model, max(common_ids, *PROMPT) + 1, greedy=False)
        run = run_rounds(target, ModelDrafter(cut), PROMPT, FOREVER, k=5)
        assert tuple(run.ids) == written
        unknown = [id_ for id_ in written if id_ >= cut.common_ids]
        if unknown and written.index(unknown[0]) <= LENGTH - 3:  # else nothing is drafted after it
            assert f"the drafter has no token {unknown[0]}" in {r.k_reason for r in run.rounds}


@pytest.mark.parametrize("drafter", ["lookup", "noisy"])
def test_float32_differs_at_near_ties_only(drafter: str) -> None:
    """Equal, or parted where the two likeliest tokens are closer than the passes of two widths differ."""
    from support.tiny import noisy_copy, tiny_lm

    model = tiny_model("llama")
    target = tiny_lm("llama", model=model)
    made = (
        LookupDrafter(context(target))
        if drafter == "lookup"
        else ModelDrafter(context(target, tiny_lm("llama", model=noisy_copy(model, 0.1))))
    )
    limits = Limits(60, 512)
    plain = run_plain(target, PROMPT, limits, dtype=torch.float32).ids
    rounds = run_rounds(target, made, PROMPT, limits, k=5, dtype=torch.float32).ids
    parted = next((i for i, (a, b) in enumerate(zip(plain, rounds, strict=True)) if a != b), None)
    if parted is None:
        return
    prefix = [*PROMPT, *plain[:parted]]
    cache = target.new_cache()
    narrow = torch.cat([target.forward([id_], cache, 1) for id_ in prefix])[-1]
    wide = target.forward(prefix, target.new_cache(), 1)[-1]
    gap = narrow.topk(2).values.diff().abs()
    assert gap <= 2 * (narrow - wide).abs().max(), f"parted at token {parted} without a tie"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_many_models_and_long_answers(kind: str, seed: int) -> None:
    from support.runs import double_model
    from support.tiny import noisy_copy, tiny_lm

    model = double_model(kind, seed)
    target = tiny_lm(kind, model=model)
    limits = Limits(300, 512)
    plain = run_plain(target, PROMPT, limits)
    drafters = [
        LookupDrafter(context(target)),
        ModelDrafter(context(target, tiny_lm(kind, model=noisy_copy(model, 0.03)))),
        Forced(context(target), [*PROMPT, *plain.ids], [3, 0, 7, 1, 8, 2]),
    ]
    for made in drafters:
        assert run_rounds(target, made, PROMPT, limits, k=7, given=GREEDY).outcome == plain.outcome
