"""Safetensors files: found, checked and measured before anything is loaded. Needs no torch."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelNotFound, ModelUnsupported

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of one number, by its safetensors name."""

FULL_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""The formats that loading converts to the model's own; the rest (packed, quantised) stays as it is."""

_LENGTH_BYTES = 8
_MAX_HEADER = 100_000_000
"""The format's own limit."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_COPY_AGAIN = "copy or download the file again"


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies in its file."""

    file: Path
    dtype: str
    """Its safetensors name, such as "BF16"."""
    shape: tuple[int, ...]
    begin: int
    """First byte, counted from the start of the file."""
    end: int

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of a file, after checking that the file is whole.

    Raises ModelUnsupported for a file that is cut short, too long, or not safetensors.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_LENGTH_BYTES)
        length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH_BYTES else size
        if length > min(_MAX_HEADER, size - _LENGTH_BYTES):
            raise _broken(path, "it has no complete header")
        raw = file.read(length)
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        entries = {name: _entry(path, _LENGTH_BYTES + length, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _broken(path, "its header makes no sense") from error
    end = max((entry.end for entry in entries.values()), default=_LENGTH_BYTES + length)
    if end != size:
        raise _broken(path, f"it has {size:,} bytes instead of {end:,}")
    return entries


def _entry(path: Path, base: int, entry: Mapping[str, Any]) -> TensorEntry:
    begin, end = entry["data_offsets"]
    found = TensorEntry(path, entry["dtype"], tuple(entry["shape"]), base + begin, base + end)
    # An unknown number format is for transformers to judge; only its place in the file is checked.
    expected = found.numbers * ITEM_BYTES[found.dtype] if found.dtype in ITEM_BYTES else end - begin
    if not 0 <= begin <= end or expected != end - begin:
        raise ValueError(f"offsets {begin}..{end}")
    return found


def _broken(path: Path, why: str) -> ModelUnsupported:
    return ModelUnsupported(f"{path} is damaged or no safetensors file: {why}", _COPY_AGAIN)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model folder, in the order of their names.

    Raises ModelUnsupported for pickled weights only and for an index that names files elsewhere,
    ModelNotFound where weights are missing.
    """
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        return _indexed(folder)
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ModelUnsupported(
            f"{folder} has pickled weights only ({pickles[0]}), which are refused",
            "reading pickles can run any code: convert the model to safetensors, or use one that has them",
        )
    raise ModelNotFound(f"{folder} has no weights: neither {SINGLE} nor {INDEX}", _COPY_AGAIN)


def _indexed(folder: Path) -> list[Path]:
    try:
        names = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelUnsupported(f"{folder / INDEX} is not an index of weight files", _COPY_AGAIN) from error
    for name in names:
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or "\\" in name
            or not name.endswith(".safetensors")
        ):
            raise ModelUnsupported(f"{folder / INDEX} names {name!r}, which is no weight file of that folder")
    missing = sorted(name for name in names if not (folder / name).is_file())
    if missing:
        raise ModelNotFound(
            f"{folder} lacks {len(missing)} of {len(names)} weight files, {missing[0]} first", _COPY_AGAIN
        )
    if not names:
        raise ModelUnsupported(f"{folder / INDEX} names no weight file", _COPY_AGAIN)
    return [folder / name for name in sorted(names)]


def read_headers(files: list[Path]) -> dict[str, TensorEntry]:
    """The tensors of all files of a model, each file checked."""
    entries: dict[str, TensorEntry] = {}
    for file in files:
        entries |= read_header(file)
    return entries


def bytes_in_memory(entries: Mapping[str, TensorEntry], item_bytes: int) -> int:
    """Bytes of the weights once their full floats are held in ``item_bytes`` each."""
    return sum(
        entry.numbers * item_bytes if entry.dtype in FULL_FLOATS else entry.end - entry.begin
        for entry in entries.values()
    )
