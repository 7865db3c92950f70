"""A sequence that only grows at the end, shared by all states that saw its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Self, TypeVar, overload

T = TypeVar("T")


class Trail(Sequence[T], Generic[T]):
    """An immutable sequence with a cheap ``append``.

    Trails that continue one another share one list and differ in their length, so a state of a long run costs
    no more than one of a short run. Appending to a trail that something was appended to before copies it.

    The leading items may be archived: not in memory, but given by a function when they are asked for.
    """

    __slots__ = ("_archive", "_items", "_length", "archived")

    def __init__(self, items: Sequence[T] = ()) -> None:
        self._items = list(items)
        self._length = len(self._items)
        self._archive: Callable[[int], T] = self._items.__getitem__
        self.archived = 0
        """Leading items that are not in memory."""

    @classmethod
    def after(cls, archived: int, archive: Callable[[int], T]) -> Self:
        """A trail whose items so far are archived; ``archive`` gives one of them by its index."""
        return cls._of([], archived, archived, archive)

    @classmethod
    def _of(cls, items: list[T], length: int, archived: int, archive: Callable[[int], T]) -> Self:
        trail = cls.__new__(cls)
        trail._items, trail._length, trail._archive, trail.archived = items, length, archive, archived
        return trail

    def append(self, item: T) -> Self:
        """A trail with one item more."""
        return self.extend((item,))

    def extend(self, more: Sequence[T]) -> Self:
        """A trail with more items."""
        if not more:
            return self
        held = self._length - self.archived
        items = self._items if len(self._items) == held else self._items[:held]
        items.extend(more)
        return self._of(items, self._length + len(more), self.archived, self._archive)

    def take(self, length: int) -> Self:
        """The first items."""
        length = max(0, min(length, self._length))
        if length < self.archived:
            return self._of([], length, length, self._archive)
        return self._of(self._items, length, self.archived, self._archive)

    def holds(self, index: int, item: T) -> bool:
        """Whether the very item stands there, in memory."""
        return self.archived <= index < self._length and self._items[index - self.archived] is item

    def _at(self, index: int) -> T:
        return self._archive(index) if index < self.archived else self._items[index - self.archived]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"item {index} of {self._length}")
        return self._at(index % self._length)

    def __iter__(self) -> Iterator[T]:
        return (self._at(i) for i in range(self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trail):
            return NotImplemented
        same = self._items is other._items and self.archived == other.archived == 0
        if same and self._length == other._length:
            return True
        return self._length == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"Trail({list(self)!r})"
