"""``spec bench CONFIG --tune``: what is printed, and what is saved."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from support.tuning import BEST, OWN, PLAIN, ROWS, TUNED

from engine.config import Config, load_config
from engine.errors import DiskError
from engine.tune_candidates import changes, drafters_of, with_k
from engine.tune_ranking import LeftOut
from tui.cli import main
from tui.tune_command import tuned_json, tuned_lines
from tui.tune_rows import applied, row_text, save_draft

OUT = [LeftOut("model mine/other", "it is not on this machine")]


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits(width: int) -> None:
    lines = tuned_lines(TUNED, OUT, width)
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    for words in (
        "lookup, as it is set",
        "1.38 .. 1.47",
        "predicted",
        "plain decoding",
        "Left out: model mine",
    ):
        assert words in text
    assert [len(line) for line in lines[: len(ROWS) + 1]] == [width] * (len(ROWS) + 1)


def test_the_json_line() -> None:
    told = json.loads(json.dumps(tuned_json(TUNED, OUT)))
    assert [row["k"] for row in told["ranking"]] == [8, 5, 0, 3]
    assert [row["drafter"] for row in told["ranking"]] == ["lookup", "lookup", None, "lookup"]
    assert told["ranking"][3]["speedup_low"] is None and not told["ranking"][3]["measured"]
    assert told["left_out"] == {"model mine/other": "it is not on this machine"}
    assert told["ranking"][0]["settings"] == dict(BEST.settings)


@pytest.fixture
def files(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A configuration of a tiny model with a comment, and a context."""
    monkeypatch.setattr("engine.calibrate.BUDGET_S", 0.05)
    monkeypatch.setattr("engine.tune.TOKENS", 10)
    monkeypatch.setattr("engine.tune.PASSES", 1)
    config, context = tmp_path / "mine.toml", tmp_path / "talk.json"
    config.write_text(
        f'# mine\n[draft]\nmethod = "lookup"\nnum_draft_tokens = 3  # why not\n\n[verify]\n'
        f'model_name = "{target}"\n\n'
        '[run]\ndevice = "cpu"\ndtype = "float32"\n',
        "utf-8",
    )
    context.write_text('[{"role": "user", "content": "Why did the knight stop?"}]', "utf-8")
    return config, context


def test_a_tiny_model_is_tuned_and_the_best_is_saved(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    config, context = files
    assert main(["bench", str(config), "--context", str(context), "--tune", "--save"]) == 0
    out, err = capsys.readouterr()
    *table, last = out.splitlines()
    told = json.loads(last)
    assert table[0].startswith("drafter") and all(len(line) <= 80 for line in table)
    assert told["ranking"][0]["measured"] and "saved in" in err and "tuning:" in err
    saved = config.read_text("utf-8")
    k = told["ranking"][0]["settings"].get("draft.num_draft_tokens", 3)
    assert saved.startswith("# mine\n") and f"num_draft_tokens = {json.dumps(k)}  # why not" in saved


def test_what_is_asked_for_wrongly(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    config, context = files
    assert main(["bench", str(config), "--tune"]) != 0
    assert "--context" in capsys.readouterr().err
    assert main(["bench", str(config), "builtin", "--context", str(context), "--tune"]) != 0
    assert "one configuration" in capsys.readouterr().err
    assert main(["bench", str(config), "--context", str(context), "--save"]) != 0
    assert "--tune" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--report", "x.md"], ["--k", "2"], ["--quick"], ["--prompts", "q.jsonl"]])
def test_what_only_a_bench_takes_is_refused(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "builtin", "--tune", *more]) == 2
    assert f"{more[0]} does not go with --tune" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_loses_no_ranking(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DiskError("cannot write mine.toml: Read-only file system")

    monkeypatch.setattr("tui.tune_command._measure", lambda *_: (TUNED, []))
    monkeypatch.setattr("tui.tune_command.save_draft", full)
    config, context = files
    assert main(["bench", str(config), "--context", str(context), "--tune", "--save"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["ranking"] and "Read-only" in err


def test_ctrl_c_ends_it(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.tune.tune", stopped)
    config, context = files
    assert main(["bench", str(config), "--context", str(context), "--tune"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and err.endswith("stopped; nothing is ranked or saved\n")


def test_a_preset_is_told_instead(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.tune_command._measure", lambda *_: (TUNED, []))
    assert main(["bench", "builtin", "--tune", "--save", "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 and json.loads(out)["ranking"]
    assert "a preset cannot be changed" in err and "num_draft_tokens = 8" in err


def test_the_rest_of_a_file_stays(files: tuple[Path, Path]) -> None:
    config, _ = files
    other = load_config(str(config), ["run.max_new_tokens=7", "draft.num_draft_tokens=9"])
    save_draft(other.draft, config)
    again = load_config(str(config))
    assert (again.draft.num_draft_tokens, again.run.max_new_tokens) == (9, None)


@pytest.mark.parametrize(
    "own",
    [
        {"method": "lookup", "min_match": 3, "history": True},
        {"method": "hybrid", "model_name": "a", "quantize": "int8", "history": True, "min_match": 2},
        {"method": "model", "model_name": "a", "sample_strategy": "greedy", "num_draft_tokens": "auto"},
        {"method": "synthetic", "acceptance": (0.5,), "cost": 0.1},
    ],
)
def test_a_row_s_settings_lead_to_its_drafter(own: dict[str, Any]) -> None:
    config = Config.model_validate({"draft": own, "verify": {"model_name": "t"}})
    for drafter in drafters_of(config, ["other"]):
        for wanted in (with_k(drafter, 5), with_k(drafter, "auto")):
            row = dataclasses.replace(OWN, settings=changes(config.draft, wanted))
            assert applied(config, row).draft == wanted
    assert "as it is set" not in row_text(dataclasses.replace(PLAIN, settings=()), 80)
