"""Reading weights beside other work: whatever lies in the files, and however the reading ends."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine.errors import ModelUnsupported
from engine.models import weight_reader
from engine.models.cache import never, no_progress
from engine.models.folder import Folder, read_folder
from engine.models.load import describe, load_model
from engine.models.weight_reader import WeightReader

pytestmark = pytest.mark.usefixtures("own_cache")


def _saved(tmp_path: Path, model: Any) -> str:
    return str(save_folder(tmp_path / "model", model, tiny_tokenizer()))


def _load(name: str, dtype: str = "float32") -> Any:
    return load_model(name, device="cpu", dtype=dtype)


def _read(folder: Folder, dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    reader = WeightReader(folder, dtype)
    try:
        reader.start()
        return reader.tensors(no_progress, never)
    finally:
        reader.close()


def _reading_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("weights")]


def _shift(path: Path, name: str, *, by: int) -> None:
    """Move a tensor, the last one of a file, away from the one before it."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    begin, end = header[name]["data_offsets"]
    assert 8 + size + end == len(data), f"{name} is not the last tensor"
    header[name]["data_offsets"] = [begin + by, end + by]
    raw = json.dumps(header).encode()
    body = data[8 + size :]
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + body[:begin] + b"\xff" * by + body[begin:])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("piece", [1000, 40_000])
def test_tensors_larger_and_smaller_than_a_piece(
    piece: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_reader, "_PIECE_BYTES", piece)
    monkeypatch.setattr(weight_reader, "_CONVERTED_BYTES", piece)
    model = tiny_model("llama")
    ours = _load(_saved(tmp_path, model), dtype).model.state_dict()
    theirs = model.to(getattr(torch, dtype)).state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_number_formats_beside_each_other_and_a_gap(tmp_path: Path) -> None:
    """One file of all kinds, read as it is and converted."""
    path = Path(_saved(tmp_path, tiny_model("llama"))) / "model.safetensors"
    kept = {
        "a": torch.arange(7, dtype=torch.int64),
        "b": torch.tensor([True, False, True]),
        "last": torch.tensor([False, True]),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
    }
    floats = {
        "c": torch.randn(3, 5, dtype=torch.float64),
        "d": torch.randn(301).bfloat16(),
        "e": torch.randn(2, 2).half(),
    }
    save_file({**kept, **floats}, path)
    _shift(path, "last", by=6)
    for dtype in (None, torch.float16):
        found = _read(read_folder(path.parent), dtype)
        assert found.keys() == kept.keys() | floats.keys()
        for name, tensor in {**kept, **floats}.items():
            wanted = tensor if dtype is None or not tensor.is_floating_point() else tensor.to(dtype)
            assert found[name].dtype == wanted.dtype and torch.equal(found[name], wanted), name


def test_many_small_tensors(tmp_path: Path) -> None:
    """More than a system reads into by one call."""
    path = Path(_saved(tmp_path, tiny_model("llama"))) / "model.safetensors"
    tensors = {f"t{number}": torch.tensor([float(number)]) for number in range(2500)}
    save_file(tensors, path)
    for dtype in (torch.float32, torch.bfloat16):
        found = _read(read_folder(path.parent), dtype)
        assert all(torch.equal(found[name], tensors[name].to(dtype)) for name in tensors)


def test_a_system_that_reads_less_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv

    def sparing(file: int, targets: list[memoryview], begin: int) -> int:
        return preadv(file, [targets[0][:700]], begin)

    monkeypatch.setattr(os, "preadv", sparing)
    model = tiny_model("llama")
    found = _read(read_folder(Path(_saved(tmp_path, model))), torch.float32)
    assert all(torch.equal(found[name], tensor) for name, tensor in model.state_dict().items())


def test_each_tensor_can_be_freed_by_itself(tmp_path: Path) -> None:
    """Weights that are packed go one by one, so that the peak is not twice the weights."""
    found = _read(read_folder(Path(_saved(tmp_path, tiny_model("llama")))), torch.bfloat16)
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == len(found)
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in found.values())


class TestReading:
    """What goes on beside the reading."""

    def test_no_thread_stays(self, tmp_path: Path) -> None:
        _load(_saved(tmp_path, tiny_model("llama")))
        assert _reading_threads() == []

    def test_a_tokenizer_that_fails_ends_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(weight_reader, "_PIECE_BYTES", 1000)
        pieces: list[int] = []
        fill = weight_reader._fill

        def slowly(path: Path, begin: int, targets: list[memoryview]) -> None:
            pieces.append(begin)
            time.sleep(0.005)
            fill(path, begin, targets)

        monkeypatch.setattr(weight_reader, "_fill", slowly)
        name = _saved(tmp_path, tiny_model("llama"))
        (Path(name) / "tokenizer.json").write_text("[]")
        with pytest.raises(ModelUnsupported, match="tokenizer"):
            _load(name)
        assert _reading_threads() == []
        assert 0 < len(pieces) < 300, "the model has 600 pieces"

    def test_a_file_that_shrinks_meanwhile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(weight_reader, "_PIECE_BYTES", 1000)
        name = _saved(tmp_path, tiny_model("llama"))
        path = Path(name) / "model.safetensors"
        source = describe(name)
        with path.open("rb+") as file:
            file.truncate(path.stat().st_size // 2)
        with pytest.raises(ModelUnsupported, match="ends too early"):
            load_model(source, device="cpu", dtype="float32")
        assert _reading_threads() == []

    @pytest.mark.parametrize("enabled", [True, False])
    def test_collection_goes_on_as_before(self, enabled: bool, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        (Path(name) / "tokenizer.json").write_text("[]")
        try:
            (gc.enable if enabled else gc.disable)()
            with pytest.raises(ModelUnsupported):
                _load(name)
            assert gc.isenabled() is enabled
        finally:
            gc.enable()
