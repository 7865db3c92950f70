"""The one source of chance of a run.

Counter-based (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; numpy's Philox 4x64): a draw
is a pure function of (seed, position, stream, index). Nothing is stored, so a rewind, a cancel or a second
run with the same seed needs no bookkeeping, and a proof can put an enumerator in its place.

``position`` counts tokens from the start of the prompt. What judges or replaces drafts is keyed by the
position at which the round began: every round commits at least one token, so no two rounds share such a draw.
What a rule draws from the target's law BEFORE it looks at the drafts is keyed by the position of the token
itself: it is then the draw that plain decoding makes there, and one that was not needed may be made again
later, since no committed token depended on it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from engine.philox import uniform24, uniform53


class Stream(IntEnum):
    """Independent families of draws."""

    DRAFT = 0
    """The drafter picks a token; ``index`` is the draft's place in the round."""
    ACCEPT = 1
    """The judgement of a draft token; ``index`` is its place in the round."""
    TARGET = 2
    """A token from the target's law, or from what is left of it: correction, bonus or plain step."""
    NOISE = 3
    """The exponential variable of every token id at one position; ``index`` is the id."""


def beside(numbers: Tensor, law: Tensor) -> Tensor:
    """Numbers made on the CPU, on the device and in the dtype of a law; a GPU at work is not waited for."""
    on_cuda = law.device.type == "cuda"
    return (numbers.pin_memory() if on_cuda else numbers).to(law.device, law.dtype, non_blocking=on_cuda)


class Draws:
    """Draws of one run.

    Args:
        seed: 0 <= seed < 2**63.
    """

    by_order: ClassVar[bool] = True
    """Whether a draw knows ids by their order only: ids of weight 0 may then be left out."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        """Uniform draws in [0, 1) with 24 random bits, exact in float32; on the CPU.  # (count,)

        Index i of the result is the draw (position, stream, i), whatever ``count`` is.
        """
        return torch.tensor(uniform24(self.seed, position, stream, count), dtype=torch.float32)

    def draft(self, q: Tensor, position: int, index: int) -> Tensor:
        """A drafter's token number ``index`` in the round that began at ``position``.  # ()

        Args:
            q: its law, as the weights of ``categorical``.  # (V,)
        """
        return self.categorical(q, position, Stream.DRAFT, index)

    def target(self, p: Tensor, position: int) -> Tensor:
        """The token that plain decoding writes at ``position``.  # ()

        Args:
            p: its law, as the weights of ``categorical``.  # (V,)
        """
        return self.categorical(p, position, Stream.TARGET)

    def distance(
        self, p: Tensor, position: int, id_: int, stream: Stream = Stream.TARGET, index: int = 0
    ) -> float:
        """How far a draw from p was from giving this id: share of p's mass between the draw and the id."""
        law = p.detach().to("cpu", torch.float64)  # (V,)
        cumulative = law.cumsum(-1)  # (V,)
        total = float(cumulative[-1])
        point = self._wide_uniform(position, stream, index) * total
        low, high = float(cumulative[id_] - law[id_]), float(cumulative[id_])
        return max(low - point, point - high, 0.0) / total

    def shift(self, one: Tensor, other: Tensor) -> float:
        """How far apart two laws of one position are, in the unit of ``distance``.  # (V,), (V,)"""
        laws = (law.detach().to("cpu", torch.float64) for law in (one, other))
        first, second = (law.cumsum(-1) / law.sum() for law in laws)  # (V,) each
        return float((first - second).abs().max())

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        """One id with probability ``weights / weights.sum()``, by inversion, on their device.  # ()

        Args:
            weights: non-negative, not all zero, need not sum to 1.  # (V,)

        An id of weight zero is never returned. Weights that hold a NaN give the last id: they are noticed
        when the round reads its numbers; until then no id outside the vocabulary may reach a GPU's tables.
        """
        wide = torch.float32 if weights.device.type == "mps" else torch.float64  # MPS has no float64
        cumulative = weights.cumsum(-1, dtype=wide)  # (V,)
        total = cumulative[-1:]  # (1,)
        u = self._wide_uniform(position, stream, index)  # a plain number: it goes to a GPU without a copy
        # The first id whose cumulative weight exceeds the point; below the total, so that such an id exists.
        point = torch.minimum(u * total, torch.nextafter(total, torch.zeros_like(total)))
        return torch.searchsorted(cumulative, point, right=True)[0].clamp(max=weights.shape[0] - 1)

    def _wide_uniform(self, position: int, stream: Stream, index: int) -> float:
        """The same draw with 53 bits, which inversion over a large vocabulary needs."""
        return uniform53(self.seed, position, stream, index)


class SharedNoise(Draws):
    """Draws in which drafter and target use the SAME noise for the same token at the same place.

    Every id x at a position has an exponential variable E_x, keyed by (seed, position, x); the token of a law
    w is the x of least E_x / w_x, which has probability w_x. That is the Gumbel-max trick, argmax(log w + G),
    with G = -log E. Laws that resemble each other then mostly choose the same token, although neither knows
    the other (Daliri et al. 2024, arXiv 2408.07978).
    """

    by_order = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._noise: dict[int, Tensor] = {}

    def draft(self, q: Tensor, position: int, index: int) -> Tensor:
        return self._least(q, position + index)

    def target(self, p: Tensor, position: int) -> Tensor:
        return self._least(p, position)

    def distance(
        self, p: Tensor, position: int, id_: int, stream: Stream = Stream.TARGET, index: int = 0
    ) -> float:
        """How far a draw from p was from giving this id: the probability that has to go over to it from
        the one that it gave. Drafter and target have the same noise, so the stream does not matter."""
        law = p.detach().to("cpu", torch.float64)  # (V,)
        noise = self._exponential(position, p.shape[0]).double()  # (V,)
        given = int((noise / law).argmin())
        missing = law[given] * noise[id_] - law[id_] * noise[given]
        return max(0.0, float(missing / (noise[id_] + noise[given]) / law.sum()))

    def shift(self, one: Tensor, other: Tensor) -> float:
        return float((other.double() - one.double()).abs().max())

    def _least(self, weights: Tensor, position: int) -> Tensor:
        """The id of least E / weights; where a weight is NaN, its id.  # ()"""
        noise = beside(self._exponential(position, weights.shape[0]), weights)
        return (noise / weights).argmin(-1)

    def _exponential(self, position: int, count: int) -> Tensor:
        """Exponential variables of mean 1, never 0, in float32 on the CPU.  # (count,)"""
        held = self._noise.get(position)
        if held is None or held.shape[0] < count:
            if len(self._noise) >= _POSITIONS_HELD:
                del self._noise[next(iter(self._noise))]
            # A drafter may know a few ids fewer than its target, which asks next.
            bits = np.random.Philox(key=self.seed, counter=[0, Stream.NOISE, position, 0])
            words = bits.random_raw(-(-count // _IDS) * _IDS)
            u = (words >> np.uint64(12)).astype(np.float64)
            u += 0.5
            u *= 2.0**-52  # (0, 1)
            held = torch.from_numpy(u).log_().float().neg_()
            self._noise[position] = held
        return held[:count]


_POSITIONS_HELD = 65
"""Those of the longest round: its target asks for the positions that its drafter asked for."""
_IDS = 4096
"""Ids come in multiples of this many."""
