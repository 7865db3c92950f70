"""Greedy rounds on a quantised target write what its own plain decoding writes.

In float64, where coded weights are decoded and nothing else is rounded, token for token what transformers
writes with the same codes. By torch's kernels, in bfloat16, bit for bit where the processor allows it, else
but for near ties.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from support.runs import context, double_model, make_drafter, run_plain, run_rounds
from support.sessions import configured, loaded, of
from support.tiny import LLAMA_SHAPED, noisy_copy, static_lm, tiny_lm, tiny_model

from engine.answer import Limits
from engine.bench.prompts import COPY
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.events import BaselineFinished, Round
from engine.models.causal_lm import CausalLM
from engine.models.devices import fast_bfloat16
from engine.models.quantized import How, quantize

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42, 60, 61, 62, 63, 64, 40, 41]
LIMITS = Limits(16, 512)


@cache
def exact_lm(kind: str, how: How) -> CausalLM:
    model = double_model(kind)
    quantize(model, how, kind)
    return static_lm(kind, model=model) if kind in LLAMA_SHAPED else tiny_lm(kind, model=model)


@cache
def generated(kind: str, how: How | None) -> tuple[int, ...]:
    model = double_model(kind) if how is None else exact_lm(kind, how).model
    ids = torch.tensor([PROMPT])
    written = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=16, eos_token_id=None,
        pad_token_id=0,
    )  # fmt: skip
    return tuple(written[0, len(PROMPT) :].tolist())


@pytest.mark.parametrize("how", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_every_drafter_writes_the_quantised_models_text(kind: str, how: How) -> None:
    target, expected = exact_lm(kind, how), generated(kind, how)
    assert tuple(run_plain(target, PROMPT, LIMITS).ids) == expected
    if how == "int4":
        assert expected != generated(kind, None), "another model, another text"
    for name in ("lookup", "noisy", "hostile", "mixed"):
        made = make_drafter(name, target, kind, [*PROMPT, *expected])
        assert tuple(run_rounds(target, made, PROMPT, LIMITS, k=5).ids) == expected, name


@pytest.mark.parametrize("how", ["int8", "int4"])
def test_a_quantised_copy_of_the_target_drafts(how: How) -> None:
    target, expected = tiny_lm("llama", model=double_model("llama")), generated("llama", None)
    run = run_rounds(target, ModelDrafter(context(target, exact_lm("llama", how))), PROMPT, LIMITS, k=4)
    assert tuple(run.ids) == expected
    accepted = sum(round_.n_accepted for round_ in run.rounds)
    assert accepted > 0, "it is right now and then"
    assert how == "int8" or accepted < sum(len(round_.drafts) for round_ in run.rounds), "and not always"


@pytest.mark.parametrize("drafter", ["lookup", "noisy"])
@pytest.mark.parametrize("how", ["int8", "int4"])
def test_by_kernels_passes_of_all_widths_agree(how: How, drafter: str) -> None:
    model = tiny_model("llama").bfloat16()
    quantize(model, how, "m")
    target = static_lm("llama", model=model)
    noisy = tiny_lm("llama", model=noisy_copy(tiny_model("llama"), 0.1))
    made = LookupDrafter(context(target)) if drafter == "lookup" else ModelDrafter(context(target, noisy))
    limits = Limits(60, 512)
    plain = run_plain(target, PROMPT, limits, dtype=torch.float32).ids
    rounds = run_rounds(target, made, PROMPT, limits, k=5, dtype=torch.float32).ids
    parted = next((i for i, (a, b) in enumerate(zip(plain, rounds, strict=True)) if a != b), None)
    if parted is None:
        return
    assert fast_bfloat16() != "AMX", "passes of all widths have the same bits on this processor"
    prefix = [*PROMPT, *plain[:parted]]
    cache = target.new_cache()
    narrow = torch.cat([target.forward([id_], cache, 1) for id_ in prefix])[-1]
    wide = target.forward(prefix, target.new_cache(), 1)[-1]
    gap = narrow.topk(2).values.diff().abs()
    assert gap <= 2 * (narrow - wide).abs().max(), f"parted at token {parted} without a tie"


def test_the_built_in_model_in_int8() -> None:
    run = {"dtype": "bfloat16", "max_new_tokens": 24}
    session = loaded(configured("builtin:smollm2-135m", verify={"quantize": "int8"}, run=run))
    assert session.pair.target.info.quantized == "int8"
    rounds = [event for event in session.generate(COPY[0].messages) if isinstance(event, Round)]
    assert any(round_.n_accepted > 1 for round_ in rounds), "passes of several rows"
    finished = of(BaselineFinished, list(session.baseline()))
    assert session.pair.same_bits or fast_bfloat16() != "AMX"
    assert finished.identical or (finished.divergence is not None and finished.divergence.is_tie)
    assert finished.identical or not session.pair.same_bits
