"""Loading: the same numbers as transformers, told where it comes from, refused when incomplete."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny import ATTENTION_KINDS, KINDS, save_folder, tiny_model, tiny_tokenizer

from engine.errors import Cancelled, ModelError, ModelNotFound, ModelUnsupported, UserError
from engine.models import local
from engine.models.cache import cache_dir, remembered_sha256
from engine.models.devices import Placement
from engine.models.folder import read_folder
from engine.models.load import Kind, describe, estimate, kind_of, load_model

IDS = torch.tensor([[5, 300, 7, 120, 44, 9, 11, 260, 3, 17]])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _saved(tmp_path: Path, model: Any) -> str:
    return str(save_folder(tmp_path / "model", model, tiny_tokenizer()))


def _load(name: str, dtype: str = "float32") -> Any:
    return load_model(name, device="cpu", dtype=dtype)


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class TestWeights:
    @pytest.mark.parametrize("kind", KINDS)
    def test_float32_is_exact(self, kind: str, tmp_path: Path) -> None:
        model = tiny_model(kind)
        lm = _load(_saved(tmp_path, model))
        assert torch.equal(lm.model(IDS).logits, model(IDS).logits)
        assert not lm.model.training
        assert not any(weight.requires_grad for weight in lm.model.parameters())

    @pytest.mark.parametrize("kind", ATTENTION_KINDS)
    @pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
    def test_other_formats_are_transformers_own(self, kind: str, dtype: str, tmp_path: Path) -> None:
        from transformers import AutoModelForCausalLM

        name = _saved(tmp_path, tiny_model(kind))
        theirs = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype)).state_dict()
        ours = _load(name, dtype).model.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(ours[key].dtype == theirs[key].dtype for key in ours)
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)

    def test_parts_that_must_stay_in_float32(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from transformers import LlamaForCausalLM

        monkeypatch.setattr(LlamaForCausalLM, "_keep_in_fp32_modules_strict", ["down_proj"])
        model = tiny_model("llama")
        lm = _load(_saved(tmp_path, model), "bfloat16")
        ours, theirs = lm.model.model.layers[0].mlp, model.model.layers[0].mlp
        assert ours.up_proj.weight.dtype == torch.bfloat16
        assert ours.down_proj.weight.dtype == torch.float32
        assert torch.equal(ours.down_proj.weight, theirs.down_proj.weight), "not rounded on the way"

    def test_shared_weights_stay_shared(self, tmp_path: Path) -> None:
        model = tiny_model("llama", tie_word_embeddings=True)
        lm = _load(_saved(tmp_path, model))
        assert lm.model.lm_head.weight.data_ptr() == lm.model.model.embed_tokens.weight.data_ptr()
        assert lm.info.parameters == sum(weight.numel() for weight in model.parameters())

    def test_shards(self, tmp_path: Path) -> None:
        model = tiny_model("qwen3")
        folder = Path(_saved(tmp_path, model))
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="200KB")
        lm = _load(str(folder))
        files = sorted(folder.glob("*.safetensors"))
        assert len(files) > 2
        assert torch.equal(lm.model(IDS).logits, model(IDS).logits)
        rows = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        assert lm.info.sha256 == hashlib.sha256("".join(rows).encode()).hexdigest()

    def test_through_transformers_and_accelerate(self, tmp_path: Path) -> None:
        """The way to a GPU, with the CPU in its place."""
        model = tiny_model("gemma3")
        folder = read_folder(Path(_saved(tmp_path, model)))
        placement = Placement(torch.device("cpu"), False, torch.float32, "", "")
        told: list[tuple[str, int, int | None]] = []
        loaded = local._read_to_device(
            folder, local.load_config(folder), placement, lambda *row: told.append(row)
        )
        assert torch.equal(loaded(IDS).logits, model(IDS).logits)
        assert told[-1][1] == told[-1][2]


class TestRefused:
    def refusal(self, name: str) -> ModelError:
        with pytest.raises(ModelUnsupported) as raised:
            _load(name)
        assert "\n" not in raised.value.message
        return raised.value

    def test_missing_tensor_is_never_made_up(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        path = Path(name) / "model.safetensors"
        tensors = load_file(path)
        del tensors["model.layers.1.mlp.up_proj.weight"]
        save_file(tensors, path)
        assert "model.layers.1.mlp.up_proj.weight" in self.refusal(name).message

    def test_tensor_of_another_shape(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        _edit(Path(name) / "config.json", intermediate_size=96)
        self.refusal(name)

    def test_number_format_that_is_not_known(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        path = Path(name) / "model.safetensors"
        path.write_bytes(path.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"F99"', 1))
        assert "F99" in self.refusal(name).message

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
            ({"model_type": "warpdrive"}, "no causal language model"),
            ({"model_type": "clip", "architectures": ["CLIPModel"]}, "CLIPModel"),
            ({"num_hidden_layers": "many"}, "config.json"),
        ],
    )
    def test_configurations(self, changes: dict[str, Any], told: str, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        _edit(Path(name) / "config.json", **changes)
        assert told in self.refusal(name).message

    @pytest.mark.parametrize(
        "text", ['{"version": "1.0"', '{"version": "1.0", "model": {"type": "Odd"}}', "[]"]
    )
    def test_damaged_tokenizer(self, text: str, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        (Path(name) / "tokenizer.json").write_text(text)
        assert "tokenizer" in self.refusal(name).message


class TestInfo:
    def test_everything_is_told(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama", vocab_size=448))
        info = _load(name, "bfloat16").info
        weights = Path(name) / "model.safetensors"
        assert info.name == name
        assert info.architecture == "LlamaForCausalLM"
        assert info.sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
        assert info.vocab_size == 384, "padding rows are not counted"
        assert (info.layers, info.context_length) == (3, 512)
        assert (info.dtype, info.device, info.revision) == ("bfloat16", "cpu", None)
        assert 2 * info.parameters <= info.weight_bytes < 2.01 * info.parameters

    @pytest.mark.parametrize(("kind", "length"), [("gpt2", 512), ("mamba", 1 << 20)])
    def test_context_length(self, kind: str, length: int, tmp_path: Path) -> None:
        assert _load(_saved(tmp_path, tiny_model(kind))).context_length == length

    def test_defaults_and_stops(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        _edit(Path(name) / "generation_config.json", eos_token_id=[2, 0], temperature=0.6, top_k=20)
        lm = _load(name)
        assert lm.eos_ids == {0, 2}
        assert lm.generation_defaults == {"temperature": 0.6, "top_k": 20}

    def test_cache_in_the_home_of_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NAIVE_SPECULATE_CACHE", "~nosuchuser/x")
        with pytest.raises(UserError, match="NAIVE_SPECULATE_CACHE is '~nosuchuser/x'") as raised:
            cache_dir()
        assert raised.value.exit_code == 2

    def test_hash_is_computed_once_for_a_file(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("engine.models.cache._NOTED_BYTES", 1)
        path = tmp_path / "weights"
        path.write_bytes(b"a")
        first = remembered_sha256(path)
        monkeypatch.setattr("engine.models.cache.sha256_of", lambda *args: "computed again")
        assert remembered_sha256(path) == first == hashlib.sha256(b"a").hexdigest()
        path.write_bytes(b"ab")
        assert remembered_sha256(path) == "computed again"

    def test_no_note_is_made_of_a_small_file(self, tmp_path: Path, cache: Path) -> None:
        path = tmp_path / "weights"
        path.write_bytes(b"a")
        assert remembered_sha256(path) == hashlib.sha256(b"a").hexdigest()
        assert not cache.exists()

    def test_hash_without_a_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("engine.models.cache._NOTED_BYTES", 1)
        path = tmp_path / "weights"
        path.write_bytes(b"a")
        monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(path / "impossible"))
        assert remembered_sha256(path) == hashlib.sha256(b"a").hexdigest()

    def test_estimate(self, tmp_path: Path) -> None:
        source = describe(_saved(tmp_path, tiny_model("llama")))
        row = estimate(source, device="cpu", dtype="float32", tokens=100)
        assert row.name == source.name
        assert row.weights == 4 * sum(weight.numel() for weight in tiny_model("llama").parameters())


class TestProgress:
    def test_reading_is_told_in_bytes(self, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        told: list[tuple[str, int, int | None]] = []
        load_model(name, device="cpu", dtype="bfloat16", on_progress=lambda *row: told.append(row))
        read = [row for row in told if row[0] == "read"]
        assert [row[1] for row in read] == sorted(row[1] for row in read)
        assert read[-1][1] == read[-1][2] == 4 * sum(w.numel() for w in tiny_model("llama").parameters())
        assert {row[0] for row in told} == {"hash", "read"}

    @pytest.mark.parametrize("stage", ["hash", "read"])
    def test_cancel(self, stage: str, tmp_path: Path) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        seen: set[str] = set()
        with pytest.raises(Cancelled):
            load_model(
                name,
                device="cpu",
                dtype="float32",
                on_progress=lambda stage, done, total: seen.add(stage),
                cancelled=lambda: stage in seen,
            )
        assert stage in seen

    def test_nothing_is_printed(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        name = _saved(tmp_path, tiny_model("llama"))
        capfd.readouterr()
        _load(name)
        assert capfd.readouterr() == ("", "")


class TestNames:
    def test_kinds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "org" / "local").mkdir(parents=True)
        assert kind_of("builtin:smollm2-135m") is Kind.BUILTIN
        assert kind_of("models/x.Q8_0.GGUF") is Kind.GGUF
        assert kind_of("Qwen/Qwen3-0.6B") is Kind.HUB
        assert kind_of("org/local") is Kind.FOLDER, "a folder that is there comes before the Hub"

    @pytest.mark.parametrize(
        "name", ["", "gpt2", "./org/none", "/no/such/folder", "a/b/c", "org/", "~nobody/x", "a b/c"]
    )
    def test_no_model(self, name: str) -> None:
        with pytest.raises(ModelNotFound) as raised:
            describe(name)
        for form in (".gguf", "Qwen/Qwen3-0.6B", "builtin:smollm2-135m", "folder"):
            assert form in str(raised.value.hint)

    def test_other_file(self, tmp_path: Path) -> None:
        path = tmp_path / "model.safetensors"
        path.touch()
        with pytest.raises(ModelNotFound, match=r"no \.gguf one"):
            describe(str(path))


def test_describing_needs_no_torch(tmp_path: Path) -> None:
    name = _saved(tmp_path, tiny_model("llama"))
    code = (
        "import sys; from engine.models.load import describe; describe(sys.argv[1]); "
        "sys.exit(bool({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code, name], cwd=root, check=False).returncode == 0
