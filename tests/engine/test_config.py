"""The configuration: files, presets, overrides, the examples and the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from pydantic import ValidationError

from engine import presets
from engine.config import (
    SIZE_LIMIT,
    Config,
    config_schema,
    known_keys,
    load_config,
    parse_config,
    parse_override,
    schema_text,
)
from engine.errors import ConfigError
from engine.registry import DRAFTERS

ROOT = Path(__file__).parents[2]
PAIR = '[draft]\nmodel_name = "a"\n[verify]\nmodel_name = "b"\n'
ORIGINAL = """
[draft]
model_name = "Qwen/Qwen3-0.6B"
sample_strategy = "greedy"
num_draft_tokens = 7

[verify]
model_name = "Qwen/Qwen3-8B"
verify_strategy = "greedy_match"
"""


def test_the_original_projects_file_loads() -> None:
    config = parse_config(ORIGINAL, "my.toml")
    assert (config.draft.method, config.draft.model_name) == ("model", "Qwen/Qwen3-0.6B")
    assert (config.draft.sample_strategy, config.draft.num_draft_tokens) == ("greedy", 7)
    assert (config.verify.model_name, config.verify.verify_strategy) == ("Qwen/Qwen3-8B", "greedy_match")


def test_defaults() -> None:
    assert parse_config(PAIR, "my.toml").model_dump(mode="json") == {
        "draft": {
            "method": "model",
            "model_name": "a",
            "quantize": "none",
            "sample_strategy": "random",
            "num_draft_tokens": 5,
            "min_match": None,
            "history": False,
            "acceptance": None,
            "cost": None,
        },
        "verify": {"model_name": "b", "quantize": "none", "verify_strategy": "block"},
        "sampling": {
            **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")),
            "generation_config": True,
        },
        "run": {
            "max_new_tokens": None,
            "rounds": None,
            "stop": [],
            "ignore_eos": False,
            "device": "auto",
            "dtype": "auto",
            "optimize": "auto",
            "threads": None,
            "template": "chat",
            "thinking": None,
            "baseline": "calibrated",
        },
        "record": {"path": None, "always": False},
        "ui": {"color": "auto"},
    }


def test_every_key_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(
        """
        draft = { method = "lookup", sample_strategy = "greedy", num_draft_tokens = 64 }
        verify = { model_name = "./model.gguf", quantize = "int8", verify_strategy = "speculative_sampling" }
        record = { path = "a b.jsonl" }
        ui.color = "never"
        [sampling]
        temperature = 1
        top_k = 0
        top_p = 1
        min_p = 0.5
        repetition_penalty = 1.1
        seed = 0
        generation_config = false
        [run]
        max_new_tokens = 1
        rounds = 1
        stop = ["END", "\\n"]
        ignore_eos = true
        device = "cuda:1"
        dtype = "float16"
        optimize = "static"
        threads = 1
        template = "raw"
        thinking = false
        baseline = "off"
        """,
        "utf-8",
    )
    config = load_config(str(path))
    assert config.sampling.temperature == 1.0
    assert isinstance(config.sampling.temperature, float)
    assert config.sampling.generation_config is False
    assert config.run.stop == ("END", "\n")
    assert config.run.thinking is False
    assert Config.model_validate(config.model_dump(mode="json")) == config


def test_is_frozen_and_hashable() -> None:
    config = parse_config(PAIR, "my.toml")
    with pytest.raises(ValidationError):
        setattr(config.run, "rounds", 3)  # noqa: B010  # what a type checker would refuse
    assert hash(config) == hash(parse_config(PAIR, "my.toml"))


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        ("", (None, 10)),
        ("run.rounds = 3", (None, 3)),
        ("run.max_new_tokens = 50", (50, None)),
        ("run = { rounds = 3, max_new_tokens = 50 }", (50, 3)),
    ],
)
def test_limits(run: str, limits: tuple[int | None, int | None]) -> None:
    assert parse_config(f"{run}\n{PAIR}", "my.toml").resolved_limits() == limits


def test_a_set_can_take_a_key_out() -> None:
    config = parse_config(PAIR, "x", ["draft.method=lookup", "draft.model_name="])
    assert (config.draft.method, config.draft.model_name) == ("lookup", None)
    assert parse_config(PAIR + "[run]\nrounds = 3", "x", ["run.rounds= "]).run.rounds is None


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("run.rounds=20", "run.rounds", 20),
        ("run.rounds = 20", "run.rounds", 20),
        ("a.b=1.5", "a.b", 1.5),
        ("a.b=true", "a.b", True),
        ("a.b=Qwen/Qwen3-8B", "a.b", "Qwen/Qwen3-8B"),
        ("a.b=a=b", "a.b", "a=b"),
        ('a.b="20"', "a.b", "20"),
        ("a.b=['x', 'y']", "a.b", ["x", "y"]),
        ("a.b=[\n1,\n2]", "a.b", [1, 2]),
        ("a.b=1\nc=2", "a.b", "1\nc=2"),
        ("a.b=[", "a.b", "["),
        ("a.b=" + "9" * 5000, "a.b", "9" * 5000),
        ("a.b=" + "[" * 5000, "a.b", "[" * 5000),
        ("a.b=", "a.b", None),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_overrides_are_toml_else_text(text: str, key: str, value: object) -> None:
    override = parse_override(text)
    assert (override.key, override.value) == (key, value)
    assert type(override.value) is type(value)


def test_the_last_override_wins() -> None:
    assert parse_config(PAIR, "x", ["run.rounds=1", "run.rounds=2"]).run.rounds == 2
    assert parse_config(PAIR, "x", ["run={rounds=1}", "run.threads=2"]).run.threads == 2


@pytest.mark.parametrize("name", presets.PRESETS)
def test_presets_load(name: str) -> None:
    load_config(name)


def test_builtin_preset() -> None:
    config = load_config("builtin")
    assert (config.draft.method, config.verify.model_name) == ("lookup", "builtin:smollm2-135m")
    assert config.sampling.temperature == 0
    assert config.resolved_limits() == (None, 10)


def test_a_file_wins_over_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qwen3").mkdir()  # a folder is no configuration
    assert load_config("qwen3").verify.model_name == "Qwen/Qwen3-8B"
    Path("builtin").write_text(PAIR)
    assert load_config("builtin").verify.model_name == "b"
    assert not presets.is_preset("builtin")
    with pytest.raises(ConfigError, match=r"^\./qwen3: is a directory"):
        load_config("./qwen3")


def test_marks_and_line_ends_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_bytes(b"\xef\xbb\xbf" + PAIR.replace("\n", "\r\n").encode())
    assert load_config(str(path)) == parse_config(PAIR, "x")
    path.write_bytes(b"#" * (SIZE_LIMIT - len(PAIR) - 1) + b"\n" + PAIR.encode())
    assert load_config(str(path)) == parse_config(PAIR, "x")


def test_example_file_is_the_preset_of_the_pair() -> None:
    assert load_config(str(ROOT / "config.example.toml")) == load_config("qwen3")


def test_example_file_shows_every_key() -> None:
    """With its comments taken off, the example is a configuration that sets all keys."""
    lines = (ROOT / "config.example.toml").read_text("utf-8").splitlines()
    assert lines[0] == "#:schema config-schema.json"
    shown = [line.removeprefix("# ") if " = " in line else line for line in lines]
    data: dict[str, Any] = tomli.loads("\n".join(shown))
    assert {f"{table}.{key}" for table, keys in data.items() for key in keys} == set(known_keys())
    options = {option for entry in DRAFTERS.values() for option in entry.options}
    named = re.compile(rf"({'|'.join(options)}) = ")  # no method has all of them
    parse_config("\n".join(line for line in shown if not named.match(line)), "config.example.toml")


def test_schema_file_is_fresh() -> None:
    assert (ROOT / "config-schema.json").read_text("utf-8") == schema_text(), (
        "run: spec schema > config-schema.json"
    )


def test_schema_describes_every_key() -> None:
    schema = json.loads(schema_text())
    assert schema == config_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    described = []
    for table, reference in schema["properties"].items():
        definition = schema["$defs"][reference["$ref"].removeprefix("#/$defs/")]
        assert definition["additionalProperties"] is False
        for key, field in definition["properties"].items():
            described.append(f"{table}.{key}")
            assert field["description"].endswith("."), key
            assert "\n" not in field["description"]
            assert field["description"].count(". ") == 0, "one sentence"
            assert "type" in field, key
            assert field.get("default", 0) is not None
    assert tuple(described) == known_keys()


def test_descriptions_state_the_default() -> None:
    """Each key but the two model names says what holds if it is left out."""
    for table in config_schema()["$defs"].values():
        for key, field in table["properties"].items():
            assert "default" in field["description"] or key == "model_name", key


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none.toml", "none.toml: no such file or preset | Presets are builtin, qwen3."),
        ("builtn", "builtn: no such file or preset | Presets are builtin, qwen3; did you mean builtin?"),
        ("./builtin", "./builtin: no such file or preset"),
        ("", "'': no such file or preset"),
        ("a\0b", "'a\\x00b': no such file or preset"),
        ("\x1b[31m\udcff", "'\\x1b[31m\\udcff': no such file or preset"),
        ("x" * 5000, "xxx...: no such file or preset"),
        (".", ".: is a directory, not a file"),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_missing_files(source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config(source)
    assert said in f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"# \xe9t\xe9\n", "my.toml, line 1: byte 0xe9 is not UTF-8"),
        (PAIR.encode("utf-16"), "my.toml: is UTF-16, not UTF-8"),
        (PAIR.encode() + b"\0", "my.toml, line 5: holds a NUL byte"),
        (b"#" * (SIZE_LIMIT + 1), "my.toml: is larger than 1 MiB"),
    ],
    ids=["latin-1", "utf-16", "nul", "huge"],
)
def test_files_that_are_no_text(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_config(str(path))
    assert said in caught.value.message
    assert caught.value.hint


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "my.toml"
    path.write_text(PAIR)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"my\.toml: may not be read"):
        load_config(str(path))
