"""How fast a device reads memory and multiplies, in the shapes of decoding."""

from __future__ import annotations

import time
from collections.abc import Callable
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
        return f"{self.count} matrices of {self.d} x {self.d}"


ON_CPU = Shape(2048, 8)
ON_GPU = Shape(8192, 2)
"""Large, so that a product takes longer than launching it."""


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

    The least of each: what others do on the machine only ever adds to it.
    """
    products = {name: made for name in DTYPES if (made := _products(DTYPES[name], device, shape)) is not None}
    times: dict[tuple[str, int], list[float]] = {(name, rows): [] for name in products for rows in ROWS}
    for _ in range(_REPEATS):
        for (name, rows), found in times.items():
            found.append(_timed(products[name][rows], device))
    least = {key: min(found) for key, found in times.items()}
    return tuple(FormatSpeed(name, *(least[name, rows] for rows in ROWS)) for name in products)


def _products(
    dtype: torch.dtype, device: torch.device, shape: Shape
) -> dict[int, Callable[[], list[Tensor]]] | None:
    """For each number of rows what multiplies them by all the matrices, warm; None where that cannot be."""
    try:
        matrices = [
            torch.full((shape.d, shape.d), 0.01, dtype=dtype, device=device) for _ in range(shape.count)
        ]
        inputs = {rows: torch.ones(rows, shape.d, dtype=dtype, device=device) for rows in ROWS}
        for x in inputs.values():
            linear(x, matrices[0])
    except (RuntimeError, TypeError):  # this device has no such numbers
        return None

    def of(x: Tensor) -> Callable[[], list[Tensor]]:
        return lambda: [linear(x, matrix) for matrix in matrices]

    made = {rows: of(x) for rows, x in inputs.items()}
    for multiply in made.values():
        multiply()
    return made


def _timed(work: Callable[[], list[Tensor]], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter_ns()
    work()
    _wait(device)
    return (time.perf_counter_ns() - start) / 1e6


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
