"""What the doctor tells of a pair from its files: nothing is fetched, and no weights are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny import save_folder, second_tokenizer, tiny_model, tiny_tokenizer

from engine.config import Config
from engine.doctor.examine import examine
from engine.doctor.facts import Pair
from engine.doctor.pair import examine_pair
from engine.doctor.speed import ROWS, Shape, measure_formats
from engine.doctor.torch_facts import threads_as, torch_facts
from engine.doctor.versions import libraries
from engine.memory_bandwidth import bytes_a_token
from engine.models import memory
from engine.models.cache import ENVIRONMENT
from engine.models.load import load_model


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a network that fails whoever asks it."""

    def refuse(*args: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.setattr("socket.socket.connect", refuse)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A smaller model with another tokenizer."""
    model = tiny_model(
        "llama", vocab_size=len(second_tokenizer()), num_hidden_layers=1, tie_word_embeddings=True
    )
    return str(save_folder(tmp_path_factory.mktemp("other"), model, second_tokenizer()))


def asked(target: str, drafter: str | None = None, method: str | None = None, **tables: Any) -> Config:
    draft = {"method": method or ("lookup" if drafter is None else "model")}
    named = {} if drafter is None else {"model_name": drafter}
    verify = {"model_name": target, **tables.pop("verify", {})}
    run = {"device": "cpu", "dtype": "float32", **tables.pop("run", {})}
    return Config.model_validate({"draft": {**draft, **named}, "verify": verify, "run": run, **tables})


def examined(config: Config) -> Pair:
    return examine_pair(config, "pair.toml")


def test_a_pair_of_one_vocabulary(target: str, drafter: str) -> None:
    pair = examined(asked(target, drafter))
    assert pair.problems == ()
    assert pair.vocabulary is not None and pair.vocabulary.difference is None
    assert pair.vocabulary.sizes == (384, 384)
    assert (pair.target.architecture, pair.target.layers) == ("LlamaForCausalLM", 3)
    assert pair.drafter is not None and pair.drafter.here
    assert pair.memory is not None and pair.memory.problem is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bytes_are_those_of_the_loaded_model(target: str, other: str, dtype: str) -> None:
    pair = examined(asked(target, other, run={"dtype": dtype}))
    for model in pair.models:
        loaded = load_model(model.name, device="cpu", dtype=dtype)
        tables = sum(buffer.nbytes for buffer in {*loaded.model.buffers()})  # of positions, made at the load
        assert model.bytes_a_token is not None
        assert model.bytes_a_token + tables == bytes_a_token(loaded)
        assert model.parameters == loaded.info.parameters
        assert model.layers == loaded.info.layers
    assert pair.dtype == dtype


def test_quantised_layers_are_smaller(target: str) -> None:
    plain, coded = (examined(asked(target, verify={"quantize": bits})) for bits in ("none", "int8"))
    assert coded.target.weights < plain.target.weights
    assert coded.target.bytes_a_token is not None and plain.target.bytes_a_token is not None
    assert coded.target.bytes_a_token < plain.target.bytes_a_token
    assert coded.target.quantize == "int8"


def test_another_vocabulary_is_a_problem_of_some_methods(target: str, other: str) -> None:
    pair = examined(asked(target, other))
    assert pair.vocabulary is not None and pair.vocabulary.difference is not None
    assert "differ from token id" in pair.vocabulary.difference
    assert pair.vocabulary.shared is not None and 256 <= pair.vocabulary.shared < 352
    assert pair.problems == (pair.vocabulary.difference,)
    assert examined(asked(target, other, "tli")).problems == ()


def test_the_target_as_its_own_drafter_is_held_once(target: str) -> None:
    twin, alone = examined(asked(target, target)), examined(asked(target))
    assert twin.vocabulary is None
    assert twin.memory is not None and alone.memory is not None
    assert twin.memory.weights == alone.memory.weights
    assert twin.memory.cache == 2 * alone.memory.cache
    assert twin.drafter is not None
    assert twin.drafter.bytes_a_token == twin.target.bytes_a_token != 0  # it reads them all the same


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("builtin:smollm2-135m", None),
        ("org/model", None),
        ("builtin:smallm", "there is no built-in model"),
        ("no such model", "there is no model"),
        ("missing.gguf", "there is no file"),
    ],
)
def test_what_is_not_here_is_told_and_not_fetched(
    name: str, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    pair = examined(asked(name))
    assert not pair.target.here
    assert [told[: len(problem or "")] for told in pair.problems] == ([] if problem is None else [problem])
    assert (pair.target.fetch_bytes is not None) == (name == "builtin:smollm2-135m")
    assert pair.memory is None


def test_a_gguf_file_that_was_never_converted_stays_so(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + bytes(5 << 20))  # large enough for its hash to be kept
    pair = examined(asked(str(file)))
    assert not pair.target.here and pair.problems == ()
    assert not (tmp_path / "cache").exists()


def test_a_device_that_is_not_here(target: str) -> None:
    pair = examined(asked(target, run={"device": "cuda:7"}))
    assert pair.device is None
    assert len(pair.problems) == 1 and "CUDA" in pair.problems[0]
    assert pair.target.here and pair.target.bytes_a_token is None


def test_a_recurrent_model_cannot_run(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "mamba", tiny_model("mamba"), tiny_tokenizer())
    pair = examined(asked(str(folder)))
    assert pair.problems == ("MambaForCausalLM is recurrent: its state cannot be rewound",)


def test_a_damaged_model_is_told(target: str, tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "cut", tiny_model("llama"), tiny_tokenizer())
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    pair = examined(asked(target, str(folder)))
    assert pair.drafter is not None and pair.drafter.problem is not None
    assert "damaged" in pair.drafter.problem
    assert pair.problems == (pair.drafter.problem,)


def test_a_folder_that_may_not_be_read_is_told(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("engine.doctor.pair.at_hand", refuse)
    assert examined(asked(target)).problems == (f"{target} cannot be read: Permission denied",)


def test_too_little_memory_names_the_keys_that_help(
    target: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = examined(asked(target, drafter)).memory
    assert whole is not None
    free = whole.needed - 1
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    found = examined(asked(target, drafter)).memory
    assert found is not None and found.problem is not None
    assert found.ways == (
        'run.dtype = "bfloat16"',
        'verify.quantize = "int8"',
        'verify.quantize = "int4"',
        'draft.method = "lookup"',
    )
    # Half the cache and half the weights go, and the passes need their room all the same.
    monkeypatch.setattr(memory, "free_memory", lambda: whole.working)
    nothing = examined(asked(target, drafter)).memory
    assert nothing is not None and nothing.problem is not None and nothing.ways == ()


def test_measuring_leaves_no_trace_of_threads(target: str) -> None:
    before = torch.get_num_threads()
    with threads_as(before + 1):
        assert torch_facts().threads == before + 1
    assert torch.get_num_threads() == before
    found = examine(asked(target, run={"threads": before + 1}), "pair.toml", measure=False)
    assert found.torch is not None and found.torch.threads == before + 1
    assert found.speed is None
    assert torch.get_num_threads() == before


def test_products_are_timed_in_every_format() -> None:
    assert ROWS == (1, 9)
    found = measure_formats(torch.device("cpu"), Shape(64, 2))
    assert [speed.dtype for speed in found] == ["float32", "bfloat16", "float16"]
    assert all(speed.one_ms > 0 and speed.nine_ms > 0 for speed in found)


def test_an_import_that_fails_is_told(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "engine.doctor.pair", None)
    found = examine(asked(target), "pair.toml")
    assert found.torch is None and found.pair is None and found.speed is None
    assert len(found.problems) == 1 and found.problems[0].startswith("a library cannot be imported")


def test_versions_against_the_pinned_ones(tmp_path: Path) -> None:
    pinned = tmp_path / "constraints.txt"
    pinned.write_text(f"# pins\ntorch=={torch.__version__.partition('+')[0]}\ntextual==0.0.1\n")
    found = {library.name: library for library in libraries(pinned)}
    assert found["torch"].is_as_tested
    assert not found["textual"].is_as_tested
    assert found["numpy"].tested is None and found["numpy"].is_as_tested
    assert all(library.tested is None for library in libraries(tmp_path / "missing"))
    assert all(library.tested is not None for library in libraries())
