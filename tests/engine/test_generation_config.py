"""A model's own generation_config: taken over, of no effect, or refused by name; never ignored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support.sessions import ASK, configured, ids_of
from support.tiny import save_folder, tiny_model, tiny_tokenizer
from transformers import AutoModelForCausalLM, GenerationConfig

from engine.config_tables import SamplingConfig
from engine.errors import ModelUnsupported
from engine.events import PlainStep, SegmentStarted, Settings
from engine.models.folder import read_folder
from engine.models.generation_config import (
    REFUSED,
    REFUSED_WHEN_SAMPLING,
    SAMPLING,
    TAKEN,
    WITHOUT_EFFECT,
    check_generation_config,
    generation_defaults,
    sampling_defaults,
)
from engine.session import Session

OPEN = SamplingConfig()
SET_ASIDE = SamplingConfig(generation_config=False)
PROMPT = [5, 9, 5, 100, 383, 0, 7]

ACTIVE: dict[str, Any] = {
    "min_length": 5,
    "min_new_tokens": 5,
    "stop_strings": ["x"],
    "num_beams": 2,
    "num_beam_groups": 2,
    "diversity_penalty": 0.5,
    "num_return_sequences": 2,
    "constraints": ["x"],
    "force_words_ids": [[5]],
    "penalty_alpha": 0.6,
    "dola_layers": "high",
    "encoder_repetition_penalty": 1.2,
    "no_repeat_ngram_size": 2,
    "encoder_no_repeat_ngram_size": 2,
    "bad_words_ids": [[5]],
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 0,
    "remove_invalid_values": True,
    "exponential_decay_length_penalty": [1, 1.5],
    "suppress_tokens": [5],
    "begin_suppress_tokens": [5],
    "sequence_bias": [[[5], 1.0]],
    "token_healing": True,
    "guidance_scale": 1.5,
    "watermarking_config": {"bias": 2.0},
    "cache_implementation": "quantized",
    "is_assistant": True,
    "assistant_ensemble_weight": 0.5,
    "top_h": 0.5,
    "typical_p": 0.9,
    "epsilon_cutoff": 0.01,
    "eta_cutoff": 0.01,
}
"""A value of each refused option that changes the text."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("whole"), tiny_model("llama"), tiny_tokenizer())


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def state(folder: Path, **stated: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps(stated))


def refusal(folder: Path, sampling: SamplingConfig = OPEN) -> ModelUnsupported:
    with pytest.raises(ModelUnsupported) as raised:
        check_generation_config(read_folder(folder), sampling, greedy=False)
    assert "\n" not in raised.value.message
    return raised.value


# -- every field of transformers' is known


def test_every_field_of_transformers_is_classified() -> None:
    """A new version of transformers may bring an option: somebody has to decide what it means here."""
    tables = (TAKEN, WITHOUT_EFFECT, REFUSED.keys(), REFUSED_WHEN_SAMPLING.keys())
    known = [name for table in tables for name in table]
    assert len(known) == len(set(known)), "a field stands in one table"
    fields = {name for name in vars(GenerationConfig()) if name != "_original_object_hash"}
    assert fields - set(known) == set(), "fields of GenerationConfig that nobody classified"


def test_what_transformers_assumes_is_neutral() -> None:
    """A file that spells out the values that ``generate`` would assume anyway is not refused."""
    assumed = GenerationConfig._get_default_generation_params()
    for name, acts in {**REFUSED, **REFUSED_WHEN_SAMPLING}.items():
        if assumed.get(name) is not None:
            assert not acts(assumed[name]), name


@pytest.mark.parametrize("samples", [True, False])
def test_fields_without_effect_make_no_processor(samples: bool) -> None:
    model = tiny_model("llama")
    for name in WITHOUT_EFFECT - {"renormalize_logits"}:  # which leaves every law as it is
        config = GenerationConfig()
        config.do_sample, config.top_k = samples, 0
        setattr(config, name, 3)
        model._prepare_special_tokens(config, kwargs_has_attention_mask=True)
        assert list(model._get_logits_processor(config, input_ids_seq_length=4)) == [], name


# -- refused by name


@pytest.mark.parametrize("name", [*REFUSED, *REFUSED_WHEN_SAMPLING])
def test_an_active_option_is_refused_by_name(folder: Path, name: str) -> None:
    state(folder, do_sample=True, **{name: ACTIVE[name]})
    told = refusal(folder)
    assert f"generation_config.json asks for {name} = " in told.message
    assert "--set sampling.generation_config=false" in str(told.hint)
    check_generation_config(read_folder(folder), SET_ASIDE, greedy=False)
    state(folder, do_sample=True, **{name: None})
    check_generation_config(read_folder(folder), OPEN, greedy=False)


@pytest.mark.parametrize("name", REFUSED_WHEN_SAMPLING)
def test_an_option_of_sampling_is_nothing_to_a_greedy_run(folder: Path, name: str) -> None:
    state(folder, **{name: ACTIVE[name]})
    check_generation_config(read_folder(folder), OPEN, greedy=True)
    check_generation_config(read_folder(folder), SamplingConfig(temperature=0), greedy=False)
    refusal(folder, SamplingConfig(temperature=0.5))
    state(folder, do_sample=False, **{name: ACTIVE[name]})
    check_generation_config(read_folder(folder), OPEN, greedy=False)


def test_all_of_them_are_named(folder: Path) -> None:
    state(folder, no_repeat_ngram_size=3, typical_p=0.9)
    assert "no_repeat_ngram_size = 3, typical_p = 0.9, which" in refusal(folder).message


def test_a_session_refuses_before_it_loads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state(folder, no_repeat_ngram_size=3)
    with monkeypatch.context() as patch:
        patch.setattr("engine.pair.load_model", lambda *_, **__: pytest.fail("loaded"))
        with pytest.raises(ModelUnsupported, match="no_repeat_ngram_size = 3"):
            Session(configured(str(folder))).load()
    session = Session(configured(str(folder), sampling={"generation_config": False}))
    session.load()
    assert len(ids_of(list(session.generate(ASK)))) == 24
    session.config = configured(str(folder))
    with pytest.raises(ModelUnsupported, match=r"asks for no_repeat_ngram_size = 3"):
        next(session.generate(ASK))


def test_what_a_drafter_asks_for_is_nothing_to_the_target(folder: Path, whole: Path) -> None:
    state(folder, no_repeat_ngram_size=3, top_k=-3)
    session = Session(configured(str(whole), str(folder)))
    session.load()
    assert len(ids_of(list(session.generate(ASK)))) == 24


# -- taken over


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, {}),
        ({"temperature": 0.6, "top_k": 20, "top_p": 0.95}, {"temperature": 0.6, "top_k": 20, "top_p": 0.95}),
        ({"do_sample": True, "min_p": 0.1, "top_k": None}, {"min_p": 0.1}),
        ({"do_sample": False, "temperature": 0.6, "repetition_penalty": 1.1}, {"repetition_penalty": 1.1}),
        ({"do_sample": False, "top_k": -3}, {}),
        (
            {"temperature": 0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1},
            {"temperature": 0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1},
        ),
    ],
)
def test_defaults(folder: Path, stated: Any, expected: Any) -> None:
    state(folder, **stated)
    found = generation_defaults(read_folder(folder))
    assert found == expected
    assert sampling_defaults(found, OPEN, "x") == expected
    assert sampling_defaults(found, SET_ASIDE, "x") == {}


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("top_k", -3, "-3"),
        ("top_k", float("inf"), "inf"),
        ("top_p", 1.7, "1.7"),
        ("top_p", 0, "0"),
        ("top_p", True, "true"),
        ("repetition_penalty", 0, "0"),
        ("repetition_penalty", float("nan"), "nan"),
        ("temperature", -1, "-1"),
        ("temperature", 1e-30, "1e-30"),
        ("temperature", "hot", "'hot'"),
        ("temperature", 10**400, "1000"),
        ("min_p", 2, "2"),
        ("min_p", [0.1], "[0.1]"),
    ],
)
def test_defaults_out_of_bounds(folder: Path, key: str, value: Any, shown: str) -> None:
    state(folder, **{key: value})
    told = refusal(folder)
    assert f"generation_config.json: {key} " in told.message
    assert shown in told.message
    assert f"{key} in that file" in str(told.hint)
    own = SamplingConfig.model_validate({key: {"top_k": 5, "min_p": 0.1}.get(key, 0.5)})
    check_generation_config(read_folder(folder), own, greedy=False)
    check_generation_config(read_folder(folder), SET_ASIDE, greedy=False)


def test_every_default_out_of_bounds_is_named(folder: Path) -> None:
    state(folder, top_k=-3, min_p=2, top_p=0.9)
    assert "remove top_k, min_p in" in str(refusal(folder).hint)


def test_an_old_model_says_it_in_its_config(folder: Path) -> None:
    """As transformers reads it where there is no generation_config.json."""
    (folder / "generation_config.json").unlink()
    file = folder / "config.json"
    own = {"do_sample": True, "temperature": 0.6, "repetition_penalty": None}
    nested = {"repetition_penalty": 1.2, "temperature": 9.0}
    file.write_text(json.dumps(json.loads(file.read_text()) | own))
    theirs = AutoModelForCausalLM.from_pretrained(folder).generation_config
    found = generation_defaults(read_folder(folder))
    assert found == {"temperature": 0.6} == {n: getattr(theirs, n) for n in SAMPLING if getattr(theirs, n)}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"text_config": nested}))
    assert generation_defaults(read_folder(folder)) == {"temperature": 0.6, "repetition_penalty": 1.2}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"no_repeat_ngram_size": 4}))
    assert "/config.json asks for no_repeat_ngram_size = 4" in refusal(folder).message


# -- the text is that of ``generate`` with the same file


def by_generate(folder: Path, ids: list[int], length: int) -> list[int]:
    """By transformers, which reads generation_config.json itself."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    inputs = torch.tensor([ids])
    written = model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        max_new_tokens=length,
        eos_token_id=None,
        pad_token_id=0,
    )
    return written[0, len(ids) :].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("stated", [{"do_sample": False}, {"do_sample": False, "repetition_penalty": 1.4}])
def test_greedy_text_is_that_of_generate(folder: Path, drafter: str, stated: dict[str, Any]) -> None:
    state(folder, **stated)
    for who in (None, drafter):
        session = Session(configured(str(folder), who))
        session.load()
        events = list(session.generate(ASK))
        assert settings_of(events).repetition_penalty == stated.get("repetition_penalty", 1.0)
        expected = by_generate(folder, session.pair.target.text.encode_chat(ASK, None), 24)
        assert ids_of(events) == expected
        plain = [event.id for event in session.plain(ASK) if isinstance(event, PlainStep)]
        assert plain == expected


def test_the_settings_echo_what_was_taken(folder: Path) -> None:
    state(folder, temperature=0.6, top_k=20, repetition_penalty=1.3)
    open_temperature = {"temperature": None}
    session = Session(configured(str(folder), sampling={**open_temperature, "top_k": 5}))
    session.load()
    given = settings_of(list(session.generate(ASK)))
    assert (given.temperature, given.top_k, given.repetition_penalty) == (0.6, 5, 1.3)
    session.config = configured(str(folder), sampling={**open_temperature, "generation_config": False})
    given = settings_of(list(session.generate(ASK)))
    neutral = (given.temperature, given.top_k, given.top_p, given.min_p, given.repetition_penalty)
    assert neutral == (1.0, 0, 1.0, 0.0, 1.0)


def settings_of(events: list[Any]) -> Settings:
    return next(event.settings for event in events if isinstance(event, SegmentStarted))
