"""How fast this machine reads memory: what no decoding that reads its weights once a token can beat."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

TIMES = 4
"""Reads of each kind; the fastest one counts."""
_WIDTH = 1024


def bytes_a_token(model: CausalLM) -> int:
    """Weights that a pass of one row reads: all of them, but one row only of an input table of its own."""
    config = model.model.config.get_text_config(decoder=True)
    if config.tie_word_embeddings:
        return model.info.weight_bytes  # the table is the output matrix too
    itemsize = getattr(torch, model.info.dtype).itemsize
    return model.info.weight_bytes - int(config.vocab_size) * int(config.hidden_size) * int(itemsize)


class MemoryReader:
    """Reads a buffer from one end to the other, in the ways that torch reads fastest.

    Which one that is depends on the machine: a sum of integers, a dot product and a product of matrix and
    vector all read each byte once, and are held up by memory, not by arithmetic, where they are fast.

    Args:
        size: bytes, as many as the weights, so that caches help as little here as there.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        # Ones, not empty: pages that were never written may all be one page.
        self._buffer = torch.ones(size // (4 * _WIDTH) * _WIDTH, device=device)
        self._vector = torch.ones(_WIDTH, device=device)
        self._device = device
        self._best_ms: dict[str, float] = {}  # of each way, of all reads so far

    @property
    def size(self) -> int:
        """Bytes that a read reads."""
        return self._buffer.nbytes

    @torch.inference_mode()
    def read_ms(self) -> float:
        """Milliseconds of the fastest of ``TIMES`` reads of every way."""
        found = {name: min(self._timed(way) for _ in range(TIMES)) for name, way in self._ways.items()}
        for name, ms in found.items():
            self._best_ms[name] = min(ms, self._best_ms.get(name, ms))
        return min(found.values())

    @property
    def speeds(self) -> str:
        """The best that each way did, in GB/s, the fastest first, such as "31.9 (dot), 25.6 (sum)"."""
        ordered = sorted(self._best_ms.items(), key=lambda item: item[1])
        return ", ".join(f"{self.size / ms / 1e6:.1f} ({name})" for name, ms in ordered)

    @property
    def _ways(self) -> dict[str, Callable[[], Tensor]]:
        buffer = self._buffer
        return {
            "sum": buffer.view(torch.int64).sum,
            "dot": lambda: torch.dot(buffer, buffer),
            "matrix by vector": lambda: torch.mv(buffer.view(-1, _WIDTH), self._vector),
        }

    def _timed(self, way: Callable[[], Tensor]) -> float:
        self._wait()
        start = time.perf_counter_ns()
        way()
        self._wait()
        return (time.perf_counter_ns() - start) / 1e6

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


READ_AT_MOST = 256 * 2**20
"""Bytes read to find out how fast memory is: more than caches hold, little beside a model."""


@cache
def best_gbs(device: torch.device) -> float:
    """1e9 bytes that memory gives a second, at best; measured once in a process."""
    reader = MemoryReader(READ_AT_MOST, device)
    return reader.size / reader.read_ms() / 1e6
