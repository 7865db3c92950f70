"""spec doctor as it is typed: what it prints, how it ends, and what it never does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.doctor import FACTS, MACHINE, OTHER_VOCABULARY, facts

from engine.config import Config
from engine.doctor.facts import Facts
from engine.models.cache import ENVIRONMENT
from tui.cli import main


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home and cache, no Hub, no network."""

    def refuse(*args: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.chdir(tmp_path)


def written(folder: Path, target: str, more: str = "") -> str:
    path = folder / "pair.toml"
    path.write_text(f'[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "{target}"\n{more}')
    return path.name


def found(monkeypatch: pytest.MonkeyPatch, facts: Facts) -> None:
    """The doctor finds these facts."""

    def examine(config: Config, name: str, **options: Any) -> Facts:
        return facts

    monkeypatch.setattr("engine.doctor.examine.examine", examine)


def test_without_the_model_the_way_to_it_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--quick", "--json"]) == 0
    out = capsys.readouterr().out
    *report, last = out.splitlines()
    assert "  - run spec models fetch builtin:smollm2-135m" in report
    assert "      the target is not on this machine yet, a download of 93 MB" in report
    assert "speed here" not in report
    told = json.loads(last)
    assert told["usable"] is True and told["problems"] == []
    assert told["format"] == "naive-speculate-doctor"
    assert told["facts"]["speed"] is None
    assert told["facts"]["pair"]["models"][0]["fetch_bytes"] == 92_871_040
    assert [entry["name"] for entry in told["models"]] == ["builtin:smollm2-135m"]
    assert not (tmp_path / "cache").exists(), "nothing is written either"


def test_a_whole_report_fits_80_columns_and_names_nobody(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path = tmp_path / "Zo\u00eb"
    tmp_path.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "models" / "tiny"
    model.parent.mkdir()
    model.symlink_to(target)
    config = written(tmp_path, str(model), '[run]\ndevice = "cpu"\ndtype = "float32"\n')
    assert main(["doctor", config, "--json"]) == 0
    out = capsys.readouterr().out
    *report, last = out.splitlines()
    assert max(map(len, report)) <= 80
    assert "Zo" not in out
    assert [line for line in report if line and not line.startswith(" ")] == [
        "program",
        "machine",
        "speed here",
        "models on this machine",
        "the pair of pair.toml",
        "what to change",
    ]
    assert any(line.startswith("  target          ~/models/tiny: LlamaForCausalLM") for line in report)
    told = json.loads(last)
    speed = told["facts"]["speed"]
    assert {each["dtype"] for each in speed["formats"]} == {"float32", "bfloat16", "float16"}
    read = told["facts"]["pair"]["models"][0]["bytes_a_token"]
    assert told["expectation"]["plain_ms"] == pytest.approx(read / speed["bandwidth_gbs"] / 1e6)


def test_every_section_of_a_large_machine_fits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = {"busy": 0.9, "core_quota": 2.5, "memory_limit": 8_000_000_000, "allowed_cores": 4}
    found(monkeypatch, facts(machine=crowded, pair={"vocabulary": OTHER_VOCABULARY}))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "4 physical, 8 logical, 4 allowed to this process, the container may take 2.5",
        "16.0 GB, 12.0 GB free, the container may take 8.0 GB",
        "at best 100.0 tokens/s, 10.0 ms a token = 200 MB read a token / 20.0 GB/s",
        "0.10 by bytes, 0.20 by layers",
        "a* = c + r(2) + o - 1",
        "target 1,000, drafter 900 tokens: they differ; 25% shared as text",
        "PROBLEM drafter and target differ from token id 7 on",
        "PROBLEM",
        'set draft.method = "slem" or "tli"',
    ):
        assert words in " ".join(out.split())


def test_nothing_to_change_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, FACTS)
    assert main(["doctor"]) == 0
    assert "  nothing: no fact above speaks against this setting" in capsys.readouterr().out


def test_advice_alone_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found(monkeypatch, facts(machine={"busy": 0.9}))
    assert main(["doctor"]) == 0
    assert "before you believe a timing" in capsys.readouterr().out


def test_without_torch_the_rest_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "engine.doctor.pair", None)
    assert main(["doctor", "--json"]) == 1
    captured = capsys.readouterr().out
    assert "PROBLEM         a library cannot be imported" in captured
    assert json.loads(captured.splitlines()[-1])["usable"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[draft\n", "error: pair.toml, line 1"),
        ('[draft]\nmethod = "lookup"\n[verify]\nmodel_nam = "x"\n', "error: pair.toml: verify.model_nam"),
    ],
)
def test_a_broken_config_is_told_as_ever(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "pair.toml").write_text(text)
    assert main(["doctor", "pair.toml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_other_values_are_refused_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--set", "run.dtype=float8"]) == 2
    assert main(["doctor", "builtin", "more"]) == 2
    assert "error: " in capsys.readouterr().err


def test_a_name_cannot_write_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = f"{MACHINE.processor}\x1b[2J"
    found(monkeypatch, facts(machine={"processor": processor}))
    assert main(["doctor"]) == 0
    assert "\x1b" not in capsys.readouterr().out
