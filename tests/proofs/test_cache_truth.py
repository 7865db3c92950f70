"""Proof E: after any run the cache says what a fresh pass over the committed tokens says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from support.runs import (
    GREEDY,
    OTHER_WORDS,
    WORDS,
    Forced,
    Run,
    context,
    double_lm,
    in_other_words,
    in_words,
    run_plain,
    run_rounds,
)
from support.tiny import ATTENTION_KINDS, SLIDING_WINDOW, noisy_copy, tiny_lm, tiny_model
from torch import Tensor

from engine import registry
from engine.answer import Limits
from engine.drafters.base import Drafter
from engine.drafters.hybrid import HybridDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.slem import SlemDrafter
from engine.drafters.tli import TliDrafter
from engine.draws import Draws
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.prefill import rewind_to_prefix
from engine.sampling import Law

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42, 60, 61, 62, 63, 64, 40, 41]
LENGTH = 20
REJECTING = [0, 4, 1, 0, 2]
EXACT = 1e-10
FLOAT32 = 1e-4

assert len(PROMPT) + LENGTH > 4 * SLIDING_WINDOW, "the sliding layers forget the whole prompt"


def fresh_logits(model: CausalLM, tokens: list[int], rows: int = 1) -> Tensor:
    """By one pass without any past."""
    return model.forward(tokens, model.new_cache(), keep=rows)


def error(model: CausalLM, cache: KVCache, tokens: list[int]) -> float:
    """How far the logits from a cache that lacks the newest token are from those of a fresh pass."""
    assert len(cache) == len(tokens) - 1
    from_cache = model.forward(tokens[-1:], cache, keep=1)
    cache.truncate(len(tokens) - 1)
    return float((from_cache - fresh_logits(model, tokens)).abs().max())


def rejecting_run(target: CausalLM, dtype: torch.dtype = torch.float64, cache: KVCache | None = None) -> Run:
    """An answer with rejections after every number of accepted drafts."""
    limits = Limits(LENGTH, 512)
    future = [*PROMPT, *run_plain(target, PROMPT, limits, dtype=dtype).ids]
    drafter = Forced(context(target), future, REJECTING)
    run = run_rounds(target, drafter, PROMPT, limits, k=5, dtype=dtype, cache=cache)
    assert sum(r.rejected for r in run.rounds) >= 5
    return run


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_the_target_in_float64(kind: str) -> None:
    target = double_lm(kind)
    run = rejecting_run(target)
    assert error(target, run.cache, run.answer.tokens) < EXACT


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_the_target_in_float32(kind: str) -> None:
    target = tiny_lm(kind)
    run = rejecting_run(target, torch.float32)
    assert error(target, run.cache, run.answer.tokens) < FLOAT32


CACHED: dict[str, Callable[[CausalLM, CausalLM], tuple[Drafter, KVCache]]] = {
    "model": lambda target, model: with_cache(ModelDrafter(context(target, model))),
    "hybrid": lambda target, model: with_cache(HybridDrafter(context(target, model, min_match=3)), "_model"),
    "slem": lambda target, model: with_cache(SlemDrafter(context(in_words(target), model))),
    "tli": lambda target, model: with_cache(TliDrafter(context(in_words(target), model))),
}
"""Drafters that hold a cache, and where."""


def with_cache(drafter: Drafter, part: str = "") -> tuple[Drafter, KVCache]:
    """The drafter, and the cache that it or one of its parts holds."""
    holder: Any = getattr(drafter, part) if part else drafter
    return drafter, holder._cache


def own_ids(method: str, tokens: list[int]) -> list[int]:
    """What a drafter's cache holds for committed tokens: they themselves, or their text in its own tokens."""
    if registry.DRAFTERS[method].any_tokenizer:
        return OTHER_WORDS.encode_more("".join(WORDS.tokens[id_] for id_ in tokens))
    return tokens


def test_each_method_with_a_model_is_checked() -> None:
    missing = {name for name, entry in registry.DRAFTERS.items() if entry.loads_model} - set(CACHED)
    assert not missing, f"say in CACHED where the cache of these is: {', '.join(missing)}"


class Fed(CausalLM):
    """Remembers what each cache was fed and compares every pass with a fresh one over all of it."""

    checked = 0
    worst = 0.0

    def forward(self, ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        fed = vars(cache).setdefault("fed", [])
        fed[len(cache) :] = [int(id_) for id_ in ids]
        logits = super().forward(ids, cache, keep)
        self.worst = max(
            self.worst, float((logits - super().forward(fed, self.new_cache(), keep)).abs().max())
        )
        self.checked += 1
        return logits

    def extend(self, ids: list[int], cache: KVCache) -> None:
        vars(cache).setdefault("fed", [])[len(cache) :] = ids
        super().extend(ids, cache)


@pytest.mark.parametrize("method", CACHED)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, EXACT), (torch.float32, FLOAT32)])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_the_drafter(kind: str, dtype: torch.dtype, bound: float, method: str) -> None:
    """Every pass of a run, whatever was accepted before it, and after the tokens changed under it."""
    double = dtype == torch.float64
    target = double_lm(kind) if double else tiny_lm(kind)
    found = double_lm(kind, 0.1) if double else tiny_lm(kind, model=noisy_copy(tiny_model(kind), 0.1))
    watched = (in_other_words(found) if registry.DRAFTERS[method].any_tokenizer else found).twin()
    watched.__class__ = Fed
    drafter, cache = CACHED[method](target, watched)
    run = run_rounds(target, drafter, PROMPT, Limits(LENGTH, 512), k=4, dtype=dtype)
    assert 0 < sum(r.accepted for r in run.rounds) < sum(r.drafted for r in run.rounds)
    written, law = run.answer.tokens, Law(GREEDY, dtype)
    edited = [*written[:25], 77, 78]
    compared = 0
    for tokens in (written, edited, edited[:-1], edited[:10], written):
        draft = drafter.propose(tokens, 3, law, Draws(0))
        if draft.source != "lookup":  # for what is copied no cache is read
            own = own_ids(method, tokens)
            assert vars(cache)["fed"][: len(own)] == own, "the cache holds the committed tokens"
            compared += len(draft.ids) > 0
    assert compared >= 3
    checked = cast("Fed", watched)
    assert checked.checked > 20
    assert checked.worst < bound


@pytest.mark.parametrize("kept", [3, SLIDING_WINDOW - 1, SLIDING_WINDOW, 20, len(PROMPT) + LENGTH - 2])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_after_an_edit(kind: str, kept: int) -> None:
    """Tokens that a sliding layer had left behind come back into its window."""
    target = double_lm(kind)
    run = rejecting_run(target)
    held = run.answer.tokens
    edited = [*held[:kept], (held[kept] + 1) % 384, 50, 51]
    length = rewind_to_prefix(run.cache, held, edited)
    assert length == len(run.cache) == kept
    target.extend(edited[length:-1], run.cache)
    assert error(target, run.cache, edited) < EXACT


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_a_cache_used_again(kind: str) -> None:
    """The baseline and the next answer work on the same cache, rewound to the prompt."""
    target = double_lm(kind)
    first = rejecting_run(target)
    rewind_to_prefix(first.cache, first.answer.tokens, PROMPT)
    again = run_plain(target, PROMPT, Limits(LENGTH, 512), cache=first.cache)
    assert again.ids == first.ids
    rewind_to_prefix(again.cache, again.answer.tokens, PROMPT)
    assert rejecting_run(target, cache=again.cache).ids == first.ids


def test_a_wrong_cache_would_be_seen() -> None:
    """The tiny models have positions: one position lost moves the logits by far more than the tolerance."""
    for kind in ATTENTION_KINDS:
        target = double_lm(kind)
        run = rejecting_run(target)
        tokens = run.answer.tokens
        run.cache.truncate(len(tokens) - 3)
        target.extend(tokens[-2:-1], run.cache)
        moved = target.forward(tokens[-1:], run.cache, keep=1) - fresh_logits(target, tokens)
        assert float(moved.abs().max()) > 1e-3


def test_the_sliding_window_is_in_force() -> None:
    """Gemma-3's window is a property of the model here, not one that the cache took away."""
    target = double_lm("gemma3")
    model = cast("Any", target.model)
    assert "sliding_attention" in model.config.layer_types
    tokens = PROMPT * 2
    with torch.inference_mode():
        by_transformers = model(torch.tensor([tokens])).logits[0, -1]
    assert float((fresh_logits(target, tokens)[0] - by_transformers).abs().max()) < EXACT


@pytest.mark.soak
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_a_long_noisy_run(kind: str) -> None:
    model = tiny_model(kind)
    target = tiny_lm(kind, model=model)
    drafter = ModelDrafter(context(target, tiny_lm(kind, model=noisy_copy(model, 0.1))))
    run = run_rounds(target, drafter, PROMPT, Limits(480, 512), k=7, dtype=torch.float32)
    assert error(target, run.cache, run.answer.tokens) < FLOAT32
