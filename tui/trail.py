"""A sequence that only grows at the end, shared by all states that saw its beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Self, TypeVar, overload

T = TypeVar("T")


class Trail(Sequence[T], Generic[T]):
    """An immutable sequence with a cheap ``append``.

    Trails that continue one another share one list and differ in their length, so a state of a long run costs
    no more than one of a short run. Appending to a trail that something was appended to before copies it.
    """

    __slots__ = ("_items", "_length")

    def __init__(self, items: Sequence[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)

    @classmethod
    def _of(cls, items: list[T], length: int) -> Self:
        trail = cls.__new__(cls)
        trail._items, trail._length = items, length
        return trail

    def append(self, item: T) -> Self:
        """A trail with one item more."""
        return self.extend((item,))

    def extend(self, more: Sequence[T]) -> Self:
        """A trail with more items."""
        if not more:
            return self
        items = self._items if len(self._items) == self._length else self._items[: self._length]
        items.extend(more)
        return self._of(items, self._length + len(more))

    def take(self, length: int) -> Self:
        """The first items."""
        return self._of(self._items, max(0, min(length, self._length)))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._items[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"item {index} of {self._length}")
        return self._items[index % self._length]

    def __iter__(self) -> Iterator[T]:
        return (self._items[i] for i in range(self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trail):
            return NotImplemented
        if self._items is other._items and self._length == other._length:
            return True
        return self._length == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"
