"""GGUF files: converted once, refused with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.tiny import tiny_model, tiny_tokenizer
from support.tiny_gguf import write_gguf

from engine.errors import (
    Cancelled,
    DiskError,
    DoesNotFit,
    EngineError,
    ModelNotFound,
    ModelUnsupported,
    OutOfMemory,
)
from engine.models.cache import cache_dir, never, no_progress
from engine.models.gguf import ensure_converted
from engine.models.load import describe, load_model
from engine.models.token_text import TokenText

ROOT = Path(__file__).parents[2]


def qwen3(**overrides: Any) -> Any:
    """transformers takes 128-wide heads for granted when it reads a Qwen3 from a GGUF file."""
    return tiny_model("qwen3", head_dim=128, **overrides)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", qwen3(), tiny_tokenizer())


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("NAIVE_SPECULATE_CACHE", str(folder))
        yield folder


_ENSURE = """
import sys
from pathlib import Path
from engine.models.gguf import ensure_converted
stages = []
folder, sha256 = ensure_converted(Path(sys.argv[1]), lambda *told: stages.append(told[0]), lambda: False)
assert "torch" not in sys.modules
print(folder, "convert" in stages)
"""


def test_two_processes_convert_once(file: Path, cache: Path) -> None:
    """One converts, the other waits for it; neither loads torch itself."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _ENSURE, str(file)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert said[0][0] == said[1][0]
    assert sorted(row[1] for row in said) == ["False", "True"]
    assert not list(cache.rglob("*.part"))


def test_converted_model_is_the_model(file: Path) -> None:
    lm = load_model(str(file), device="cpu", dtype="float32")
    ids = torch.tensor([[5, 300, 7, 120, 44]])
    assert torch.allclose(lm.model(ids).logits, qwen3()(ids).logits, atol=1e-4)
    assert lm.eos_ids == {2}
    assert lm.info.architecture == "Qwen3ForCausalLM"
    assert lm.info.licence == "mit"
    assert lm.info.sha256 is not None
    assert lm.info.sha256 in str(describe(str(file)).folder.path)
    assert lm.context_length == 512


def test_converted_tokenizer_is_the_tokenizer(file: Path) -> None:
    text = TokenText(load_model(str(file), device="cpu", dtype="bfloat16").text.tokenizer)
    own = TokenText(tiny_tokenizer())
    assert [text.piece(id_) for id_ in range(384)] == [own.piece(id_) for id_ in range(384)]
    assert text.special_ids == own.special_ids
    assert text.tokenizer.chat_template == tiny_tokenizer().chat_template


def test_cancel_kills_the_conversion_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    other = write_gguf(tmp_path / "other.gguf", qwen3(seed=1), tiny_tokenizer())
    before = sorted(cache_dir().joinpath("gguf").iterdir())
    stop = threading.Event()

    def on_progress(stage: str, done: int, total: int | None) -> None:
        if stage == "convert":
            stop.set()

    start = time.monotonic()
    with pytest.raises(Cancelled):
        ensure_converted(other, on_progress, stop.is_set)
    assert time.monotonic() - start < 5, "it waited for the conversion"
    left = sorted(path for path in cache_dir().joinpath("gguf").iterdir() if path.suffix != ".lock")
    assert left == [path for path in before if path.suffix != ".lock"]


class TestRefusals:
    """The child's checks, run in this process: its imports take seconds."""

    def refused(self, path: Path) -> ModelUnsupported:
        from engine.models.gguf_convert import convert

        with pytest.raises(ModelUnsupported) as raised:
            convert(path, path.with_name("never"), path.with_name("progress"))
        return raised.value

    def write(self, tmp_path: Path, **options: object) -> Path:
        architecture = str(options.pop("architecture", "qwen3"))
        model = qwen3(num_hidden_layers=1)
        return write_gguf(tmp_path / "x.gguf", model, tiny_tokenizer(), architecture=architecture, **options)

    def test_unknown_architecture(self, tmp_path: Path) -> None:
        error = self.refused(self.write(tmp_path, architecture="warpdrive"))
        assert "'warpdrive'" in error.message

    def test_encoder_decoder(self, tmp_path: Path) -> None:
        error = self.refused(self.write(tmp_path, architecture="t5"))
        assert "encoder-decoder" in error.message

    def test_one_part_of_several(self, tmp_path: Path) -> None:
        error = self.refused(self.write(tmp_path, split__count=3))
        assert "part of several" in error.message
        assert error.hint is not None
        assert "merge" in error.hint

    def test_adapter(self, tmp_path: Path) -> None:
        error = self.refused(self.write(tmp_path, general__type="adapter"))
        assert "no whole language model" in error.message

    def test_cut_short(self, file: Path, tmp_path: Path) -> None:
        short = tmp_path / "short.gguf"
        short.write_bytes(file.read_bytes()[:20_000])
        assert "damaged" in self.refused(short).message

    def test_format_that_cannot_be_unpacked(self, tmp_path: Path) -> None:
        import gguf
        import numpy as np

        path = tmp_path / "odd.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model("gpt2")
        kind = gguf.GGMLQuantizationType.Q8_K
        blocks = np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
        writer.add_tensor("token_embd.weight", blocks, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        assert "Q8_K" in self.refused(path).message

    def test_refusal_in_the_child_reaches_the_user(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(b"GGUF" + b"\0" * 100)
        with pytest.raises(ModelUnsupported, match="damaged GGUF") as raised:
            ensure_converted(broken, no_progress, never)
        assert raised.value.hint == "copy it again"

    def test_no_room(self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from engine.models.gguf_convert import convert

        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
        with pytest.raises(DiskError, match="0 MB are free"):
            convert(file, tmp_path / "never", tmp_path / "progress")
        monkeypatch.setattr("engine.models.memory.free_memory", lambda: 1000)
        with pytest.raises(DoesNotFit):
            convert(file, tmp_path / "never", tmp_path / "progress")

    @pytest.mark.parametrize(("status", "kind"), [(-9, OutOfMemory), (1, EngineError)])
    def test_child_that_dies_without_a_word(
        self, status: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def dying(command: list[str], *, log: Path, **options: object) -> int:
            log.write_text("Traceback\nBoom: bang")
            return status

        monkeypatch.setattr("engine.models.gguf.run_child", dying)
        (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes([abs(status)]))
        with pytest.raises(kind):
            ensure_converted(tmp_path / "x.gguf", no_progress, never)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotFound):
            ensure_converted(tmp_path / "no.gguf", no_progress, never)

    def test_other_file(self, tmp_path: Path) -> None:
        (tmp_path / "no.gguf").write_bytes(b"\0" * 100)
        with pytest.raises(ModelUnsupported, match="no GGUF file"):
            ensure_converted(tmp_path / "no.gguf", no_progress, never)
