"""Weights in few bits: their codes, torch's kernels, and the models that are made of them."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from support.tiny import save_folder, tiny_lm, tiny_model, tiny_tokenizer
from torch import Tensor, nn

from engine.errors import Cancelled, ConfigError
from engine.models import coded_kernels, coding
from engine.models import quantized as quantized_module
from engine.models.capture import traced
from engine.models.forward import EagerForward, Forward
from engine.models.lean import LeanForward, why_not
from engine.models.load import load_model
from engine.models.optimize import optimize
from engine.models.projection import Int4, Int8, SideBySide
from engine.models.quantized import How, QuantizedLinear, numbers_in, quantize, quantized, side_by_side
from engine.models.static import StaticForward

HOWS: tuple[How, ...] = ("int8", "int4")
IDS = torch.arange(3, 63) * 37 % 300


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _linear(n: int, m: int, dtype: torch.dtype = torch.float32, *, bias: bool = False, seed: int = 0) -> Any:
    part = nn.Linear(m, n, bias=bias, dtype=dtype).requires_grad_(False)
    part.weight.copy_(_random(n, m, seed=seed))
    if bias:
        part.bias.copy_(_random(n, seed=seed + 1))
    return part


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).norm() / other.double().norm())


def _without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized_module, "int8_runs", lambda *_: False)
    monkeypatch.setattr(quantized_module, "int4_kernel", lambda *_: None)


class TestCodes:
    """Rounding moves a weight by half a step; the rounded scale adds little to that at the ends."""

    def test_int8_is_off_by_half_a_step_at_most(self) -> None:
        weight = _random(48, 64) * torch.logspace(-4, 2, 48)[:, None]
        codes, scales = coding.to_int8(weight)
        off = (coding.from_int8(codes, scales, torch.float64) - weight).abs()
        assert (off <= 0.51 * scales.double()[:, None]).all()
        assert (scales <= weight.abs().amax(1) / 126).all(), "all codes are in use"

    def test_int4_is_off_by_half_a_step_at_most(self) -> None:
        weight = _random(48, 96) * torch.logspace(-4, 2, 96) + torch.linspace(-1, 1, 48)[:, None]
        codes, scales = coding.to_int4(weight)
        off = (coding.from_int4(codes, scales, torch.float64) - weight).abs().view(48, 3, 32)
        step = scales[..., 0].double().t()[..., None]  # (N, K / 32, 1)
        middle_rounded = scales[..., 1].double().t().abs()[..., None] / 256
        assert (off <= 0.54 * step + middle_rounded).all()
        spread = weight.view(48, 3, 32).amax(-1) - weight.view(48, 3, 32).amin(-1)
        assert (step[..., 0] <= spread / 14.8).all(), "all codes are in use"

    @pytest.mark.parametrize("number", [0.0, -0.75])
    def test_a_matrix_of_one_number_is_kept(self, number: float) -> None:
        weight = torch.full((16, 64), number)
        assert torch.allclose(coding.from_int8(*coding.to_int8(weight), torch.float32), weight, atol=2e-3)
        assert torch.equal(coding.from_int4(*coding.to_int4(weight), torch.float32), weight)

    def test_the_given_matrix_is_left_as_it_is(self) -> None:
        weight = _random(16, 64)
        before = weight.clone()
        coding.to_int8(weight)
        coding.to_int4(weight)
        assert torch.equal(weight, before)

    def test_two_codes_a_byte(self) -> None:
        codes = torch.arange(96, dtype=torch.uint8).view(3, 32) % 16
        pairs = coding.two_a_byte(codes)
        assert pairs.shape == (3, 16)
        assert pairs[0, 0] == 0x01
        assert torch.equal(coding.one_a_byte(pairs), codes)

    @pytest.mark.parametrize(
        ("shape", "fitting"),
        [((16, 16), ("int8",)), ((16, 32), HOWS), ((24, 32), ()), ((16, 36), ()), ((64, 48), ("int8",))],
    )
    def test_shapes_that_fit(self, shape: tuple[int, int], fitting: tuple[str, ...]) -> None:
        assert tuple(how for how in HOWS if coding.fits(how, *shape)) == fitting


class TestKernels:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize(("n", "m"), [(16, 32), (64, 64), (80, 64), (192, 576)])
    def test_products_are_those_of_the_decoded_matrix(
        self, how: How, dtype: torch.dtype, n: int, m: int
    ) -> None:
        part = quantized(_linear(n, m, dtype, bias=True), how)
        assert part.coded.kernel is not None, "torch has a kernel for this shape on the CPU"
        assert part.bias is not None
        matrix, bias = part.coded.decoded(torch.float64), part.bias.double()
        for rows in (1, 2, 3, 9, 40):
            x = _random(2, rows, m, seed=rows).to(dtype)
            found = part(x)
            assert (found.shape, found.dtype) == ((2, rows, n), dtype)
            assert _apart(found, x.double() @ matrix.t() + bias) < 0.01

    @pytest.mark.parametrize("how", HOWS)
    def test_without_a_kernel_nothing_is_rounded(self, how: How, monkeypatch: pytest.MonkeyPatch) -> None:
        by_kernel = quantized(_linear(80, 64, bias=True), how)
        _without_kernels(monkeypatch)
        part = quantized(_linear(80, 64, bias=True), how)
        assert part.coded.kernel is None
        matrix = part.coded.decoded(torch.float64)
        assert _apart(by_kernel.coded.decoded(torch.float64), matrix) < 0.004, "the kernel's layout is ours"
        for rows in (1, 9, 40):
            x = _random(rows, 64)
            assert part.bias is not None
            assert _apart(part(x), x.double() @ matrix.t() + part.bias.double()) < 1e-6

    @pytest.mark.parametrize("how", HOWS)
    def test_a_row_has_the_same_bits_at_every_width(self, how: How) -> None:
        part = quantized(_linear(192, 576, torch.bfloat16), how)
        x = _random(32, 576).bfloat16()
        steps = torch.cat([part(x[at : at + 1]) for at in range(32)])
        for width in (2, 3, 5, 9, 16, 31, 32):
            assert torch.equal(part(x[:width]), steps[:width]), width

    def test_a_trace_of_many_rows_multiplies_few_with_the_kernel(self) -> None:
        part = quantized(_linear(192, 576, torch.bfloat16), "int8").coded
        x = _random(40, 576).bfloat16()
        few, of_many = part(x[:3]), traced(part, (x,))
        assert torch.equal(of_many(x[:3]), few)
        assert not torch.equal(part(x)[:3], few), "what is not traced decodes for many rows"

    @pytest.mark.parametrize("wrong", ["missing", "refusing", "other numbers"])
    def test_a_kernel_that_is_not_right_is_not_used(
        self, wrong: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> Tensor:
            raise {"missing": AttributeError, "refusing": RuntimeError}.get(wrong, AssertionError)("here")

        def other(x: Tensor, codes: Tensor, *_: object) -> Tensor:
            return torch.ones(x.shape[0], codes.shape[0])

        product = other if wrong == "other numbers" else refuse
        monkeypatch.setattr(coded_kernels, "int8_product", product)
        monkeypatch.setattr(coded_kernels, "_product_cpu", product)
        here = torch.device("cpu")
        assert coded_kernels.int8_runs.__wrapped__(here, 64, 64) is False
        assert coded_kernels.int4_kernel.__wrapped__(here, 64, 64) is None

    def test_memory_that_runs_out_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> Tensor:
            raise torch.OutOfMemoryError

        monkeypatch.setattr(coded_kernels, "int8_product", full)
        with pytest.raises(torch.OutOfMemoryError):
            coded_kernels.int8_runs.__wrapped__(torch.device("cpu"), 64, 64)


class TestSideBySide:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("sizes", [(128, 64, 64), (64, 32, 32)])
    def test_gives_what_the_parts_give(self, sizes: tuple[int, ...], how: How, bias: bool) -> None:
        parts = [
            quantized(_linear(size, 96, torch.bfloat16, bias=bias, seed=at), how)
            for at, size in enumerate(sizes)
        ]
        x = _random(5, 96).bfloat16()
        wanted = torch.cat([part(x) for part in parts], dim=-1)
        joined = side_by_side(parts)
        assert torch.equal(joined(x), wanted)
        assert torch.equal(torch.cat([part(x) for part in parts], dim=-1), wanted), "the parts still work"
        whole = how == "int8" or sizes[1] == 64
        assert isinstance(joined, (Int8 if how == "int8" else Int4) if whole else SideBySide)
        if isinstance(joined, Int8 | Int4):
            held = joined.codes.untyped_storage().data_ptr()
            assert all(part.codes.untyped_storage().data_ptr() == held for part in parts), "held once"

    def test_of_two_kinds(self) -> None:
        parts = [quantized(_linear(64, 96), how) for how in HOWS]
        x = _random(2, 96)
        assert torch.equal(side_by_side(parts)(x), torch.cat([part(x) for part in parts], dim=-1))


class TestModels:
    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("kind", ["llama", "gemma3"])
    def test_every_matrix_of_the_layers_and_no_other(self, kind: str, how: How) -> None:
        """The logits are those of a model with the decoded matrices."""
        reference = tiny_model(kind).double()
        lm = tiny_lm(kind, model=tiny_model(kind).double())
        exact = lm.model(IDS[None]).logits
        matrices = sum(type(part) is nn.Linear for part in lm.model.modules()) - 1
        told: list[tuple[str, int, int | None]] = []
        quantize(lm.model, how, kind, lambda *row: told.append(row))
        parts = [part for part in lm.model.modules() if isinstance(part, QuantizedLinear)]
        assert len(parts) == matrices == 7 * lm.info.layers
        assert type(lm.model.get_output_embeddings()) is nn.Linear
        assert told == [("quantize", done, matrices) for done in range(matrices + 1)]
        for name, part in lm.model.named_modules():
            if isinstance(part, QuantizedLinear):
                reference.get_submodule(name).weight.copy_(part.coded.decoded(torch.float64))
        found = lm.model(IDS[None]).logits
        assert _apart(found, reference(IDS[None]).logits) < 1e-5
        assert _apart(found, exact) > 0.001

    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize(
        ("dtype", "most"), [(torch.bfloat16, 0.06), (torch.float32, 0.06), (torch.float64, 1e-5)]
    )
    @pytest.mark.parametrize("kind", ["qwen3", "qwen2"])  # norms of heads; biases
    def test_our_own_passes_run_on_them(self, kind: str, how: How, dtype: torch.dtype, most: float) -> None:
        """By kernels rows are rounded to bfloat16, so that last bits before them grow."""
        lm = tiny_lm(kind, model=tiny_model(kind).to(dtype))
        for part in lm.model.modules():  # so that a bias that is left out is noticed
            if getattr(part, "bias", None) is not None:
                part.bias.copy_(_random(*part.bias.shape))
        quantize(lm.model, how, kind)
        assert why_not(lm.model) is None
        self._agree(lm, most)

    @pytest.mark.parametrize("how", HOWS)
    def test_matrices_that_do_not_fit_stay_beside_those_that_do(self, how: How) -> None:
        """A single head of keys has 8 rows here, and 136 is no multiple of 16."""
        shapes = {"head_dim": 8, "num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": 136}
        lm = tiny_lm("llama", **shapes)
        quantize(lm.model, how, "odd")
        layer = lm.model.model.layers[0]
        coded = {name for name, part in layer.named_modules() if isinstance(part, QuantizedLinear)}
        assert coded == {"self_attn.q_proj", "self_attn.o_proj"}
        assert why_not(lm.model) is None
        assert isinstance(LeanForward(lm.model).weights.layers[0].qkv, SideBySide)
        self._agree(lm, 0.06)

    def _agree(self, lm: Any, most: float) -> None:
        ways: tuple[Forward, ...] = (EagerForward(lm.model), StaticForward(LeanForward(lm.model)))
        caches = [lm.new_cache(way) for way in ways]
        with torch.inference_mode():
            for kept, rows in ((0, 40), (40, 1), (41, 6), (43, 17)):
                logits = []
                for way, cache in zip(ways, caches, strict=True):
                    cache.truncate(kept)
                    logits.append(way.logits(IDS[kept : kept + rows], cache, min(rows, 6)))
                assert _apart(logits[1], logits[0]) < most

    @pytest.mark.parametrize(
        ("kind", "overrides", "why"),
        [
            ("gpt2", {}, "the layers of GPT2LMHeadModel have no plain linear maps"),
            ("llama", {"hidden_size": 40, "intermediate_size": 72, "num_key_value_heads": 4, "head_dim": 10},
             "its matrices have sizes that are no multiples of 16, or for int4 of 32"),
        ],
    )  # fmt: skip
    def test_a_model_without_such_matrices_is_refused(
        self, kind: str, overrides: dict[str, Any], why: str
    ) -> None:
        with pytest.raises(ConfigError) as raised:
            quantize(tiny_model(kind, **overrides), "int8", "a/b")
        assert raised.value.message == f"quantize = 'int8' does not fit a/b: {why}"
        assert raised.value.hint == 'use quantize = "none"'

    def test_a_model_that_is_quantised_already_is_refused(self) -> None:
        model = tiny_model("llama")
        model.config.quantization_config = {"quant_method": "awq"}
        with pytest.raises(ConfigError, match="its weights are quantised already"):
            quantize(model, "int8", "a/b")

    def test_it_can_be_cancelled(self) -> None:
        model = tiny_model("llama")
        with pytest.raises(Cancelled):
            quantize(model, "int8", "m", cancelled=lambda: numbers_in(model) > 0)
        assert sum(isinstance(part, QuantizedLinear) for part in model.modules()) == 1


@pytest.mark.usefixtures("own_cache")
class TestLoading:
    @pytest.mark.parametrize("how", HOWS)
    def test_memory_falls_and_the_count_of_parameters_stays(self, how: How, tmp_path: Path) -> None:
        folder = str(save_folder(tmp_path, tiny_model("qwen2"), tiny_tokenizer()))
        plain = load_model(folder, device="cpu", dtype="bfloat16")
        stages: list[str] = []
        held = load_model(
            folder,
            device="cpu",
            dtype="bfloat16",
            quantize=how,
            on_progress=lambda *row: stages.append(row[0]),
        )
        assert "quantize" in stages
        assert (plain.info.quantized, held.info.quantized) == ("", how)
        assert (held.info.parameters, held.info.dtype) == (plain.info.parameters, "bfloat16")
        layers = 3 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64)  # q and o, k and v, gate, up and down
        bits, beside = (8, 3 * 2 * (64 + 32 + 32 + 64 + 128 + 128 + 64)) if how == "int8" else (5, 0)
        assert held.info.weight_bytes == plain.info.weight_bytes - 2 * layers + layers * bits // 8 + beside
        assert optimize(held, "static") == "static: as configured"

    @pytest.mark.skipif(sys.platform != "linux", reason="memory of the process is told otherwise")
    def test_the_process_gets_smaller(self) -> None:
        model = tiny_model("llama", hidden_size=512, intermediate_size=1024, head_dim=128)
        before = psutil.Process().memory_info().rss
        quantize(model, "int8", "m")
        saved = 3 * numbers_in(model)  # of four bytes each
        assert saved > 15e6
        assert before - psutil.Process().memory_info().rss > 0.6 * saved

    def test_the_original_matrices_are_gone(self, tmp_path: Path) -> None:
        """No tensor of a layer's matrix is alive beside its codes."""
        model = tiny_model("llama")
        refs = [weakref.ref(part.weight) for part in model.model.modules() if type(part) is nn.Linear]
        quantize(model, "int8", "m")
        gc.collect()
        assert len(refs) == 21
        assert not [1 for ref in refs if ref() is not None]
