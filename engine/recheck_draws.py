"""Draws that remember the laws they were made from, and so tell how near another token was.

A repetition that drew another token than the recording is judged by its margin: the difference of a
probability, the unit of ``engine.recheck_repeat.TOLERANCES``, that would have made it draw the recorded one.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.draws import Draws, SharedNoise, Stream


class Watched(Protocol):
    """What the repetitions ask of the draws of a round."""

    def begin(self, position: int) -> None:
        """A round begins after so many tokens: forget the one before."""
        ...

    def miss(self, stream: Stream, place: int, id_: int) -> float | None:
        """How much a probability has to change for a draw of this round to give an id; 0 on the border.

        Args:
            stream: ``Stream.DRAFT`` or ``Stream.TARGET``.
            place: of the draft in the round; of a target's token that is drawn before the drafts are looked
                at, its place too; 0 for the target's token of the other rules.

        Returns None if nothing was drawn there.
        """
        ...


class WatchedDraws(Draws):
    """Inversion: the margin is the law's mass between the point that was drawn and the id."""

    by_order = False  # an id is asked for by its number, whether it was possible or not

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._start = 0
        self._laws: dict[tuple[Stream, int, int], Tensor] = {}

    def begin(self, position: int) -> None:
        self._start = position
        self._laws.clear()

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        self._laws[stream, position, index] = weights
        return super().categorical(weights, position, stream, index)

    def miss(self, stream: Stream, place: int, id_: int) -> float | None:
        is_draft = stream is Stream.DRAFT
        position, index = self._start + (0 if is_draft else place), place if is_draft else 0
        law = _law(self._laws.get((stream, position, index)), id_)
        if law is None:
            return None
        return self.distance(law, position, id_, stream, index)


class WatchedSharedNoise(SharedNoise):
    """The least E / w wins: the margin is the t with which E_a / (w_a - t) = E_b / (w_b + t).

    So the probability of the id that was drawn has to fall by t, and that of the other one to rise by t. In
    log probability plus noise they lie log(w_a / E_a) - log(w_b / E_b) apart, which says nothing about
    rounding where a probability is small.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._start = 0
        self._laws: dict[tuple[Stream, int], Tensor] = {}

    def begin(self, position: int) -> None:
        self._start = position
        self._laws.clear()

    def draft(self, q: Tensor, position: int, index: int) -> Tensor:
        self._laws[Stream.DRAFT, position + index] = q
        return super().draft(q, position, index)

    def target(self, p: Tensor, position: int) -> Tensor:
        self._laws[Stream.TARGET, position] = p
        return super().target(p, position)

    def miss(self, stream: Stream, place: int, id_: int) -> float | None:
        position = self._start + place
        law = _law(self._laws.get((stream, position)), id_)
        return None if law is None else self.distance(law, position, id_)


def watched(draws: Draws) -> WatchedDraws | WatchedSharedNoise:
    """The same source of chance, watched."""
    return WatchedSharedNoise(draws.seed) if isinstance(draws, SharedNoise) else WatchedDraws(draws.seed)


def _law(weights: Tensor | None, id_: int) -> Tensor | None:
    """On the CPU in float64; None if there is none, or it does not know the id.  # (V,)"""
    if weights is None or not 0 <= id_ < weights.shape[0]:
        return None
    return weights.detach().to("cpu", torch.float64)
