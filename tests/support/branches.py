"""Sources of chance that walk every branch of the shipped code's random decisions.

One run of the code is one path through the tree of its decisions; ``paths`` lets it run until each path was
walked. What a draw revealed of its random number is remembered within a path: a number that is used twice
gives what the real one would give, so a key that wrongly serves twice shows in the law of the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from support.triangle import WHOLE, Polygon, area, winning
from torch import Tensor

from engine.draws import Draws, SharedNoise, Stream

NEGLIGIBLE = 1e-14
"""Branches lighter than this are rounding: p/q of two equal rows may miss 1 by that much."""

Key = tuple[str, int, Stream, int]
Span = tuple[float, float]
"""The part [low, high) of [0, 1) in which a uniform number is known to lie."""
Thresholds = Callable[[Stream, int], Sequence[float]]
"""Where uniform numbers of a stream decide, for so many of them."""


class EnumeratingDraws(Draws):
    """Stands where the engine expects its ``Draws``.

    A categorical draw, which the engine makes by inversion, splits what is known of its number at the ends of
    the ids. A uniform one splits it at the threshold of its draft; ``place`` says which point then stands for
    a part: its "low" end (0 for the first, and for the second where the threshold is 0), "middle" or "high".
    """

    def __init__(self, place: str = "middle") -> None:
        super().__init__(seed=0)
        self.place = place
        self.thresholds: Thresholds = lambda stream, count: ()
        self._choices: list[int] = []
        self._widths: list[int] = []
        self._depth = 0
        self._probability = 1.0
        self._spans: dict[Key, Span] = {}
        self._regions: dict[int, Polygon] = {}

    def paths(self) -> Iterator[Callable[[], float]]:
        """Yields once a path; the body of the loop runs the code. The value gives the path's probability."""
        self._choices, self._widths = [], []
        while True:
            self._depth, self._probability = 0, 1.0
            self._spans.clear()
            self._regions.clear()
            yield lambda: self._probability
            assert self._depth == len(self._choices), "the code is not a function of its draws"
            while self._choices and self._choices[-1] == self._widths[-1] - 1:
                self._choices.pop()
                self._widths.pop()
            if not self._choices:
                return
            self._choices[-1] += 1

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        thresholds = self.thresholds(stream, count) if count else ()
        assert len(thresholds) == count, "one draw for each draft"
        drawn = []
        for index, threshold in enumerate(thresholds):
            key = ("uniform", position, stream, index)
            low, high = self._spans.get(key, (0.0, 1.0))
            at = min(high, max(low, threshold))
            parts = [((low, at), at - low), ((at, high), high - at)]
            self._spans[key] = span = self._choose([(part, size / (high - low)) for part, size in parts])
            drawn.append(self._point(span))
        return torch.tensor(drawn, dtype=torch.float64)

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        key = ("categorical", position, stream, index)
        low, high = self._spans.get(key, (0.0, 1.0))
        branches = []
        start = 0.0
        for id_, end in enumerate(_ends(weights)):
            part = max(low, start), min(high, end)
            branches.append(((id_, part), (part[1] - part[0]) / (high - low)))
            start = end
        id_, self._spans[key] = self._choose(branches)
        return torch.tensor(id_)

    def _point(self, span: Span) -> float:
        """The point that stands for a part of [0, 1)."""
        low, high = span
        middle = (low + high) / 2
        at_high = max(high * (1 - 1e-9), middle) if high < 1 else 1 - 2.0**-53
        return {"low": min(low * (1 + 1e-9), middle), "middle": middle, "high": at_high}[self.place]

    def _choose(self, branches: Sequence[tuple[Any, float]]) -> Any:
        """Take the branch of this path; branches are (value, probability given the path so far)."""
        possible = [(value, probability) for value, probability in branches if probability > NEGLIGIBLE]
        if self._depth == len(self._choices):
            self._choices.append(0)
            self._widths.append(len(possible))
        assert self._widths[self._depth] == len(possible), "the code is not a function of its draws"
        value, probability = possible[self._choices[self._depth]]
        self._depth += 1
        self._probability *= probability
        return value


class EnumeratingNoise(EnumeratingDraws, SharedNoise):
    """The same for ``SharedNoise`` over three ids: it keeps the region in which the noise of a place lies.

    Which draws share noise is decided by the shipped ``draft`` and ``target``.
    """

    def _least(self, weights: Tensor, position: int) -> Tensor:
        law = [*weights.tolist(), 0.0, 0.0, 0.0][:3]
        assert len(weights) <= 3, "the regions are drawn on a triangle"
        region = self._regions.get(position, WHOLE)
        cells = [(x, winning(region, law, x)) for x in range(3)]
        size = area(region)
        x, self._regions[position] = self._choose([((x, cell), area(cell) / size) for x, cell in cells])
        return torch.tensor(x)


def _ends(weights: Tensor) -> list[float]:
    """Where each id's part of [0, 1) ends."""
    wide = weights.to(torch.float64)
    assert bool((wide >= 0).all()), f"negative or undefined weights: {weights}"
    ends = list(itertools.accumulate(wide.tolist()))
    return [end / ends[-1] for end in ends]
