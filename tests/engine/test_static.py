"""The lean, captured forward pass gives transformers' logits, whatever the widths, lengths and rewinds."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import pytest
import torch
from support.tiny import LLAMA_SHAPED, static_lm, tiny_lm, tiny_model
from torch import Tensor

from engine.errors import ConfigError
from engine.kv_cache import KVCache
from engine.models import capture as capture_module
from engine.models import optimize as optimize_module
from engine.models.attention import TILE
from engine.models.capture import Capture, Graphed, Traced, Uncaptured
from engine.models.devices import fast_bfloat16
from engine.models.forward import EagerForward, Forward
from engine.models.lean import WIDE, LeanForward, tensors_of, why_not
from engine.models.optimize import optimize
from engine.models.projection import Plain
from engine.models.static import StaticForward

IDS = torch.arange(3, 303) * 37 % 300
"""More than four blocks of positions."""
FEEDS = (
    (0, 60, 60),  # positions kept, rows fed, rows asked for: a prompt
    (60, 1, 1),  # a plain step
    (61, 2, 1),  # a draft after a full accept
    (63, 5, 5),  # a round whose rows lie in two blocks
    (65, 9, 9),  # after a rewind
    (10, 13, 13),  # a rewind far back
    (20, 230, 230),  # growth, several blocks at once
    (250, 1, 1),
)  # fmt: skip


def _logits(way: Forward, config: Any) -> list[Tensor]:
    cache = KVCache(config, way.block)
    found = []
    with torch.inference_mode():
        for kept, rows, keep in FEEDS:
            cache.truncate(kept)
            assert len(cache) == kept
            found.append(way.logits(IDS[kept : kept + rows], cache, keep).float())
            assert found[-1].shape[0] == keep
            assert len(cache) == kept + rows
    return found


def _model(kind: str, dtype: torch.dtype = torch.float32, **overrides: Any) -> Any:
    return tiny_model(kind, **overrides).to(dtype)


OVERRIDES: dict[str, dict[str, Any]] = {
    **{kind: {} for kind in LLAMA_SHAPED},
    "llama, biases": {"attention_bias": True, "mlp_bias": True},
    "llama, tied": {"tie_word_embeddings": True},
    "llama, one head of keys": {"num_key_value_heads": 1},
    "llama, no shared keys": {"num_key_value_heads": 4},
    "llama, yarn": {
        "rope_parameters": {
            "rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 128,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OVERRIDES)
@pytest.mark.parametrize("capture", [Traced, Uncaptured])
def test_float32_gives_transformers_logits(name: str, capture: Callable[[], Capture]) -> None:
    model = _model(name.split(",", maxsplit=1)[0], **OVERRIDES[name])
    for part in model.modules():  # so that a bias that is left out is noticed
        if getattr(part, "bias", None) is not None:
            torch.nn.init.normal_(part.bias)
    assert why_not(model) is None
    wanted = _logits(EagerForward(model), model.config)
    found = _logits(StaticForward(LeanForward(model), capture()), model.config)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=2e-4), float((one - other).abs().max())


@pytest.mark.parametrize("kind", LLAMA_SHAPED)
def test_bfloat16_is_as_near_to_float32_as_transformers_is(kind: str) -> None:
    exact = _logits(EagerForward(_model(kind)), _model(kind).config)
    model = _model(kind, torch.bfloat16)
    eager = _logits(EagerForward(model), model.config)
    ours = _logits(StaticForward(LeanForward(model)), model.config)
    for one, other, true in zip(ours, eager, exact, strict=True):
        assert (one - true).norm() <= 1.5 * (other - true).norm()


@pytest.mark.parametrize("kind", LLAMA_SHAPED)
def test_the_models_own_parameters_stay(kind: str) -> None:
    """They become views, so that transformers' pass still runs, and no weight is held twice."""
    model = _model(kind)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    lean = LeanForward(model)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]), name
    for layer, ours in zip(model.model.layers, lean.weights.layers, strict=True):
        assert isinstance(ours.qkv, Plain)
        storage = ours.qkv.weight.untyped_storage().data_ptr()
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            assert part.weight.untyped_storage().data_ptr() == storage


@pytest.mark.parametrize("kind", LLAMA_SHAPED)
def test_bfloat16_gives_a_row_the_same_bits_at_every_width(kind: str) -> None:
    """With AMX; other processors may round passes of other widths otherwise, but never much."""

    def alike(one: Tensor, other: Tensor) -> bool:
        if fast_bfloat16() == "AMX":
            return torch.equal(one, other)
        return bool((one - other).norm() <= 0.1 * other.norm())

    lm = static_lm(kind, model=_model(kind, torch.bfloat16))
    cache = lm.new_cache()
    lm.extend(IDS[:50].tolist(), cache)
    whole = lm.forward(IDS[50:82], cache, 32)  # (32, V), over the edge of a block
    for width in (1, 2, 3, 5, 9, 16, 31):
        cache.truncate(50)
        assert alike(lm.forward(IDS[50 : 50 + width], cache, width), whole[:width]), width
    cache.truncate(50)
    steps = torch.cat([lm.forward([int(id_)], cache, 1) for id_ in IDS[50:82]])
    assert alike(steps, whole)


@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 1), (2, 2), (10, 2), (6, 3)])
def test_no_row_is_alone_in_a_tile_of_attention(heads: int, kv_heads: int) -> None:
    """torch's kernel takes 32 rows at a time and rounds a tile of one row otherwise, now and then: 11 rows of
    three heads that share keys are 33. The built-in model's row 10 moved by 0.375 at 3,000 positions."""
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "hidden_size": 30}
    model = _model("llama", torch.bfloat16, **sizes)
    fed: dict[int, tuple[int, ...]] = {}

    def capture(key: object, whole: Any, inputs: Any, held: Any) -> Tensor:
        ids, _, positions, cos, sin, mask = inputs
        fed[width] = (ids.shape[0], positions.shape[0], cos.shape[0], sin.shape[0], mask.shape[0])
        return cast(Tensor, whole(*inputs, *held))

    way = StaticForward(LeanForward(model), capture)
    with torch.inference_mode():
        for width in range(1, 70):
            assert way.logits(IDS[:width], KVCache(model.config, way.block), 1).shape[0] == 1
    shared = heads // kv_heads
    for width, (*rows, mask) in fed.items():
        assert set(rows) <= {width, width + 1}
        assert len(set(rows)) == 1
        assert rows[0] > 1
        assert rows[0] * shared % TILE != 1
        assert mask == (1 if width == 1 else rows[0] * shared)


def test_a_pass_that_fails_leaves_the_cache_as_long_as_it_was() -> None:
    lm = static_lm("llama")
    cache = lm.new_cache()
    lm.extend(IDS[:10].tolist(), cache)
    with pytest.raises((IndexError, RuntimeError)):
        lm.forward([10**6], cache, 1)
    assert len(cache) == 10
    wanted = static_lm("llama")
    other = wanted.new_cache()
    wanted.extend(IDS[:10].tolist(), other)
    assert torch.equal(lm.forward([5], cache, 1), wanted.forward([5], other, 1))


def test_a_model_that_goes_takes_its_weights_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps every trace for ever, so the weights must be no part of it."""
    monkeypatch.setattr(capture_module, "_traces", {})
    model = _model("llama")
    way = StaticForward(lean := LeanForward(model))
    _logits(way, model.config)
    assert len(capture_module._traces) == 2
    weights = [weakref.ref(tensor) for tensor in (*model.parameters(), *tensors_of(lean.weights))]
    del model, way, lean
    gc.collect()
    assert not [1 for weight in weights if weight() is not None]


def test_a_trace_serves_every_model_of_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "_traces", {})
    for seed in (0, 1):
        model = _model("llama", seed=seed)
        wanted = _logits(EagerForward(model), model.config)
        for one, other in zip(_logits(StaticForward(LeanForward(model)), model.config), wanted, strict=True):
            assert torch.allclose(one, other, atol=2e-4)
    assert len(capture_module._traces) == 2
    other_shape = _model("llama", num_key_value_heads=1)
    _logits(StaticForward(LeanForward(other_shape)), other_shape.config)
    assert len(capture_module._traces) == 4


def test_filters_of_warnings_are_let_alone_by_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the whole process's, and Python forgets what it has warned of whenever they change."""
    lm = static_lm("llama")
    lm.forward([1, 2], lm.new_cache(), 1)
    with monkeypatch.context() as patched:
        patched.setattr("warnings._filters_mutated", touched := Mock())
        lm.forward([1, 2], lm.new_cache(), 1)
    assert not touched.called


def _sum(x: Tensor, tensors: list[Tensor]) -> Tensor:
    return tensors[0] + tensors[1] + x


class TestGraphed:
    """What a CUDA graph does, on the CPU: replay reads the static inputs and writes the static result."""

    def test_gives_what_the_passes_give(self) -> None:
        model = _model("llama")
        recorded: list[Callable[[], None]] = []

        def record(run: Callable[[], None]) -> Callable[[], None]:
            recorded.append(run)
            return run

        lean = LeanForward(model)
        wanted = _logits(StaticForward(lean, Uncaptured()), model.config)
        found = _logits(StaticForward(lean, Graphed(record)), model.config)
        for one, other in zip(found, wanted, strict=True):
            assert torch.equal(one, other)
        assert len(recorded) == len(FEEDS)

    def test_a_graph_is_used_again_while_shapes_and_places_stay(self) -> None:
        calls = []
        held = [torch.zeros(3)]

        def whole(x: Tensor, tensors: list[Tensor]) -> Tensor:
            return x + tensors[0]

        def record(run: Callable[[], None]) -> Callable[[], None]:
            calls.append(run)
            return run

        graphed = Graphed(record)
        first = graphed("a", whole, [torch.ones(3)], [held])
        second = graphed("a", whole, [torch.full((3,), 2.0)], [held])
        assert first.tolist() == [1, 1, 1], "the next replay must not change a result"
        assert second.tolist() == [2, 2, 2]
        assert len(calls) == 1
        held[0] = torch.ones(3)  # the cache has grown: the old graph points to memory that is gone
        assert graphed("a", whole, [torch.ones(3)], [held]).tolist() == [2, 2, 2]
        graphed("b", whole, [torch.ones(3)], [held])
        graphed("a", whole, [torch.ones(1)], [held])
        assert len(calls) == 4

    def test_a_graph_of_a_cache_that_lies_elsewhere_in_part_is_not_used(self) -> None:
        """Memory that a cache gave back may serve another: its first layer here, its second one there."""
        graphed, room = Graphed(lambda run: run), torch.zeros(8)
        graphed("a", _sum, [torch.ones(1)], [[room[:2], torch.zeros(2)]])
        other = [room[:2], torch.ones(2)]
        assert graphed("a", _sum, [torch.ones(1)], [other]).tolist() == [2, 2]
        wider = room.view(2, 4)[:, :2], room.view(4, 2)[:2]  # the same place, of another capacity
        room += torch.arange(8)
        zeros = torch.zeros(2)
        found = [graphed("a", _sum, [torch.zeros(1)], [[held, zeros]]).tolist() for held in wider]
        assert found == [[[0, 1], [4, 5]], [[0, 1], [2, 3]]]

    def test_old_graphs_go(self) -> None:
        graphed, held = Graphed(lambda run: run), [torch.zeros(1)]
        for key in range(100):
            graphed(key, lambda x, tensors: x, [torch.ones(1)], [held])
        assert len(graphed._graphs) == 32
        assert {cast(Any, key)[0] for key in graphed._graphs} == set(range(68, 100))


class TestOptimize:
    @pytest.mark.parametrize(("ours", "theirs", "way"), [(1.0, 2.0, "static"), (2.0, 1.0, "eager")])
    def test_auto_takes_the_faster(
        self, monkeypatch: pytest.MonkeyPatch, ours: float, theirs: float, way: str
    ) -> None:
        monkeypatch.setattr(optimize_module, "_times", lambda *_: (ours, theirs))
        lm = tiny_lm("llama")
        said = optimize(lm)
        assert said.startswith(f"{way}: a pass of one row takes 1.0 ms, 2.0 as ")
        assert lm.info.passes == way
        assert isinstance(lm.way, StaticForward if way == "static" else EagerForward)

    def test_times_are_of_both(self) -> None:
        ours, theirs = optimize_module._times(
            lm := tiny_lm("llama"), StaticForward(LeanForward(lm.model)), EagerForward(lm.model)
        )
        assert 0 < ours < 1000
        assert 0 < theirs < 1000

    @pytest.mark.parametrize(
        ("kind", "overrides", "why"),
        [
            ("gpt2", {}, "GPT2LMHeadModel has layers of another shape"),
            ("gemma3", {}, "Gemma3ForCausalLM has layers of another shape"),
            ("llama", {"hidden_act": "gelu"}, "its activation is gelu"),
            ("mistral", {"sliding_window": 8}, "its attention has a sliding window"),
            (
                "qwen3",
                {
                    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                    "sliding_window": 8,
                    "use_sliding_window": True,
                },
                "its attention has a sliding window",
            ),
            (
                "llama",
                {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
                "its rotary positions are dynamic",
            ),
        ],
    )  # fmt: skip
    def test_what_it_cannot_run_stays_with_transformers(
        self, kind: str, overrides: dict[str, Any], why: str
    ) -> None:
        lm = tiny_lm(kind, **overrides)
        assert optimize(lm) == f"eager: {why}"
        assert lm.info.passes == "eager"
        with pytest.raises(ConfigError, match=f"'static' does not fit tiny-{kind}-0: {why}"):
            optimize(lm, "static")

    def test_layers_that_are_not_the_models_are_found_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A model of a family may differ in what nobody thought of: its logits tell."""
        lm = tiny_lm("llama")
        monkeypatch.setattr(capture_module, "_traces", {})
        layer = LeanForward.layer
        monkeypatch.setattr(
            LeanForward, "layer", lambda self, held, x, *more: layer(self, held, 1.01 * x, *more)
        )
        assert "other logits than transformers' own (relative error " in optimize(lm)
        assert lm.info.passes == "eager"

    def test_a_capture_that_repeats_its_first_result_is_found_out(self) -> None:
        """As a graph would that was recorded on another device's stream."""

        def frozen(run: Callable[[], None]) -> Callable[[], None]:
            run()
            return lambda: None

        lm = tiny_lm("llama")
        ours = StaticForward(LeanForward(lm.model), Graphed(frozen))
        assert "other logits" in str(optimize_module._disagreement(lm, ours, lm.way))

    def test_a_weight_that_is_no_plain_tensor_stays_with_transformers(self) -> None:
        class Packed(Tensor):
            pass

        lm = tiny_lm("llama")
        down = lm.model.model.layers[1].mlp.down_proj
        down.weight = torch.nn.Parameter(down.weight.as_subclass(Packed), requires_grad=False)
        assert optimize(lm) == "eager: its matrices are quantised by others"

    def test_layers_that_fail_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("no kernel\nhere")

        monkeypatch.setattr(capture_module, "_traces", {})
        monkeypatch.setattr(LeanForward, "layer", broken)
        assert optimize(tiny_lm("llama")) == "eager: our layers do not run here (no kernel)"

    def test_eager_is_left_alone(self) -> None:
        lm = static_lm("llama")
        assert optimize(lm, "eager") == "eager: as configured"
        assert isinstance(lm.way, EagerForward)

    def test_named_ways_are_taken_without_measuring(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(optimize_module, "_times", None)
        lm = tiny_lm("llama")
        assert optimize(lm, "static") == "static: as configured"
        assert lm.info.passes == "static"


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_layers_give_the_same_logits() -> None:
    lm = tiny_lm("llama")
    wanted = _logits(lm.way, lm.model.config)
    assert optimize(lm, "compile") == "compile: as configured"
    for one, other in zip(_logits(lm.way, lm.model.config), wanted, strict=True):
        assert torch.allclose(one, other, atol=2e-4)


def test_wide_and_narrow_heads_are_both_used() -> None:
    assert {keep >= WIDE for _, _, keep in FEEDS} == {True, False}
