"""Attention in which a token gets the same bits whatever tokens are beside it in the pass.

Plain decoding feeds one row a pass, a round K+1 of them. In bfloat16 torch's attention on the CPU rounds
differently for the two, which moves logits by as much as 1.5 and turns greedy text at near ties
(transformers#39421 and many more). What differs was found by measurement (docs/log.md): a query tile of
a single row takes another kernel than one of several, and a number of keys that is no multiple of the
kernel's step is summed in another order. So here no tile has a single row, and the keys come in
multiples of ``BLOCK``, what lies behind the newest token being masked. It costs no time. Where the
processor multiplies matrices row by row alike too (AMX does, up to 32 rows), passes of one row and of
several agree bit by bit, as ``Pair.warm_up`` checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, causal_mask_function, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "row_invariant"
BLOCK = 64
"""Keys come in multiples of this many."""
TILE = 32
"""Rows of a query that torch's kernel takes at a time."""
_PLAIN = "sdpa"


def fits(model: PreTrainedModel) -> bool:
    """Whether the model's passes gain by it: bfloat16 on the CPU, torch's attention everywhere."""
    config = model.config
    return (
        model.device.type == "cpu"
        and model.dtype == torch.bfloat16
        and getattr(model, "_supports_attention_backend", False)
        and config._attn_implementation == _PLAIN
        # Layers that hold a configuration of their own would not be told.
        and all(getattr(module, "config", config) is config for module in model.modules())
    )


@contextmanager
def row_invariant(model: PreTrainedModel) -> Iterator[None]:
    """Passes of the model use it meanwhile; its configuration is left as it was."""
    model.config._attn_implementation = NAME
    try:
        yield
    finally:
        model.config._attn_implementation = _PLAIN


def _attention(
    module: torch.nn.Module,
    query: Tensor,  # (1, H, n, D)
    key: Tensor,  # (1, G, m, D), m a multiple of BLOCK
    value: Tensor,
    attention_mask: Tensor | None,  # (1, 1, n, m)
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    if attention_mask is None or any(more.get(name) is not None for name in ("position_bias", "softcap")):
        usual: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **more
        )
        return usual
    _, heads, n, size = query.shape
    shared = heads // key.shape[1]
    if n == 1 and shared > 1:  # the heads that share keys make a tile of several rows
        tile = query.reshape(1, key.shape[1], shared, size)
        attended = scaled_dot_product_attention(tile, key, value, attn_mask=attention_mask, scale=scaling)
        return attended.reshape(1, 1, heads, size), None
    if n % TILE == 1:  # the last row stands twice
        query = torch.cat([query, query[:, :, -1:]], dim=2)
        attention_mask = torch.cat([attention_mask, attention_mask[:, :, -1:]], dim=2)
    attended = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=shared > 1
    )  # (1, H, n or n + 1, D)
    return attended[:, :, :n].transpose(1, 2).contiguous(), None


def _mask(
    batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0, **more: Any
) -> Tensor | None:
    """True where a row may look; never left out, as keys reach beyond the newest token.  # (1, 1, n, m)"""
    if more.get("mask_function") is causal_mask_function and more.get("attention_mask") is None:
        device = more.get("device", "cpu")
        rows = torch.arange(int(q_offset), int(q_offset) + q_length, device=device)[:, None]  # (n, 1)
        keys = torch.arange(kv_offset, kv_offset + kv_length, device=device)  # (m,)
        return (keys <= rows)[None, None]
    more["allow_is_causal_skip"] = False
    mask: Tensor | None = sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, **more)
    return mask


ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _mask)
