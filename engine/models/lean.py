"""Our own forward pass of Llama-shaped models: the same sums as transformers', in fewer and faster operators.

A pass runs half as many operators (25 a layer, views apart), and everything that depends on the positions
alone (rotary tables, masks) is made outside, once a pass. Three choices were measured
(docs/log.md):

* In bfloat16 on the CPU a product is taken as ``(W xT)T``. The kernel then reads the weights as they lie;
  ``x WT`` makes it re-order them at every call. Two rows cost what one does, so one row is fed twice, and
  all widths take the same kernel: a row gets the same bits whatever is beside it.
* On the CPU an RMS norm is a layer norm of (x, -x), whose mean is 0 and whose variance is the mean square:
  one fused kernel instead of seven operators.
* Query heads that share keys make one tile of rows, so keys and values are read once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear
from torch.nn.functional import embedding, layer_norm, rms_norm, scaled_dot_product_attention, silu
from transformers import PreTrainedModel

from engine.models.projection import Plain, Projection, SideBySide
from engine.models.quantized import QuantizedLinear, side_by_side

FAMILIES = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
"""Classes of transformers whose layers are those below."""
_ROTARY = frozenset({"default", "linear", "llama3", "yarn"})
"""Ways to turn queries and keys that depend on the position alone, not on the length of the text."""
WIDE = 5
"""Rows from which on, in float32 on the CPU, the output matrix is faster as ``(W xT)T``."""


@dataclass(frozen=True, slots=True)
class Norm:
    """An RMS norm over the last dimension (Zhang and Sennrich 2019, arXiv 1910.07467)."""

    weight: Tensor
    """(M,), or (2M,), the same twice, where it is taken as a layer norm."""
    size: int
    eps: float
    as_layer_norm: bool

    def __call__(self, x: Tensor) -> Tensor:
        if not self.as_layer_norm:
            return rms_norm(x, (self.size,), self.weight, self.eps)
        both = torch.cat([x, x.neg()], dim=-1)  # (..., 2M)
        return layer_norm(both, (2 * self.size,), self.weight, None, self.eps).narrow(-1, 0, self.size)


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    attention_norm: Norm
    qkv: Projection
    q_norm: Norm | None
    k_norm: Norm | None
    out: Projection
    mlp_norm: Norm
    gate_up: Projection
    down: Projection


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything a pass multiplies with."""

    table: Tensor
    """The embedding.  # (V, M)"""
    layers: tuple[Layer, ...]
    norm: Norm
    head: Projection
    wide_head: Projection
    """The same, for many rows."""


@dataclass(frozen=True, slots=True)
class Places:
    """What a pass takes that depends on its positions alone."""

    positions: Tensor
    """(n,)"""
    cos: Tensor
    """(n, 1, D)"""
    sin: Tensor
    """(n, 1, D), the first half negated"""
    mask: Tensor
    """0 where a row may look, else -inf; one row for all heads of all rows where they are the same row.
    # (shared * n or 1, m)"""


class LeanForward:
    """The layers of one model, on its own weights: query, key and value matrices, and gate and up, are laid
    side by side, and the model's own parameters become views of them.

    Args:
        model: one that ``why_not`` says nothing against.
        compiled: whether torch.compile makes the kernels of a layer; it needs a C++ compiler.

    n rows, H heads, G of keys and values, ``shared`` = H / G, D their size, m positions shown, V ids.
    """

    def __init__(self, model: PreTrainedModel, *, compiled: bool = False) -> None:
        config: Any = model.config
        first: Any = model.model.layers[0].self_attn
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.size: int = first.head_dim
        self.shared = self.heads // self.kv_heads
        self.dtype, self.device = model.dtype, model.device
        self.scale: float = first.scaling
        self._rotary: Any = model.model.rotary_emb
        on_cpu = self.device.type == "cpu"
        self.turned = on_cpu and self.dtype == torch.bfloat16
        """Whether one row is fed twice."""
        head = model.get_output_embeddings()
        self.weights = Weights(
            table=model.get_input_embeddings().weight.detach(),
            layers=tuple(self._layer(layer) for layer in model.model.layers),
            norm=self._norm_of(model.model.norm),
            head=_projection(head, self.turned),
            wide_head=_projection(head, self.turned or on_cpu),
        )
        # One layer compiled once serves all of them, at every length.
        self._through = torch.compile(self.layer, dynamic=True) if compiled else self.layer

    def hidden(self, ids: Tensor, at: Places, keys: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
        """What the last layer gives; writes keys and values.  # (n, M)

        Args:
            ids: of n consecutive positions.  # (n,)
            keys, values: of each layer, up to the positions shown.  # (1, G, m, D)
        """
        x = embedding(ids, self.weights.table)  # (n, M)
        for layer, k, v in zip(self.weights.layers, keys, values, strict=True):
            x = self._through(layer, x, at, k, v)
        return x

    def logits(self, hidden: Tensor, wide: bool) -> Tensor:
        """(r, M) -> (r, V)"""
        head = self.weights.wide_head if wide else self.weights.head
        return head(self.weights.norm(hidden))

    def rotary(self, count: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the first positions, the first half of the sines negated.  # (count, 1, D)"""
        positions = torch.arange(count, device=self.device)[None]
        cos, sin = self._rotary(torch.empty(0, dtype=self.dtype, device=self.device), positions)
        half = self.size // 2
        sin = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
        return cos[0, :, None].contiguous(), sin[0, :, None].contiguous()

    def layer(self, layer: Layer, x: Tensor, at: Places, keys: Tensor, values: Tensor) -> Tensor:
        """(n, M) -> (n, M)"""
        x = x + layer.out(self._attend(layer, layer.attention_norm(x), at, keys, values))
        gate, up = layer.gate_up(layer.mlp_norm(x)).chunk(2, dim=-1)  # (n, F) each
        return x + layer.down(silu(gate) * up)

    def _attend(self, layer: Layer, x: Tensor, at: Places, keys: Tensor, values: Tensor) -> Tensor:
        heads, kv_heads, size = self.heads, self.kv_heads, self.size
        projected = layer.qkv(x).contiguous().view(-1, heads + 2 * kv_heads, size)  # (n, H + 2G, D)
        turning = projected.narrow(1, 0, heads + kv_heads)  # (n, H + G, D)
        if layer.q_norm is not None and layer.k_norm is not None:
            q = layer.q_norm(projected.narrow(1, 0, heads))
            turning = torch.cat([q, layer.k_norm(projected.narrow(1, heads, kv_heads))], dim=1)
        turned = torch.addcmul(turning * at.cos, turning.roll(size // 2, -1), at.sin)
        turned = turned.transpose(0, 1)  # (H + G, n, D)
        keys.index_copy_(2, at.positions, turned.narrow(0, heads, kv_heads)[None])
        fresh = projected.narrow(1, heads + kv_heads, kv_heads).transpose(0, 1)  # (G, n, D)
        values.index_copy_(2, at.positions, fresh[None])
        tile = turned.narrow(0, 0, heads).reshape(1, kv_heads, -1, size)  # (1, G, shared * n, D)
        mixed = scaled_dot_product_attention(tile, keys, values, attn_mask=at.mask, scale=self.scale)
        return mixed.view(heads, -1, size).transpose(0, 1).reshape(-1, heads * size)  # (n, H * D)

    def _layer(self, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return Layer(
            attention_norm=self._norm_of(layer.input_layernorm),
            qkv=self._side_by_side([attention.q_proj, attention.k_proj, attention.v_proj]),
            q_norm=self._norm_of(attention.q_norm) if hasattr(attention, "q_norm") else None,
            k_norm=self._norm_of(attention.k_norm) if hasattr(attention, "k_norm") else None,
            out=_projection(attention.o_proj, self.turned),
            mlp_norm=self._norm_of(layer.post_attention_layernorm),
            gate_up=self._side_by_side([mlp.gate_proj, mlp.up_proj]),
            down=_projection(mlp.down_proj, self.turned),
        )

    def _side_by_side(self, parts: Sequence[Linear | QuantizedLinear]) -> Projection:
        """One projection for all; the parts' own weights become views of its where it is one map."""
        plain = [part for part in parts if isinstance(part, Linear)]
        coded = [part for part in parts if isinstance(part, QuantizedLinear)]
        if plain and coded:  # some had a shape that cannot be coded
            return SideBySide(tuple(_projection(part, self.turned) for part in parts))
        return side_by_side(coded) if coded else self._plain_side_by_side(plain)

    def _plain_side_by_side(self, parts: Sequence[Linear]) -> Plain:
        weight = torch.cat([part.weight.detach() for part in parts])
        start = 0
        for part in parts:
            part.weight.data = weight[start : start + part.out_features]
            start += part.out_features
        bias = None if parts[0].bias is None else torch.cat([part.bias.detach() for part in parts])
        return Plain(weight, bias, self.turned)

    def _norm_of(self, norm: Any) -> Norm:
        weight, on_cpu = norm.weight.detach(), self.device.type == "cpu"
        held = torch.cat([weight, weight]) if on_cpu else weight
        return Norm(held, weight.shape[0], norm.variance_epsilon, on_cpu)


def tensors_of(part: Any) -> list[Tensor]:
    """The tensors of a dataclass and of those it holds, in order."""
    if isinstance(part, Tensor):
        return [part]
    return [tensor for held in _parts(part) for tensor in tensors_of(held)]


def shape_of(part: object) -> Hashable:
    """All that a pass depends on but the numbers in its tensors."""
    if isinstance(part, Tensor):
        return part.dtype, tuple(part.shape)
    if isinstance(part, LeanForward):
        return part.heads, part.kv_heads, part.size, part.scale, part.turned, shape_of(part.weights)
    if isinstance(part, tuple) or is_dataclass(part):
        return (type(part), *(shape_of(held) for held in _parts(part)))
    assert isinstance(part, Hashable)
    return part


def with_tensors(part: Any, tensors: Iterator[Tensor]) -> Any:
    """The same with other tensors, in the order of ``tensors_of``."""
    if isinstance(part, Tensor):
        return next(tensors)
    if isinstance(part, tuple):
        return tuple(with_tensors(held, tensors) for held in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{f.name: with_tensors(getattr(part, f.name), tensors) for f in fields(part)})
    return part


def _parts(part: Any) -> Iterable[Any]:
    if isinstance(part, tuple):
        return part
    return [getattr(part, f.name) for f in fields(part)] if is_dataclass(part) else []


def why_not(model: PreTrainedModel) -> str | None:
    """What keeps a model from this forward pass, in words; None if nothing does."""
    config: Any = model.config
    name = type(model).__name__
    if name not in FAMILIES:
        return f"{name} has layers of another shape"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act}"
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"} or (
        getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    ):
        return "its attention has a sliding window"
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rotary not in _ROTARY:
        return f"its rotary positions are {rotary}"
    if not all(isinstance(part, QuantizedLinear) or _is_plain(part) for part in _linears(model)):
        return "its matrices are quantised by others"
    if len({(weight.device, weight.dtype) for weight in model.parameters()}) > 1:
        return "its weights are of several devices or number formats"
    return None


def _projection(part: Linear | QuantizedLinear, turned: bool) -> Projection:
    if isinstance(part, QuantizedLinear):
        return part.coded
    return Plain(part.weight.detach(), None if part.bias is None else part.bias.detach(), turned)


def _is_plain(part: Any) -> bool:
    """A quantised weight may also be a tensor of another class in a plain module."""
    return type(part) is Linear and type(part.weight.data) is Tensor


def _linears(model: Any) -> list[Any]:
    found = [model.get_output_embeddings()]
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        found += [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
        found += [mlp.gate_proj, mlp.up_proj, mlp.down_proj]
    return found
