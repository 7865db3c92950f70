"""Row-invariant attention: the same numbers as torch's, the same bits for any number of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tiny import ATTENTION_KINDS, tiny_lm, tiny_model
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from engine.models import attention
from engine.models.attention import BLOCK, NAME
from engine.models.causal_lm import CausalLM

HELD, SIZE, GROUPS = 300, 64, 3
WIDTHS = (1, 2, 3, 9, 31, 32, 33, 34, 65)


class _Module(torch.nn.Module):
    num_key_value_groups = 1


def mask(first: int, rows: int, keys: int) -> Tensor:
    return (torch.arange(keys) <= torch.arange(first, first + rows)[:, None])[None, None]


def attend(query: Tensor, keys: Tensor, values: Tensor, first: int) -> Tensor:
    """Rows from position ``first`` on, over the whole blocks that hold them.  # (1, n, H, D)"""
    shown = -(-(first + query.shape[2]) // BLOCK) * BLOCK
    function: Any = ALL_ATTENTION_FUNCTIONS[NAME]
    attended, _ = function(
        _Module(), query, keys[:, :, :shown], values[:, :, :shown], mask(first, query.shape[2], shown)
    )
    found: Tensor = attended
    return found


@pytest.mark.parametrize("shared", [1, 2, 3, 4])
@pytest.mark.parametrize("first", [0, 1, 61, 62, 63, 64, 200])
def test_a_row_has_its_own_bits(shared: int, first: int) -> None:
    generator = torch.Generator().manual_seed(first)
    capacity = -(-(first + max(WIDTHS)) // BLOCK) * BLOCK
    keys, values = (torch.randn(1, GROUPS, capacity, SIZE, generator=generator).bfloat16() for _ in range(2))
    query = torch.randn(1, GROUPS * shared, max(WIDTHS), SIZE, generator=generator).bfloat16()
    alone = torch.cat(
        [attend(query[:, :, i : i + 1], keys, values, first + i) for i in range(max(WIDTHS))], 1
    )
    for width in WIDTHS:
        assert torch.equal(attend(query[:, :, :width], keys, values, first), alone[:, :width]), width


def test_torch_s_own_has_not() -> None:
    """What this is for. If torch ever gives these rows the same bits, the module can go."""
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(1, GROUPS, HELD, SIZE, generator=generator).bfloat16() for _ in range(2))
    query = torch.randn(1, GROUPS, 9, SIZE, generator=generator).bfloat16()

    def own(row: slice, first: int, held: int) -> Tensor:
        seen = keys[:, :, :held], values[:, :, :held]
        rows = query[:, :, row]
        return scaled_dot_product_attention(rows, *seen, attn_mask=mask(first, rows.shape[2], held))

    differing = 0
    for first in range(HELD - 40, HELD - 9):
        together = own(slice(None), first, first + 9)
        alone = torch.cat([own(slice(i, i + 1), first + i, first + i + 1) for i in range(9)], dim=2)
        differing += not torch.equal(together, alone)
        assert torch.allclose(together.float(), alone.float(), atol=0.02)
    assert differing > 10


def logits(model: CausalLM, ids: list[int], width: int) -> Tensor:
    cache, rows = model.new_cache(), []
    for start in range(0, len(ids), width):
        chunk = ids[start : start + width]
        rows.append(model.forward(chunk, cache, keep=len(chunk)))
    return torch.cat(rows)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_whole_models_are_computed_as_before(kind: str) -> None:
    """Windows, masks and positions are those of transformers; its own passes are untouched."""
    network = tiny_model(kind).bfloat16()
    model = tiny_lm(kind, model=network)
    ids = [(7 * i) % 380 for i in range(150)]
    cache = model.new_cache()
    assert cache.shown(65) == 2 * BLOCK
    with torch.inference_mode():
        expected = network(torch.tensor([ids])).logits[0].float()
    assert network.config._attn_implementation == "sdpa"
    wide = logits(model, ids, 150).float()
    narrow = logits(model, ids, 1).float()
    moved = logits(model, [*ids[:100], 1, *ids[101:]], 7).float()
    # What one other token does to the rows after it: a wrong window, mask or position would move them so far.
    seen = float((moved - wide)[101:104].abs().mean())
    assert float((wide - expected).abs().mean()) < seen / 2
    assert float((narrow - wide).abs().mean()) < seen / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_other_formats_keep_torch_s_own(dtype: torch.dtype) -> None:
    network = tiny_model("llama").to(dtype)
    assert not attention.fits(network)
    assert tiny_lm("llama", model=network).new_cache().shown(65) == 65


def test_models_with_another_attention_keep_it() -> None:
    network = tiny_model("llama").bfloat16()
    assert attention.fits(network)
    network.set_attn_implementation("eager")
    assert not attention.fits(network)


def test_a_failing_pass_leaves_the_configuration() -> None:
    network = tiny_model("llama").bfloat16()
    model = tiny_lm("llama", model=network)
    with pytest.raises(IndexError):
        model.forward([10_000], model.new_cache(), keep=1)
    assert network.config._attn_implementation == "sdpa"


def test_what_a_broken_pass_left_is_gone_after_clear() -> None:
    """A NaN behind the newest token is masked, but 0 times NaN would still be one."""
    network = tiny_model("llama").bfloat16()
    model = tiny_lm("llama", model=network)
    cache = model.new_cache()
    expected = model.forward([5, 6, 7], cache, keep=1)
    sound = network.model.embed_tokens.weight[9].clone()
    network.model.embed_tokens.weight[9] = float("nan")
    model.forward([9, 9], cache, keep=1)
    network.model.embed_tokens.weight[9] = sound
    cache.clear()
    assert torch.equal(model.forward([5, 6, 7], cache, keep=1), expected)
