"""Weights in few bits: how a matrix becomes codes and scales, and back.

* ``int8``: symmetric, a scale for each row:  w = code * scale, code in -127..127.
* ``int4``: each ``GROUP`` numbers of a row have a scale and a middle:  w = (code - 8) * scale + middle,
  code in 0..15.

Scales are rounded to bfloat16, which torch's kernels want, before the codes are chosen, so that their
rounding is no second error. N rows of K numbers.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Quantize = Literal["none", "int8", "int4"]
GROUP = 32
"""Numbers that share a scale in int4."""
_MOST = {"int8": 127, "int4": 15}
_MIDDLE = 8


def fits(how: str, n: int, k: int) -> bool:
    """Whether a matrix of this shape can be held in few bits.

    torch's kernels take blocks of 16. Those for bfloat16 on the CPU do not refuse a K that is no multiple of
    16, they read beyond the matrix.
    """
    return n % 16 == 0 and k % (GROUP if how == "int4" else 16) == 0


def coded_bytes(how: str, n: int, k: int) -> int:
    """Bytes of a matrix with its scales."""
    return n * k + 2 * n if how == "int8" else n * k // 2 + 4 * n * k // GROUP


def to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(N, K) -> codes (N, K) int8, scales (N,) bfloat16."""
    exact = weight.float()
    scales = _usable(exact.abs().amax(1) / _MOST["int8"]).bfloat16()  # (N,)
    codes = (exact / scales.float()[:, None]).round_().clamp_(-_MOST["int8"], _MOST["int8"])
    return codes.to(torch.int8), scales


def from_int8(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix that codes and scales stand for.  # (N, K)"""
    return codes.to(dtype) * scales.to(dtype)[:, None]


def to_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """(N, K) -> codes (N, K) uint8, scales and middles (K / 32, N, 2) bfloat16."""
    n, k = weight.shape
    groups = weight.float().view(n, k // GROUP, GROUP)
    low, high = groups.amin(-1), groups.amax(-1)  # (N, K / 32)
    scale = _usable((high - low) / _MOST["int4"]).bfloat16()
    middle = (low + _MIDDLE * scale.float()).bfloat16()
    # A group of one number, such as a row of zeros, is its middle.
    middle = torch.where(low == high, low.to(middle.dtype), middle)
    codes = (groups - middle.float()[..., None]).div_(scale.float()[..., None]).add_(_MIDDLE)
    codes = codes.round_().clamp_(0, _MOST["int4"]).to(torch.uint8).view(n, k)
    return codes, torch.stack([scale.t(), middle.t()], dim=-1).contiguous()


def from_int4(codes: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix that codes (N, K) and scales stand for.  # (N, K)"""
    n, k = codes.shape
    scale, middle = scales.to(dtype).transpose(0, 1).contiguous().unbind(-1)  # (N, K / 32) each
    groups = codes.view(n, k // GROUP, GROUP).to(dtype) - _MIDDLE
    return torch.addcmul(middle[..., None], groups, scale[..., None]).view(n, k)


def two_a_byte(codes: Tensor) -> Tensor:
    """Codes of four bits, the first of two in the upper half.  # (N, K) -> (N, K / 2)"""
    return codes[:, ::2] << 4 | codes[:, 1::2]


def one_a_byte(pairs: Tensor) -> Tensor:
    """What ``two_a_byte`` was given.  # (N, K / 2) -> (N, K)"""
    return torch.stack([pairs >> 4, pairs & 15], dim=-1).view(pairs.shape[0], -1)


def _usable(scales: Tensor) -> Tensor:
    """1 in place of 0, which cannot be divided by."""
    return torch.where(scales == 0, torch.ones_like(scales), scales)
