"""torch's kernels that multiply with weights of few bits, where a device has them.

They are not part of torch's documented interface and differ from device to device, so one is used only after
it gave the product of the decoded matrix in a trial of the very shape; else the caller decodes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.models.coding import GROUP, from_int4, from_int8, to_int4, to_int8, two_a_byte

_aten: Any = torch.ops.aten  # untyped
_TOLERANCE = 0.02
"""Relative error of a right product; bfloat16 gives 0.003."""
_BLOCK = 64
"""Rows that the kernels' layouts keep together at most."""
_ROWS = 3


def int8_product(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    """x WT, x rounded to bfloat16: the kernels for float32 are five times slower.  # (n, K) -> (n, N)"""
    return torch._weight_int8pack_mm(_rounded(x), codes, scales).to(x.dtype)


def _rounded(x: Tensor) -> Tensor:
    """As the kernels take rows."""
    return x.bfloat16().contiguous()


def _pack_cpu(codes: Tensor) -> Tensor:
    """Rows in blocks of up to 64, two codes a byte.  # (N, K) -> (N, K / 2)"""
    packed: Tensor = _aten._convert_weight_to_int4pack_for_cpu(codes.int(), 1)
    return packed


def _product_cpu(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    product: Tensor = _aten._weight_int4pack_mm_for_cpu(_rounded(x), packed, GROUP, scales.contiguous())
    return product.to(x.dtype)


def _pack_cuda(codes: Tensor) -> Tensor:
    """Tiles of the tensor cores.  # (N, K) -> (N / 8, K / (16 * tiles), 32, tiles / 2)"""
    tiles = next(tiles for tiles in (8, 4, 2) if codes.shape[1] % (16 * tiles) == 0)
    packed: Tensor = _aten._convert_weight_to_int4pack(two_a_byte(codes), tiles)
    return packed


def _product_cuda(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    product: Tensor = _aten._weight_int4pack_mm(_rounded(x), packed, GROUP, scales.contiguous())
    return product.to(x.dtype)


class Int4Kernel(NamedTuple):
    """A layout of four-bit codes, and the product with it."""

    pack: Callable[[Tensor], Tensor]
    """(N, K) -> the kernel's own shape, whose first dimension goes along N."""
    product: Callable[[Tensor, Tensor, Tensor], Tensor]
    """x WT of rows, packed codes and scales, x rounded to bfloat16.  # (n, K) -> (n, N)"""


@cache
def int8_runs(device: torch.device, n: int, k: int) -> bool:
    """Whether ``int8_product`` is right here for matrices of N rows of K, which must be ``coding.fits``."""
    x, weight = _sample(device, n, k)
    codes, scales = to_int8(weight)
    wanted = x @ from_int8(codes, scales, torch.float32).t()
    return _agrees(wanted, lambda: int8_product(x, codes, scales))


@cache
def int4_kernel(device: torch.device, n: int, k: int) -> Int4Kernel | None:
    """The kernel that is right here for matrices of N rows of K, which must be ``coding.fits``."""
    on_cpu = device.type == "cpu"
    kernel = Int4Kernel(_pack_cpu, _product_cpu) if on_cpu else Int4Kernel(_pack_cuda, _product_cuda)
    x, weight = _sample(device, n, k)
    codes, scales = to_int4(weight)
    wanted = x @ from_int4(codes, scales, torch.float32).t()
    return kernel if _agrees(wanted, lambda: kernel.product(x, kernel.pack(codes), scales)) else None


def _sample(device: torch.device, n: int, k: int) -> tuple[Tensor, Tensor]:
    """Rows, and a matrix with as many whole blocks and as much left over as one of N rows has."""
    chance = torch.Generator().manual_seed(0)
    x, weight = (
        torch.randn(count, k, generator=chance).to(device) for count in (_ROWS, min(n, _BLOCK + n % _BLOCK))
    )
    return x, weight


def _agrees(wanted: Tensor, product: Callable[[], Tensor]) -> bool:
    try:
        found = product()
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AttributeError):  # this torch or this device has no such kernel
        return False
    return bool((found - wanted).norm() <= _TOLERANCE * wanted.norm())
