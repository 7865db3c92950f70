"""The one source of chance of a run.

Counter-based (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; numpy's Philox 4x64): a draw
is a pure function of (seed, position, stream, index). Nothing is stored, so a rewind, a cancel or a second
run with the same seed needs no bookkeeping, and a proof can put an enumerator in its place.

``position`` is the number of committed tokens when the round begins. Every round commits at least one token,
so no two rounds of a run share a draw.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor


class Stream(IntEnum):
    """Independent families of draws."""

    DRAFT = 0
    """The drafter picks a token; ``index`` is the draft's place in the round."""
    ACCEPT = 1
    """The judgement of a draft token; ``index`` is its place in the round."""
    TARGET = 2
    """The target's own token: correction, bonus or plain step."""


class Draws:
    """Draws of one run.

    Args:
        seed: 0 <= seed < 2**63.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        """Uniform draws in [0, 1) with 24 random bits, exact in float32; on the CPU.  # (count,)

        Index i of the result is the draw (position, stream, i), whatever ``count`` is.
        """
        generator = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, stream, position, 0]))
        bits = generator.bit_generator.random_raw(count) >> np.uint64(40)
        return torch.from_numpy(bits.astype(np.float32) * np.float32(2.0**-24))

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        """One id with probability ``weights / weights.sum()``, by inversion, on their device.  # ()

        Args:
            weights: non-negative, not all zero, need not sum to 1.  # (V,)

        An id of weight zero is never returned. Weights that hold a NaN give the last id: they are noticed
        when the round reads its numbers; until then no id outside the vocabulary may reach a GPU's tables.
        """
        wide = torch.float32 if weights.device.type == "mps" else torch.float64  # MPS has no float64
        cumulative = weights.to(wide).cumsum(-1)  # (V,)
        total = cumulative[-1:]  # (1,)
        u = self._wide_uniform(position, stream, index).to(weights.device, wide)
        # The first id whose cumulative weight exceeds the point; below the total, so that such an id exists.
        point = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
        return torch.searchsorted(cumulative, point, right=True)[0].clamp(max=weights.shape[0] - 1)

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> Tensor:
        """The same draw with 53 bits, which inversion over a large vocabulary needs.  # (1,)"""
        philox = np.random.Philox(key=self.seed, counter=[0, stream, position, 1])
        bits = int(philox.random_raw(index + 1)[-1]) >> 11
        return torch.tensor([bits * 2.0**-53], dtype=torch.float64)
