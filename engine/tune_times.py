"""Times of interleaved runs, each against the plain one beside it; torch-free."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Way = TypeVar("Way", bound=Hashable)
"""A way of decoding; None is the plain one."""


class Times(Generic[Way]):
    """Milliseconds a token of ways of decoding that ran forth and back beside plain decoding (A B B A).

    A way is compared with the plain runs of its own passes only: a machine's speed drifts.
    """

    def __init__(self) -> None:
        self._plain: list[float] = []  # of the passes in progress
        self._pairs: dict[Way, tuple[list[float], list[float]]] = {}

    def begin(self, ways: Sequence[Way]) -> None:
        """These run now, beside plain decoding."""
        self._plain = []
        for way in ways:
            self._pairs[way] = ([], self._plain)

    def add(self, way: Way | None, ms: float) -> None:
        """A run ended; those of a pass come once each, plain decoding first or last."""
        (self._plain if way is None else self._pairs[way][0]).append(ms)

    def is_enough(self, way: Way | None) -> bool:
        """Whether it ran forth and back."""
        return len(self._plain if way is None else self._pairs[way][0]) > 1

    @property
    def known(self) -> tuple[Way, ...]:
        """Ways that have run, or are about to."""
        return tuple(self._pairs)

    def speedup(self, way: Way) -> float | None:
        """In times plain decoding, over the passes that both have ended; None before one.

        The least time of each: all its runs do the same work, and what takes longer was disturbed.
        """
        pairs = self._ended(way)
        if not pairs:
            return None
        return min(plain for _, plain in pairs) / min(own for own, _ in pairs)

    def spread(self, way: Way) -> tuple[float | None, float | None]:
        """The lowest and the highest speedup of a pass; None where there are not two."""
        ratios = [plain / own for own, plain in self._ended(way)]
        return (min(ratios), max(ratios)) if len(ratios) > 1 else (None, None)

    def _ended(self, way: Way) -> list[tuple[float, float]]:
        own, plain = self._pairs.get(way, ([], []))
        return list(zip(own, plain, strict=False))
