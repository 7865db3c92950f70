"""What the bench compares: the ways of decoding, the cut model and the prompts, on tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny import save_folder, tiny_lm, tiny_model, tiny_tokenizer

from engine.bench import arms, peers, prompts
from engine.bench.bandwidth import reading
from engine.bench.cut import LAYERS, cut_layers
from engine.bench.equality import next_logits
from engine.memory_bandwidth import MemoryReader, bytes_a_token
from engine.models.causal_lm import CausalLM
from engine.models.load import load_model

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42, 60, 61, 62, 63, 64, 40, 41]


pytestmark = pytest.mark.usefixtures("one_thread")


# -- the ways of decoding


@pytest.fixture(scope="module")
def models() -> tuple[CausalLM, CausalLM]:
    """A target and a drafter that is the same model with fewer layers."""
    return tiny_lm("llama"), tiny_lm("llama", seed=0, num_hidden_layers=2)


def test_all_arms_write_the_same_text(models: tuple[CausalLM, CausalLM]) -> None:
    target, drafter = models
    for model in models:  # an end-of-sequence id that comes early, to be ignored
        model.model.generation_config.eos_token_id = list(range(100))
    every = [
        arms.plain(target),
        arms.lookup(target, 3),
        arms.drafted(target, drafter, 2),
        arms.synthetic(target, 3, [*PROMPT, *arms.plain(target).decode(PROMPT, 24).ids]),
        arms.transformers_plain(target),
        arms.transformers_lookup(target, 3),
        arms.transformers_assisted(target, drafter, None),
        arms.transformers_assisted(target, drafter, 2),
    ]
    texts = {arm.name: arm.decode(PROMPT, 20).ids for arm in every}
    again = {arm.name: arm.decode(PROMPT, 20).ids for arm in every}
    assert len(texts) == len(every)
    assert texts == again
    assert {len(ids) for ids in texts.values()} == {20}
    assert len(set(texts.values())) == 1
    assert any(id_ < 100 for id_ in texts["plain"])


def test_our_rounds_are_kept(models: tuple[CausalLM, CausalLM]) -> None:
    target, drafter = models
    timed = arms.drafted(target, drafter, 3).decode(PROMPT, 20)
    assert tuple(id_ for round_ in timed.rounds for id_ in round_.tokens) == timed.ids
    assert {len(round_.drafts) for round_ in timed.rounds[:-4]} == {3}
    assert timed.ms_per_token > 0
    assert arms.plain(target).decode(PROMPT, 20).rounds == ()


@pytest.mark.parametrize(("k", "widths"), [(1, {2}), (3, {4}), (None, set(range(2, 22)))])
def test_transformers_drafts_as_many_as_told(
    k: int | None, widths: set[int], models: tuple[CausalLM, CausalLM]
) -> None:
    target, drafter = models
    seen: list[int] = []

    def note(module: Any, inputs: tuple[Any, ...]) -> None:
        seen.append(inputs[0].shape[1])

    before = {model: model.model.generation_config.to_dict() for model in models}
    embedding: Any = target.model.get_input_embeddings()
    handle = embedding.register_forward_pre_hook(note)
    try:
        peers.generate(target.model, PROMPT, 24, assistant=drafter.model, k=k)
    finally:
        handle.remove()
    assert seen[0] > len(PROMPT), "the first round is the prompt and its drafts"
    assert set(seen[1:-4]) <= widths
    after = {model: model.model.generation_config.to_dict() for model in models}
    assert after == before, "its settings are put back"


def test_transformers_looks_up_as_many_as_told(models: tuple[CausalLM, CausalLM]) -> None:
    target, _ = models
    seen: list[int] = []
    embedding: Any = target.model.get_input_embeddings()
    handle = embedding.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    try:
        arms.transformers_lookup(target, 4).decode([40, 41, 42, 43] * 8, 24)
    finally:
        handle.remove()
    assert 5 in seen[1:]
    assert max(seen[1:]) == 5


def test_bytes_a_token() -> None:
    untied, tied = tiny_lm("llama"), tiny_lm("llama", tie_word_embeddings=True)
    table = untied.model.get_input_embeddings().weight.nbytes
    assert bytes_a_token(untied) == untied.info.weight_bytes - table, "of the input table one row is read"
    assert bytes_a_token(tied) == tied.info.weight_bytes == untied.info.weight_bytes - table


def test_memory_is_read_whole_and_scaled_to_the_weights() -> None:
    reader = MemoryReader(8_000_000, torch.device("cpu"))
    assert 7_990_000 < reader.size <= 8_000_000
    timed = reading(reader, 4 * reader.size).decode([1], 9)
    assert timed.ms_per_token > 4 * 8e6 / 1e12 * 1e3, "no memory gives a terabyte a second to two cores"
    speeds = [float(part.split()[0]) for part in reader.speeds.split(", ")]
    assert len(speeds) == 3
    assert speeds == sorted(speeds, reverse=True)
    assert timed.ms_per_token == pytest.approx(4 * reader.size / speeds[0] / 1e6, rel=0.01)
    assert timed.ids == ()


def test_logits_of_any_width_are_the_engines(models: tuple[CausalLM, CausalLM]) -> None:
    target, _ = models
    ours = target.forward(PROMPT, target.new_cache(), keep=1)[0]
    for width in (1, 2, 3, 16):
        logits = next_logits(target, PROMPT[:4], PROMPT[4:], width)
        assert torch.allclose(logits, ours, atol=1e-4)


# -- the cut model


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3"])
def test_a_cut_is_the_model_without_those_layers(kind: str, tmp_path: Path) -> None:
    whole = tiny_model(kind)
    source = save_folder(tmp_path / "whole", whole, tiny_tokenizer())
    cut = load_model(str(cut_layers(source, tmp_path / "cut", (0, 2))), device="cpu", dtype="float32")
    assert cut.info.layers == 2
    own = cut.model.state_dict()
    for name, tensor in whole.state_dict().items():
        if ".layers." not in name:
            assert torch.equal(own[name], tensor)
        elif ".layers.2." in name:
            assert torch.equal(own[name.replace(".layers.2.", ".layers.1.")], tensor)
    if kind == "gemma3":
        types = whole.config.layer_types
        assert cut.model.config.layer_types == [types[0], types[2]]


def test_the_choice_of_layers() -> None:
    assert len(LAYERS) == len(set(LAYERS)) == 8
    assert list(LAYERS) == sorted(LAYERS)
    assert set(LAYERS) <= set(range(30))


# -- the prompts


def test_prompts() -> None:
    assert len({prompt.name for prompt in prompts.ALL}) == len(prompts.ALL) >= 10
    for prompt in prompts.ALL:
        roles = [message.role for message in prompt.messages]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
        assert roles[-1] == "user"
    judged = {prompt.messages for prompt in (*prompts.COPY, *prompts.EDIT, *prompts.CHAT)}
    assert len(prompts.EDIT) == 3
    assert not judged & {prompt.messages for prompt in (*prompts.TUNING_COPY, *prompts.TUNING_CHAT)}
