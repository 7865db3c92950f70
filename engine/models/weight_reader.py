"""Weight files read into memory by threads of their own, while the caller does other things.

What reading waits for is the kernel, which copies the file and clears the pages it goes to. Meanwhile the
interpreter is free, and the caller can have the tokenizer parsed. That takes few and large calls, as each
return to the interpreter may have to wait until another thread lets go of it: a piece of a file is read by
one call, whatever tensors it holds, and converted by one call.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.models.cache import IsCancelled, Progress, stop_if
from engine.models.folder import Folder
from engine.models.safetensors_files import FULL_FLOATS, TensorEntry

_TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
_THREADS = 2
"""One that clears pages while the other one copies; for more there are no cores on the smallest machines."""
_PIECE_BYTES = 64 << 20
"""Read by one call: 30 ms from the system's cache of files. A cancel waits for it."""
_CONVERTED_BYTES = 4 << 20
"""The same where numbers are converted, which takes as much memory more."""
_SHORT = 32_704
"""Numbers: torch takes its threads from 32,768 on. It would start some for each of ours, and they would keep
the cores from the caller, also while they wait."""
_MOST_SLICES = 512
"""Of one piece: systems take 1024 targets a call."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some numbers of a tensor, one after the other in its file."""

    name: str
    entry: TensorEntry
    first: int
    """The first of them, of the flat tensor."""
    count: int

    @property
    def begin(self) -> int:
        """Their first byte in the file."""
        return self.entry.begin + self.first * _width(self.entry)

    @property
    def end(self) -> int:
        """The byte after their last one."""
        return self.begin + self.count * _width(self.entry)


class WeightReader:
    """Reads every tensor of a folder.

    Each has memory of its own, so that it can be freed by itself. The peak is the weights as they are held,
    and a piece for each thread where they are converted.

    Args:
        folder: a checked one.
        dtype: what full floats are converted to; None leaves them as they are.
    """

    def __init__(self, folder: Folder, dtype: torch.dtype | None) -> None:
        self._folder = folder
        self._dtype = dtype
        self._tensors: dict[str, Tensor] = {}
        self._scratch = threading.local()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="weights")
        self._reads: list[tuple[int, Future[None]]] = []  # bytes of each piece

    def start(self) -> None:
        """Begin to read; to be called once, and ``close`` after it.

        Raises ValueError for a number format that is not known, RuntimeError where there is no memory.
        """
        for name, entry in self._folder.entries.items():
            stored = _torch_dtype(entry)
            held = self._dtype if self._is_converted(entry) else stored
            self._tensors[name] = torch.empty(entry.shape, dtype=held)  # no page of it is there yet
        for piece in self._pieces():
            read = self._pool.submit(self._read, piece)
            self._reads.append((sum(part.end - part.begin for part in piece), read))

    def close(self) -> None:
        """End the reading; what is being read is waited for."""
        self._pool.shutdown(cancel_futures=True)
        self._tensors = {}

    def tensors(self, on_progress: Progress, cancelled: IsCancelled) -> dict[str, Tensor]:
        """All of them by name, once they are read; to be called once.

        Args:
            on_progress: called with stage "read", done and total bytes, in the caller's thread.

        Raises ValueError for a file that ends too early, OSError, Cancelled.
        """
        total = sum(size for size, _ in self._reads)
        done = 0
        for size, read in self._reads:
            stop_if(cancelled)
            read.result()
            done += size
            on_progress("read", done, total)
        stop_if(cancelled)
        tensors = self._tensors
        self.close()  # its threads, and the memory that they read into
        return tensors

    def _pieces(self) -> Iterator[list[_Slice]]:
        """All tensors, in runs of one file and number format without a gap."""
        piece: list[_Slice] = []
        left = 0
        for part in self._slices():
            size = part.end - part.begin
            if piece and (size > left or len(piece) == _MOST_SLICES or not _follows(piece[-1], part)):
                yield piece
                piece = []
            if not piece:
                left = self._piece_bytes(part.entry)
            piece.append(part)
            left -= size
        if piece:
            yield piece

    def _slices(self) -> Iterator[_Slice]:
        """All tensors in the order of their files, none larger than a piece."""
        entries = self._folder.entries.items()
        for name, entry in sorted(entries, key=lambda item: (item[1].file, item[1].begin, item[1].end)):
            most = self._piece_bytes(entry) // _width(entry)
            for first in range(0, entry.numbers, most):
                yield _Slice(name, entry, first, min(most, entry.numbers - first))

    def _piece_bytes(self, entry: TensorEntry) -> int:
        return _CONVERTED_BYTES if self._is_converted(entry) else _PIECE_BYTES

    def _read(self, piece: list[_Slice]) -> None:
        targets = [self._target(part) for part in piece]
        first, last = piece[0], piece[-1]
        if not self._is_converted(first.entry):
            _fill(first.entry.file, first.begin, [_bytes_of(target) for target in targets])
            return
        raw = self._raw(last.end - first.begin)
        _fill(first.entry.file, first.begin, [_bytes_of(raw)])
        sources = torch.split(raw.view(_torch_dtype(first.entry)), [part.count for part in piece])
        torch._foreach_copy_(_short(targets), _short(sources))

    def _target(self, part: _Slice) -> Tensor:
        """Where a slice goes.  # (count,)"""
        return self._tensors[part.name].view(-1)[part.first : part.first + part.count]

    def _raw(self, size: int) -> Tensor:
        """Memory of this thread's to read into.  # (size,)"""
        held: Tensor | None = getattr(self._scratch, "raw", None)
        if held is None or len(held) < size:
            # From the system itself: an allocator would keep it for the next one who asks.
            held = self._scratch.raw = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)
        return held[:size]

    def _is_converted(self, entry: TensorEntry) -> bool:
        """Whether a tensor is stored as full floats of another format than it is to be held in."""
        stored_otherwise = entry.dtype in FULL_FLOATS and _torch_dtype(entry) != self._dtype
        return self._dtype is not None and stored_otherwise


def _short(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The same numbers in tensors that torch copies without threads of its own."""
    return [short for tensor in tensors for short in torch.split(tensor, _SHORT)]


def _follows(one: _Slice, other: _Slice) -> bool:
    same_kind = one.entry.file == other.entry.file and one.entry.dtype == other.entry.dtype
    return same_kind and one.end == other.begin


def _torch_dtype(entry: TensorEntry) -> torch.dtype:
    if entry.dtype not in _TORCH_DTYPES:
        raise ValueError(f"numbers of format {entry.dtype}")
    return _TORCH_DTYPES[entry.dtype]


def _width(entry: TensorEntry) -> int:
    """Bytes of one number."""
    return (entry.end - entry.begin) // entry.numbers if entry.numbers else 1


def _bytes_of(tensor: Tensor) -> memoryview:
    return memoryview(tensor.view(torch.uint8).numpy().data)


def _fill(path: Path, begin: int, targets: list[memoryview]) -> None:
    """Read a file from a byte on, into one target after the other."""
    left = [target for target in targets if len(target)]
    with path.open("rb", buffering=0) as file:
        while left:
            count = os.preadv(file.fileno(), left, begin)
            if not count:
                raise ValueError("the weight file ends too early")
            begin += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if left:
                left[0] = left[0][count:]
