"""Linear maps as our own passes hold them: plain, with coded weights, or several side by side.

They are dataclasses of tensors and of what a pass depends on besides, as a captured pass needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from engine.models import coding

Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]
"""x WT of rows, codes and scales; one of engine.models.coded_kernels."""
_MANY = 32
"""Rows above which decoding an int8 matrix and multiplying replaces the kernel: a chunk of a prompt, 256
rows, is five times faster. It would pay from 10 rows on, but its rounding is another one, and rounds must
have the bits of plain decoding."""


class Projection(Protocol):
    """A linear map of M numbers to N."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, M) -> (n, N)"""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """Weights in the number format of the pass."""

    weight: Tensor
    """(N, M)"""
    bias: Tensor | None
    turned: bool
    """Taken as ``(W xT)T``."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, M) -> (n, N); a turned one lies in memory as (N, n)."""
        if not self.turned:
            return linear(x, self.weight, self.bias)
        if self.bias is None:
            return torch.mm(self.weight, x.t()).t()
        return torch.addmm(self.bias[:, None], self.weight, x.t()).t()


@dataclass(frozen=True, slots=True)
class Int8:
    """Weights in eight bits (engine.models.coding)."""

    codes: Tensor
    """(N, M) int8"""
    scales: Tensor
    """(N,) bfloat16"""
    bias: Tensor | None
    kernel: Kernel | None
    """None: the weights are decoded first."""

    def __call__(self, x: Tensor) -> Tensor:
        # A trace keeps the branch it saw and is used at every width, so it must not see the second one.
        if self.kernel is not None and (torch._C._get_tracing_state() or x.shape[0] <= _MANY):
            return _plus(self.kernel(x, self.codes, self.scales), self.bias)
        return _plus(torch.mm(self.codes.to(x.dtype), x.t()).t() * self.scales.to(x.dtype), self.bias)

    def decoded(self, dtype: torch.dtype) -> Tensor:
        """The matrix that the codes stand for.  # (N, M)"""
        return coding.from_int8(self.codes, self.scales, dtype)


@dataclass(frozen=True, slots=True)
class Int4:
    """Weights in four bits (engine.models.coding)."""

    codes: Tensor
    """In the kernel's layout; without one two a byte, (N, M / 2)."""
    scales: Tensor
    """And middles.  # (M / 32, N, 2) bfloat16"""
    bias: Tensor | None
    kernel: Kernel | None
    """None: the weights are decoded first."""

    def __call__(self, x: Tensor) -> Tensor:
        if self.kernel is not None:
            return _plus(self.kernel(x, self.codes, self.scales), self.bias)
        return linear(x, self.decoded(x.dtype), self.bias)

    def decoded(self, dtype: torch.dtype) -> Tensor:
        """The matrix that the codes stand for; by a kernel, rounded to bfloat16.  # (N, M)"""
        if self.kernel is None:
            return coding.from_int4(coding.one_a_byte(self.codes), self.scales, dtype)
        size = self.scales.shape[0] * coding.GROUP
        one = torch.eye(size, dtype=torch.bfloat16, device=self.codes.device)
        return self.kernel(one, self.codes, self.scales).t().to(dtype)  # its layout is its own affair


Coded = Int8 | Int4


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several maps of the same rows, (n, M) -> (n, N + N' + ...), where one map cannot hold them."""

    parts: tuple[Projection, ...]

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], dim=-1)


def _plus(rows: Tensor, bias: Tensor | None) -> Tensor:
    return rows if bias is None else rows + bias
