"""The head of a GGUF file, read without the library for it: how many numbers its tensors hold."""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path

_MAGIC = b"GGUF"
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type's number."""
_STRING, _ARRAY = 8, 9
_MOST_TENSORS = 100_000
_MOST_VALUES = 4_000_000
_MOST_DIMENSIONS = 4


class _Reader:
    """Numbers from a position on; struct.error or IndexError where the file ends too early."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, len(_MAGIC)
        self.values = 0

    def number(self, form: str = "<Q") -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def skip(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise IndexError("behind the end")
        self.at += size

    def skip_value(self, kind: int) -> None:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise ValueError("too many values")
        if kind == _STRING:
            self.skip(self.number())
        elif kind == _ARRAY:
            inner, count = self.number("<I"), self.number()
            if inner in _FIXED:
                self.skip(count * _FIXED[inner])
                return
            if inner != _STRING:
                raise ValueError("arrays of arrays are not in the files of models")
            for _ in range(count):
                self.skip_value(_STRING)
        else:
            self.skip(_FIXED[kind])


def gguf_parameters(path: Path) -> int | None:
    """Numbers in all tensors of a GGUF file; None for a file that is none, or damaged."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parameters(data) if data[: len(_MAGIC)] == _MAGIC else None
    except (OSError, ValueError, KeyError, IndexError, struct.error, OverflowError):
        return None


def _parameters(data: mmap.mmap) -> int:
    reader = _Reader(data)
    if reader.number("<I") < 2:
        raise ValueError("version 1 has other numbers")
    tensors, pairs = reader.number(), reader.number()
    if tensors > _MOST_TENSORS:
        raise ValueError("too many tensors")
    for _ in range(pairs):
        reader.skip(reader.number())
        reader.skip_value(reader.number("<I"))
    total = 0
    for _ in range(tensors):
        reader.skip(reader.number())
        dimensions = reader.number("<I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError("too many dimensions")
        total += math.prod(reader.number() for _ in range(dimensions))
        reader.skip(4 + 8)  # its type and its place
    return total
