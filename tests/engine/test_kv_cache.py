"""The cache: grows, reserves, rewinds by a counter, and refuses what cannot be rewound."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny import ATTENTION_KINDS, SLIDING_WINDOW, tiny_config, tiny_lm
from transformers import FalconH1Config, PreTrainedConfig, Qwen3NextConfig

from engine.errors import ModelUnsupported
from engine.kv_cache import KVCache, PreallocatedLayer, as_ids, common_prefix

IDS = torch.arange(3, 33)


def layers(cache: KVCache) -> list[Any]:
    return list(cache.transformers_cache.layers)


def feed(cache: KVCache, n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Append n numbered positions to every layer; returns what attention would see."""
    seen = []
    for layer in layers(cache):
        start = layer.get_seq_length()
        states = torch.arange(start, start + n, dtype=torch.float32).reshape(1, 1, n, 1).expand(1, 2, n, 4)
        seen.append(layer.update(states, -states))
    return seen


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_every_layer_keeps_all_positions(kind: str) -> None:
    config = tiny_config(kind, 384)
    cache = KVCache(config)
    assert len(cache) == 0
    assert cache.nbytes == 0
    for n in (3, 1, SLIDING_WINDOW, 20):
        before = len(cache)
        for keys, values in feed(cache, n):
            assert keys.shape == values.shape == (1, 2, before + n, 4)
            assert torch.equal(keys[0, 0, :, 0], torch.arange(before + n, dtype=torch.float32))
            assert torch.equal(values, -keys)
        assert len(cache) == before + n
    assert len(layers(cache)) == config.num_hidden_layers


def test_sliding_layers_stay_sliding_for_the_mask() -> None:
    cache = KVCache(tiny_config("gemma3", 384))
    assert cache.transformers_cache.is_sliding == [True, True, False, True]
    feed(cache, 20)
    assert all(layer.get_mask_sizes(3) == (23, 0) for layer in layers(cache))
    assert [layer.sliding_window for layer in layers(cache)] == [
        SLIDING_WINDOW,
        SLIDING_WINDOW,
        None,
        SLIDING_WINDOW,
    ]


def test_it_grows_in_steps_and_keeps_what_it_holds() -> None:
    cache = KVCache(tiny_config("llama", 384))
    feed(cache, 250)
    room = layers(cache)[0].keys.shape[2]
    assert room == 256
    for keys, _ in feed(cache, 10):
        assert torch.equal(keys[0, 1, :, 3], torch.arange(260, dtype=torch.float32))
    assert layers(cache)[0].keys.shape[2] == 512
    assert cache.nbytes == 3 * 2 * (1 * 2 * 512 * 4) * 4


def test_room_that_was_reserved_is_made_once() -> None:
    cache = KVCache(tiny_config("llama", 384))
    cache.reserve(1000)
    assert cache.nbytes == 0
    feed(cache, 5)
    first = layers(cache)[0].keys
    assert first.shape[2] == 1024
    for _ in range(9):
        feed(cache, 100)
    assert layers(cache)[0].keys is first
    feed(cache, 200)
    assert layers(cache)[0].keys.shape[2] == 1280, "a promise that was too small still grows"


def test_truncate_is_absolute_and_never_lengthens() -> None:
    cache = KVCache(tiny_config("llama", 384))
    feed(cache, 20)
    cache.truncate(25)
    assert len(cache) == 20
    cache.truncate(12)
    cache.truncate(12)
    assert len(cache) == 12
    for keys, _ in feed(cache, 2):
        assert torch.equal(keys[0, 0, :, 0], torch.arange(14, dtype=torch.float32))
    cache.truncate(0)
    assert len(cache) == 0


def test_truncate_repairs_a_pass_that_failed_midway() -> None:
    """Memory ran out in the third layer: the first two hold more than it."""
    cache = KVCache(tiny_config("llama", 384))
    feed(cache, 10)
    for layer in layers(cache)[:2]:
        layer.update(torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4))
    cache.truncate(10)
    assert {layer.get_seq_length() for layer in layers(cache)} == {10}
    cache.check_length(10, "llama")


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_a_model_after_a_rewind_is_a_model_that_never_went_there(kind: str) -> None:
    lm = tiny_lm(kind)
    cache = lm.new_cache()
    lm.forward(IDS, cache, keep=1)
    cache.check_length(30, kind)
    with torch.inference_mode():
        fresh = lm.model(input_ids=IDS[None], use_cache=False).logits[0]
    for kept in (29, 12, SLIDING_WINDOW, 1, 0):
        cache.truncate(kept)
        again = lm.forward(IDS[kept:], cache, keep=30 - kept)
        assert torch.allclose(again, fresh[kept:], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        tiny_config("mamba", 384),
        FalconH1Config(num_hidden_layers=2, hidden_size=64),
        Qwen3NextConfig(num_hidden_layers=4, hidden_size=64),
    ],
)
def test_recurrent_states_are_refused_with_the_reason(config: PreTrainedConfig) -> None:
    with pytest.raises(ModelUnsupported, match="rewound") as caught:
        KVCache(config)
    assert config.model_type in str(caught.value)
    assert caught.value.hint is not None


def test_a_model_that_keeps_its_state_elsewhere_is_found_out() -> None:
    cache = KVCache(tiny_config("llama", 384))
    with pytest.raises(ModelUnsupported, match="0 of 4 tokens"):
        cache.check_length(4, "odd")
    feed(cache, 3)
    cache.check_length(3, "llama")
    with pytest.raises(ModelUnsupported, match="3 of 4 tokens"):
        cache.check_length(4, "odd")


def test_a_layer_that_shares_the_keys_of_another_is_fine() -> None:
    cache = KVCache(tiny_config("llama", 384))
    for layer in layers(cache)[:2]:
        layer.update(torch.zeros(1, 2, 4, 4), torch.zeros(1, 2, 4, 4))
    cache.check_length(4, "llama")


def test_half_precision_keys_stay_half() -> None:
    layer = PreallocatedLayer(KVCache(tiny_config("llama", 384)), is_sliding=False, sliding_window=None)
    keys, values = layer.update(torch.ones(1, 2, 3, 4, dtype=torch.bfloat16), torch.ones(1, 2, 3, 6).half())
    assert (keys.dtype, values.dtype) == (torch.bfloat16, torch.float16)
    assert (keys.shape[3], values.shape[3]) == (4, 6), "keys and values may differ in width"


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40), st.integers(0, 40))
def test_common_prefix(a: list[int], tail: list[int], cut: int) -> None:
    b = a[:cut] + tail
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == common_prefix(b, a) == expected


def test_as_ids() -> None:
    cpu = torch.device("cpu")
    assert as_ids([], cpu).dtype == torch.int64
    assert as_ids([3, 4], cpu).tolist() == [3, 4]
    tensor = torch.tensor([5])
    assert as_ids(tensor, cpu) is tensor


def test_a_growth_that_runs_out_of_memory_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else keys with room beside values without it would be taken for a layer that has grown."""
    from engine import kv_cache

    cache = KVCache(tiny_config("llama", 384))
    feed(cache, 250)
    grown, calls = kv_cache._grown, 0

    def short_of_memory(*arguments: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 4:  # the values of the second layer
            raise torch.OutOfMemoryError
        return grown(*arguments)

    monkeypatch.setattr(kv_cache, "_grown", short_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        feed(cache, 10)
    cache.truncate(250)
    for keys, values in feed(cache, 10):
        assert keys[0, 0, :, 0].tolist() == list(range(260))
        assert values[0, 0, :, 0].tolist() == [-at for at in range(260)]


def test_views_follow_a_growth_that_was_another_passs() -> None:
    cache, like = KVCache(tiny_config("llama", 384)), torch.empty(1, 2, 0, 4)
    cache.opened(200, like)
    cache.advance(200)
    feed(cache, 100)
    cache.truncate(150)
    keys, values = cache.opened(50, like)
    for layer, key, value in zip(layers(cache), keys, values, strict=True):
        assert key.data_ptr() == layer.keys.data_ptr()
        assert value.data_ptr() == layer.values.data_ptr()
