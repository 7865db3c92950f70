"""The sub-commands that run no model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.terminal import run_piped, spec_argv

from engine.config import schema_text
from engine.errors import DownloadError
from engine.models import load
from engine.models.cache import ENVIRONMENT
from engine.models.gguf import NOTE
from tui.cli import SUBCOMMANDS, main


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_schema_is_printed_and_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out == schema_text()
    assert main(["schema", "--write", str(tmp_path / "s.json")]) == 0
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == schema_text()


def test_schema_where_it_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["schema", "--write", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]


def test_paths(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["paths"]) == 0
    out = capsys.readouterr().out
    assert f"{cache}  (not there yet)" in out
    assert "recordings:" in out


def test_models_lists_what_is_there(capsys: pytest.CaptureFixture[str], cache: Path) -> None:
    assert main(["models"]) == 0
    assert "builtin:smollm2-135m  (not fetched, 93 MB, Apache-2.0)" in capsys.readouterr().out
    folder = cache / "gguf" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / NOTE).write_text(json.dumps({"name": "Evil\x1b[2J"}))
    assert main(["models", "list"]) == 0
    assert "  Evil\u241b[2J  (0 MB)  " in capsys.readouterr().out
    (folder / NOTE).write_text("[]")
    assert main(["models"]) == 0
    assert "  unnamed  (0 MB)  " in capsys.readouterr().out


def test_fetch_shows_progress(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(name: str, on_progress: Callable[[str, int, int | None], None]) -> object:
        for done in range(0, 101, 5):
            on_progress("download", done, 100)
        on_progress("convert", 0, None)
        return SimpleNamespace(folder=SimpleNamespace(path=Path("/there")))

    monkeypatch.setattr(load, "describe", describe)
    assert main(["models", "fetch", "a/b"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "a/b: ready in /there\n"
    assert captured.err.splitlines() == [
        *(f"a/b: download {n}%" for n in (0, 25, 50, 75, 100)),
        "a/b: convert",
    ]


def test_fetch_tells_what_failed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(name: str, on_progress: object) -> object:
        raise DownloadError("offline", "connect and try again")

    monkeypatch.setattr(load, "describe", describe)
    assert main(["models", "fetch", "a/b"]) == 3
    assert capsys.readouterr().err == "error: offline\nhint: connect and try again\n"


@pytest.mark.parametrize(
    "words", [("fetch",), ("list", "x"), ("burn",), ("fetch", "no such model"), ("fetch", "builtin:x")]
)
def test_models_refuses_other_words(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert main(["models", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: spec {name}")


def test_a_file_of_that_name_is_written_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "schema").write_text("[draft\n")
    done = run_piped(spec_argv("./schema", "c.json"), cwd=tmp_path)
    assert done.returncode == 2
    assert b"error: ./schema, line 1" in done.stderr
