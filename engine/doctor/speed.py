"""How fast a device reads memory and multiplies, in the shapes of decoding."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from engine.doctor.facts import FormatSpeed, Speed
from engine.machine import Others
from engine.memory_bandwidth import MemoryReader
from engine.models.devices import DTYPES
from engine.models.memory import free_memory

ROWS = (1, 9)
"""Rows of the products: of a plain step, and of a round of 8 drafts."""
_REPEATS = 7
_LEAST_READ, _MOST_READ = 64 << 20, 1 << 30
_FREE_SHARE = 8
"""At most one part in so many of the free memory is filled."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Square matrices, multiplied one after the other as the layers of a model are."""

    d: int
    """Rows and columns of each."""
    count: int
    """So many that they do not stay in a small cache together."""

    def __str__(self) -> str:
        number = "a matrix" if self.count == 1 else f"{self.count} matrices"
        return f"{number} of {self.d} x {self.d}"


ON_CPU = Shape(2048, 8)
ON_GPU = Shape(12288, 1)
"""So large that a product takes longer than launching it."""


def measure_speed(device: torch.device, read_bytes: int | None) -> Speed:
    """Time reads and products on a device; one to two seconds.

    Args:
        read_bytes: size of the buffer that is read, best that of the weights; None: as much as is sensible.
    """
    others = Others()
    most = min(_MOST_READ, free_memory() // _FREE_SHARE)
    reader = MemoryReader(max(_LEAST_READ, min(read_bytes or most, most)), device)
    read_ms = reader.read_ms()
    size, ways = reader.size, reader.speeds
    del reader  # its memory is the matrices' now
    shape = ON_CPU if device.type == "cpu" else ON_GPU
    formats = measure_formats(device, shape)
    return Speed(str(device), size, size / read_ms / 1e6, ways, str(shape), formats, others.share())


@torch.inference_mode()
def measure_formats(device: torch.device, shape: Shape) -> tuple[FormatSpeed, ...]:
    """Times of products in every number format that the device can multiply, taken in turns.

    The least of each product by itself: what others do on the machine only ever adds to it.
    """
    operands = {name: made for name in DTYPES if (made := _operands(DTYPES[name], device, shape)) is not None}
    least = {(name, rows): [float("inf")] * shape.count for name in operands for rows in ROWS}
    for _ in range(_REPEATS):
        for (name, rows), found in least.items():
            inputs, matrices = operands[name]
            for at, matrix in enumerate(matrices):
                found[at] = min(found[at], _product_ms(inputs[rows], matrix))
    return tuple(FormatSpeed(name, *(sum(least[name, rows]) for rows in ROWS)) for name in operands)


def _operands(
    dtype: torch.dtype, device: torch.device, shape: Shape
) -> tuple[dict[int, Tensor], list[Tensor]] | None:
    """Rows by their number, (rows, d), and matrices, (d, d), multiplied once; None where that cannot be."""
    try:
        inputs = {rows: torch.ones(rows, shape.d, dtype=dtype, device=device) for rows in ROWS}
        matrices = [
            torch.full((shape.d, shape.d), 0.01, dtype=dtype, device=device) for _ in range(shape.count)
        ]
        for x in inputs.values():
            for matrix in matrices:
                linear(x, matrix)
        _wait(device)
    except (RuntimeError, TypeError):  # this device has no such numbers, or no room for them
        return None
    return inputs, matrices


def _product_ms(x: Tensor, matrix: Tensor) -> float:
    _wait(x.device)
    start = time.perf_counter_ns()
    linear(x, matrix)
    _wait(x.device)
    return (time.perf_counter_ns() - start) / 1e6


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
