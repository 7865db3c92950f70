"""Model folders: what is checked, and refused, before anything is loaded."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine.errors import ModelError, ModelNotFound, ModelUnsupported
from engine.models.folder import eos_ids, read_folder
from engine.models.safetensors_files import bytes_in_memory, read_header, weight_files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("whole"), tiny_model("llama"), tiny_tokenizer())


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def _edit(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(values | changes))


def _refusal(folder: Path, kind: type[ModelError] = ModelUnsupported) -> ModelError:
    with pytest.raises(kind) as raised:
        read_folder(folder)
    assert "\n" not in raised.value.message
    return raised.value


def test_a_whole_folder(folder: Path) -> None:
    found = read_folder(folder)
    assert [path.name for path in found.files] == ["model.safetensors"]
    numbers = sum(weight.numel() for weight in tiny_model("llama").parameters())
    assert bytes_in_memory(found.entries, 4) == 4 * numbers
    assert bytes_in_memory(found.entries, 2) == 2 * numbers


class TestDamage:
    weights = "model.safetensors"

    @pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
    def test_cut_short(self, folder: Path, keep: int) -> None:
        path = folder / self.weights
        path.write_bytes(path.read_bytes()[:keep])
        assert self.weights in _refusal(folder).message

    def test_too_long(self, folder: Path) -> None:
        with (folder / self.weights).open("ab") as file:
            file.write(b"\0")
        assert "bytes instead of" in _refusal(folder).message

    @pytest.mark.parametrize("header", [b"[]", b"{}x", b'{"a": 1}', b"\xff\xff", b"null"])
    def test_header_of_another_kind(self, folder: Path, header: bytes) -> None:
        (folder / self.weights).write_bytes(struct.pack("<Q", len(header)) + header)
        _refusal(folder)

    @pytest.mark.parametrize("offsets", [[0, 8], [8, 4], [-4, 0]])
    def test_offsets_that_do_not_fit_the_shape(self, tmp_path: Path, offsets: list[int]) -> None:
        header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": offsets}}).encode()
        path = tmp_path / "x.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
        with pytest.raises(ModelUnsupported):
            read_header(path)

    def test_git_lfs_pointer(self, folder: Path) -> None:
        (folder / self.weights).write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
        )
        _refusal(folder)

    @pytest.mark.parametrize("text", ["{", "[]", "", '"x"', "[" * 100_000])
    def test_config_that_is_no_object(self, folder: Path, text: str) -> None:
        (folder / "config.json").write_text(text)
        assert "config.json" in _refusal(folder).message


class TestMissing:
    def test_config(self, folder: Path) -> None:
        (folder / "config.json").unlink()
        assert "config.json" in _refusal(folder, ModelNotFound).message

    def test_tokenizer(self, folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        assert "tokenizer" in _refusal(folder, ModelNotFound).message

    def test_weights(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        assert "weights" in _refusal(folder, ModelNotFound).message

    def test_gguf_in_the_folder_is_pointed_at(self, tmp_path: Path) -> None:
        (tmp_path / "model-q8.gguf").touch()
        assert "model-q8.gguf" in str(_refusal(tmp_path, ModelNotFound).hint)


class TestShards:
    def shard(self, folder: Path, *names: str) -> Path:
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        weight_map = {f"w{number}": name for number, name in enumerate(names)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return folder

    def test_all_there(self, folder: Path) -> None:
        self.shard(folder, "model-00001-of-00001.safetensors")
        assert [path.name for path in weight_files(folder)] == ["model-00001-of-00001.safetensors"]

    def test_one_is_missing(self, folder: Path) -> None:
        self.shard(folder, "model-00001-of-00001.safetensors", "model-2.safetensors")
        error = _refusal(folder, ModelNotFound)
        assert "1 of 2" in error.message
        assert "model-2.safetensors" in error.message

    @pytest.mark.parametrize(
        "name", ["../x.safetensors", "/etc/x.safetensors", "a\\x.safetensors", "x.bin", ".."]
    )
    def test_paths_out_of_the_folder(self, folder: Path, name: str) -> None:
        assert repr(name) in _refusal(self.shard(folder, name)).message

    @pytest.mark.parametrize("text", ["{}", "[]", "{", '{"weight_map": 3}', '{"weight_map": {}}'])
    def test_index_of_another_kind(self, folder: Path, text: str) -> None:
        self.shard(folder)
        (folder / "model.safetensors.index.json").write_text(text)
        _refusal(folder)


class TestRefused:
    @pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pt"])
    def test_pickles(self, folder: Path, name: str) -> None:
        (folder / "model.safetensors").rename(folder / name)
        error = _refusal(folder)
        assert name in error.message
        assert "code" in str(error.hint)

    @pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
    def test_remote_code(self, folder: Path, name: str) -> None:
        _edit(folder / name, auto_map={"AutoModelForCausalLM": "modeling_evil.Evil"})
        error = _refusal(folder)
        assert f"auto_map in {name}" in error.message

    def test_kernel_from_the_hub(self, folder: Path) -> None:
        _edit(folder / "config.json", _attn_implementation="someone/kernel")
        assert "someone/kernel" in _refusal(folder).message

    def test_encoder_decoder(self, folder: Path) -> None:
        _edit(folder / "config.json", is_encoder_decoder=True, architectures=["T5ForConditionalGeneration"])
        assert "encoder-decoder" in _refusal(folder).message

    def test_vision_language(self, folder: Path) -> None:
        _edit(folder / "config.json", vision_config={"hidden_size": 4}, architectures=["LlavaForConditional"])
        error = _refusal(folder)
        assert "images" in error.message
        assert "LlavaForConditional" in error.message

    def test_adapter_alone(self, tmp_path: Path) -> None:
        (tmp_path / "adapter_config.json").write_text("{}")
        assert "adapter" in _refusal(tmp_path).message

    def test_adapter_beside_a_model(self, folder: Path) -> None:
        (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/else"}')
        assert "adapter" in _refusal(folder).message


class TestGeneration:
    @pytest.mark.parametrize(
        ("generation", "config", "tokenizer", "expected"),
        [
            ({"eos_token_id": [7, 8]}, {"eos_token_id": 2}, 3, {7, 8}),
            ({"eos_token_id": 7}, {}, None, {7}),
            ({}, {"eos_token_id": 2}, 3, {2}),
            ({}, {"eos_token_id": None}, 3, {3}),
            ({"eos_token_id": None}, {"eos_token_id": [4]}, 3, {4}),
            ({}, {"eos_token_id": None}, None, set()),
        ],
    )
    def test_eos(
        self, folder: Path, generation: Any, config: Any, tokenizer: int | None, expected: set[int]
    ) -> None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
        _edit(folder / "config.json", **({"eos_token_id": None} | config))
        assert eos_ids(read_folder(folder), tokenizer) == expected

    def test_eos_of_a_nested_configuration(self, folder: Path) -> None:
        (folder / "generation_config.json").unlink()
        _edit(folder / "config.json", eos_token_id=5, text_config={"eos_token_id": 6})
        assert eos_ids(read_folder(folder), None) == {6}


@pytest.mark.parametrize("spoil", [lambda p: p.write_bytes(b"\xff\xfe{"), lambda p: p.unlink()])
def test_generation_config_is_optional_but_never_guessed(folder: Path, spoil: Callable[[Path], Any]) -> None:
    path = folder / "generation_config.json"
    spoil(path)
    if path.is_file():
        assert "generation_config.json" in _refusal(folder).message
    else:
        assert read_folder(folder).generation == {}
