"""Weight-only quantisation: the matrices of the decoder layers in eight or four bits.

What goes from layer to layer stays in the model's number format, and so do the embedding and the output
matrix. A quantised model has another law than the model it was made from: whatever is said about exactness
is said against the quantised model's own plain decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from engine.errors import ConfigError
from engine.models import coding
from engine.models.cache import IsCancelled, Progress, never, no_progress, stop_if
from engine.models.coded_kernels import int4_kernel, int8_product, int8_runs
from engine.models.heap import hand_back
from engine.models.projection import Coded, Int4, Int8, Projection, SideBySide

How = Literal["int8", "int4"]
_KERNEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_BLOCK = 64
"""Rows that a layout of four-bit codes keeps together at most."""


class QuantizedLinear(nn.Module):
    """A linear map with coded weights, in place of an ``nn.Linear``: what transformers' passes run on."""

    codes: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, coded: Coded, shape: tuple[int, int]) -> None:
        super().__init__()
        self.out_features, self.in_features = shape
        self._kind, self._kernel = type(coded), coded.kernel
        for name in ("codes", "scales", "bias"):
            self.register_buffer(name, getattr(coded, name), persistent=False)

    @property
    def coded(self) -> Coded:
        """The map itself."""
        return self._kind(self.codes, self.scales, self.bias, self._kernel)

    def forward(self, x: Tensor) -> Tensor:
        """(..., M) -> (..., N)"""
        rows = self.coded(x.reshape(-1, self.in_features))
        return rows.view(*x.shape[:-1], self.out_features)


def quantize(
    model: PreTrainedModel,
    how: How,
    name: str,
    on_progress: Progress = no_progress,
    cancelled: IsCancelled = never,
) -> None:
    """Replace the matrices of the decoder layers, one after the other, so that both never stand side by side.

    Matrices that ``coding.fits`` says no to stay as they are.

    Args:
        name: as the configuration names the model.
        on_progress: called with "quantize", matrices done and all of them.

    Raises ConfigError if no matrix can be quantised, Cancelled half way.
    """
    found = _matrices(model)
    fitting = [entry for entry in found if coding.fits(how, *getattr(*entry).weight.shape)]
    if not fitting or getattr(model.config, "quantization_config", None) is not None:
        raise ConfigError(
            f"quantize = {how!r} does not fit {name}: {_obstacle(model, found)}", 'use quantize = "none"'
        )
    for done, (parent, attribute) in enumerate(fitting):
        stop_if(cancelled)
        on_progress("quantize", done, len(fitting))
        setattr(parent, attribute, quantized(getattr(parent, attribute), how))
    on_progress("quantize", len(fitting), len(fitting))
    hand_back()


def quantized(part: nn.Linear, how: How) -> QuantizedLinear:
    """The same map with coded weights; for float64, as tests use it, no kernel rounds anything."""
    weight = part.weight.detach()
    n, m = weight.shape
    bias = None if part.bias is None else part.bias.detach()
    has_kernel = weight.dtype in _KERNEL_DTYPES
    if how == "int8":
        runs = has_kernel and int8_runs(weight.device, n, m)
        return QuantizedLinear(Int8(*coding.to_int8(weight), bias, int8_product if runs else None), (n, m))
    codes, scales = coding.to_int4(weight)
    kernel = int4_kernel(weight.device, n, m) if has_kernel else None
    packed = kernel.pack(codes) if kernel else coding.two_a_byte(codes)
    return QuantizedLinear(Int4(packed, scales, bias, kernel.product if kernel else None), (n, m))


def numbers_in(model: nn.Module) -> int:
    """Weights and biases of the maps that hold codes."""
    parts = [part for part in model.modules() if isinstance(part, QuantizedLinear)]
    biases = sum(part.bias.numel() for part in parts if part.bias is not None)
    return sum(part.in_features * part.out_features for part in parts) + biases


def side_by_side(parts: Sequence[QuantizedLinear]) -> Projection:
    """One map for all; where it can hold all codes, the parts' become views of its.

    One product is 4 to 14 % faster than two or three.
    """
    maps = [part.coded for part in parts]
    first, sizes = maps[0], [part.out_features for part in parts]
    alike = len({(type(map_), map_.kernel, map_.bias is None) for map_ in maps}) == 1
    if not alike or (isinstance(first, Int4) and any(size % _BLOCK for size in sizes)):
        return SideBySide(tuple(maps))
    codes = torch.cat([part.codes for part in parts])
    rows = 1 if isinstance(first, Int4) else 0
    scales = torch.cat([part.scales for part in parts], dim=rows)
    views = zip(
        torch.split(codes, [part.codes.shape[0] for part in parts]),
        torch.split(scales, sizes, rows),
        strict=True,
    )
    for part, (own_codes, own_scales) in zip(parts, views, strict=True):
        part.codes, part.scales = own_codes, own_scales
    biases = [part.bias for part in parts if part.bias is not None]
    return type(first)(codes, scales, torch.cat(biases) if biases else None, first.kernel)


def _matrices(model: PreTrainedModel) -> list[tuple[nn.Module, str]]:
    """Plain linear maps but the output matrix, as module and attribute."""
    return [
        (parent, attribute)
        for parent in model.modules()
        for attribute, part in parent.named_children()
        if type(part) is nn.Linear and part is not model.get_output_embeddings()
    ]


def _obstacle(model: PreTrainedModel, found: Sequence[object]) -> str:
    if getattr(model.config, "quantization_config", None) is not None:
        return "its weights are quantised already"
    if not found:
        return f"the layers of {type(model).__name__} have no plain linear maps"
    return "its matrices have sizes that are no multiples of 16, or for int4 of 32"
