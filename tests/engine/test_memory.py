"""The estimate made before loading."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.tiny import save_folder, tiny_config, tiny_lm, tiny_model, tiny_tokenizer

from engine.errors import DoesNotFit
from engine.models.folder import read_folder
from engine.models.memory import (
    WORKING_BYTES,
    Estimate,
    cached_numbers,
    check_fits,
    container_limits,
    estimate,
    free_memory,
    free_on,
)
from engine.models.quantized import How, quantize


@pytest.mark.parametrize("kind", ["qwen3", "llama", "gemma3", "gpt2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_estimate_is_what_loading_and_decoding_take(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    lm = tiny_lm(kind, model=tiny_model(kind).to(dtype))
    save_folder(tmp_path, lm.model, tiny_tokenizer())
    guess = estimate(kind, read_folder(tmp_path), lm.model.config, dtype, tokens=300)
    assert guess.weights == pytest.approx(lm.info.weight_bytes, rel=0.01)
    cache = lm.new_cache()
    cache.reserve(300)
    lm.forward([1] * 8, cache, keep=1)
    assert guess.cache == cache.nbytes


def test_weights_count_in_the_format_they_are_loaded_in(tmp_path: Path) -> None:
    save_folder(tmp_path, tiny_model("llama"), tiny_tokenizer())
    folder, config = read_folder(tmp_path), tiny_config("llama", 384)
    full = estimate("m", folder, config, torch.float32, 256)
    half = estimate("m", folder, config, torch.bfloat16, 256)
    assert full.weights == 2 * half.weights
    assert full.cache == 2 * half.cache == 4 * 256 * 3 * 2 * (16 + 16)


@pytest.mark.parametrize("how", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])
def test_quantised_weights_count_as_they_are_held_and_as_they_are_read(
    kind: str, how: How, tmp_path: Path
) -> None:
    model = tiny_model(kind).bfloat16()
    save_folder(tmp_path, model, tiny_tokenizer())
    folder = read_folder(tmp_path)
    plain = estimate(kind, folder, model.config, torch.bfloat16, tokens=300)
    guess = estimate(kind, folder, model.config, torch.bfloat16, tokens=300, quantize=how)
    quantize(model, how, kind)
    assert guess.weights == pytest.approx(tiny_lm(kind, model=model).info.weight_bytes, rel=0.01)
    assert (guess.weights + guess.loading, guess.cache) == (plain.weights, plain.cache)


def test_what_is_not_quantised_counts_in_full(tmp_path: Path) -> None:
    """Experts, which transformers fuses, and matrices of other sizes."""
    from safetensors.torch import load_file, save_file

    model = tiny_model("llama")
    save_folder(tmp_path, model, tiny_tokenizer())
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    mlp = "model.layers.{}.mlp."
    for layer in range(3):
        expert = tensors.pop(f"{mlp.format(layer)}up_proj.weight")
        tensors[f"{mlp.format(layer)}experts.0.up_proj.weight"] = expert
        tensors[f"{mlp.format(layer)}gate_proj.weight"] = torch.zeros(24, 64)
    save_file(tensors, path)
    guess = estimate("m", read_folder(tmp_path), model.config, torch.float32, 256, "int8")
    quantised = 3 * (2 * 64 * 64 + 2 * 32 * 64 + 64 * 128)
    rows = 3 * (64 + 64 + 32 + 32 + 64)
    assert guess.loading == quantised * 3 - 2 * rows


def test_recurrent_model_keeps_no_keys() -> None:
    assert cached_numbers(tiny_config("mamba", 384)) == 0


def test_latent_attention_counts_both_parts_of_its_keys() -> None:
    config = tiny_config("llama", 384, head_dim=16, num_key_value_heads=4)
    config.qk_nope_head_dim, config.qk_rope_head_dim, config.v_head_dim = 24, 8, 20
    assert cached_numbers(config) == 3 * 4 * (24 + 8 + 20)


class TestCheck:
    rows = (Estimate("org/big", 8_000_000_000, 500_000_000), Estimate("org/small", 600_000_000, 10_000_000))

    def test_fits(self) -> None:
        check_fits(self.rows, sum(row.total for row in self.rows) + WORKING_BYTES, "cpu")

    def test_the_largest_of_loads_one_after_the_other_must_fit(self) -> None:
        rows = (Estimate("a", 1_000_000, 10, loading=700_000), Estimate("b", 500_000, 10, loading=300_000))
        peak = 1_000_000 + 500_000 + 700_000 + WORKING_BYTES
        check_fits(rows, peak, "cpu")
        with pytest.raises(DoesNotFit):
            check_fits(rows, peak - 1, "cpu")

    def test_refusal_names_needs_free_and_what_to_change(self) -> None:
        with pytest.raises(DoesNotFit) as raised:
            check_fits(self.rows, 4_000_000_000, "cuda:0")
        message, hint = raised.value.message, raised.value.hint or ""
        for part in ("cuda:0", "9.2 GB needed", "4.0 GB free", "org/big: 8.0 GB", "org/small: 600 MB"):
            assert part in message
        for part in ("max_new_tokens", "bfloat16", "smaller model"):
            assert part in hint


class TestFree:
    def test_here(self) -> None:
        free, where = free_on(torch.device("cpu"), balanced=False)
        assert free > 0
        assert where == "this machine"
        assert free_memory() > 0

    def test_newer_control_groups(self, tmp_path: Path) -> None:
        inner = tmp_path / "cg" / "user" / "job"
        inner.mkdir(parents=True)
        (inner / "memory.max").write_text("max\n")
        (inner / "memory.current").write_text("700\n")
        (inner.parent / "memory.max").write_text("1000\n")
        (inner.parent / "memory.current").write_text("800\n")
        (inner.parent / "memory.stat").write_text("anon 5\ninactive_file 150\n")
        membership = tmp_path / "membership"
        membership.write_text("0::/user/job\n")
        assert container_limits(tmp_path / "cg", membership) == [350]

    def test_older_control_groups(self, tmp_path: Path) -> None:
        inner = tmp_path / "cg" / "memory" / "docker" / "x"
        inner.mkdir(parents=True)
        (inner / "memory.limit_in_bytes").write_text("1000\n")
        (inner / "memory.usage_in_bytes").write_text("900\n")
        (inner / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 100\n")
        membership = tmp_path / "membership"
        membership.write_text("4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n")
        assert container_limits(tmp_path / "cg", membership) == [200]

    def test_no_control_groups(self, tmp_path: Path) -> None:
        assert container_limits(tmp_path / "none", tmp_path / "none") == []
