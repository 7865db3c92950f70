"""``spec bench`` on tiny models: what it prints, writes, keeps and refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.bench.trials.events import Progress
from engine.errors import DiskError
from tui.cli import main

ROOT = Path(__file__).parents[2]
QUESTIONS = """\
{"question_id": 1, "category": "one", "turns": ["Why did the knight stop?"]}
{"question_id": 2, "category": "two", "turns": ["Who took the bridge?"]}
{"question_id": 3, "category": "two", "turns": ["The river did."]}
"""
CONFIG = """\
[draft]
method = "lookup"
num_draft_tokens = 3
[verify]
model_name = "{target}"
[sampling]
temperature = 0
[run]
device = "cpu"
dtype = "float32"
"""

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def words(target: str, tmp_path: Path) -> list[str]:
    """A bench of three prompts by two K."""
    (tmp_path / "mine.toml").write_text(CONFIG.format(target=target))
    (tmp_path / "q.jsonl").write_text(QUESTIONS)
    config, questions = str(tmp_path / "mine.toml"), str(tmp_path / "q.jsonl")
    return ["bench", config, "--prompts", questions, "--k", "2,4", "--tokens", "4", "--repeats", "1"]


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.trials.run.calibrate", lambda *_: None)


def run(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("no_calibration")
def test_a_table_then_one_json_line(
    capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    page, document = tmp_path / "x.html", tmp_path / "x.md"
    code, out, err = run(capsys, [*words, "--report", str(page), "--report", str(document)])
    assert code == 0
    *lines, last = out.splitlines()
    assert max(map(len, lines)) <= 60
    told = json.loads(last)
    assert [cell["num_draft_tokens"] for cell in told["cells"]] == [0, 2, 4]
    assert [cell["identical"] for cell in told["cells"]] == [True] * 3
    assert told["command"].startswith("spec bench") and told["repeats"] == 1
    assert {"versions", "threads", "load_average_before", "peak_memory_mb", "date", "models"} <= told.keys()
    assert any(line.startswith("K = 4") for line in lines)
    assert any(line.startswith("two") for line in lines), "speedups by category"
    assert "<svg" in page.read_text() and "mine.toml" in page.read_text()
    assert document.read_text().startswith("# Speculative against plain")
    assert "measuring: " in err and " left" in err
    assert not list((tmp_path / "cache").rglob("trials-*")), "a bench that ended keeps nothing"


@pytest.mark.usefixtures("no_calibration")
def test_json_alone_and_one_category(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, out, _ = run(capsys, [*words, "--json", "--category", "one", "--quick"])
    assert code == 0
    told = json.loads(out)
    assert told["questions"] == 1 and told["by_category"] == []


@pytest.mark.usefixtures("no_calibration")
def test_one_conversation(capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path) -> None:
    context = tmp_path / "c.json"
    context.write_text('[{"role": "user", "content": "Why?"}]')
    code, out, _ = run(capsys, ["bench", words[1], "--context", str(context), "--tokens", "3", "--json"])
    assert code == 0
    assert json.loads(out)["questions"] == 1


@pytest.mark.usefixtures("no_calibration")
def test_a_report_that_cannot_be_written_loses_nothing(
    capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, *, mode: int) -> None:
        raise DiskError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr("tui.bench_command.write_atomic", full)
    code, out, err = run(capsys, [*words, "--report", str(tmp_path / "x.md")])
    assert code == 3 and "No space left" in err
    assert json.loads(out.splitlines()[-1])["questions"] == 3
    assert list((tmp_path / "cache").rglob("trials-*")), (
        "the same command writes the report without measuring"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--k", "2,x"], "x is no whole number"),
        (["--k", "0"], "--k 0"),
        (["--k", ""], "is no list of values"),
        (["--temperature", "hot"], "hot is no list of numbers"),
        (["--temperature", "-1"], "--temperature -1"),
        (["--rule", "blocks"], "--rule blocks"),
        (["--tokens", "0"], "must be 1 or more"),
        (["--category", "tow"], "did you mean two?"),
        (["--report", "x.pdf"], "is neither .md nor .html"),
        (["--report", "no/such/folder/x.md"], "--report no/such/folder/x.md: cannot be written"),
        (["--state", str(ROOT / "Makefile")], "holds something else than a stopped bench"),
        (["--context", "c.json"], "not allowed with argument"),
        (["--set", "run.nothing=1"], "run.nothing"),
    ],
)
def test_what_is_refused_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str], words: list[str], more: list[str], said: str
) -> None:
    code, out, err = run(capsys, [*words, *more])
    assert (code, out) == (2, "")
    assert said in err


def test_a_configuration_is_named_once(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert "is named twice" in run(capsys, ["bench", words[1], words[1]])[2]
    assert run(capsys, ["bench", "nosuch.toml"])[0] == 2


def test_a_changed_line_of_the_state_is_measured_anew(
    capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.bench import journal as journals

    monkeypatch.setattr("engine.bench.trials.run.calibrate", lambda *_: None)
    monkeypatch.setattr(journals.Journal, "drop", lambda self: None)
    state = tmp_path / "state.jsonl"
    assert run(capsys, [*words, "--state", str(state)])[0] == 0
    lines = [json.loads(line) for line in state.read_text().splitlines()]
    assert len(lines) == 3
    lines[0]["unit"] = {"question": "1"}
    state.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, err = run(capsys, [*words, "--state", str(state)])
    assert code == 0 and "2 of 3 prompts are taken from a stopped bench" in err
    assert len(state.read_text().splitlines()) == 4


def test_a_bench_that_was_stopped_goes_on(words: list[str], tmp_path: Path) -> None:
    """First it is killed, then stopped by Ctrl-C."""
    state = tmp_path / "state.jsonl"
    command = [sys.executable, "-m", "tui", *words, "--repeats", "40", "--state", str(state)]

    def started_and_stopped(sign: signal.Signals, units: int) -> tuple[int, int, str]:
        """Exit code, units kept, standard error; stopped when so many units are kept."""
        with (tmp_path / "err").open("w+") as err, (tmp_path / "out").open("w+") as out:
            running = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=out, stderr=err
            )
            deadline = time.monotonic() + 60
            while not (state.is_file() and state.read_bytes().count(b"\n") >= units):
                assert running.poll() is None and time.monotonic() < deadline, (tmp_path / "err").read_text()
                time.sleep(0.02)
            running.send_signal(sign)
            code = running.wait(timeout=60)
        assert (tmp_path / "out").read_text() == "", "no half result is told"
        return code, state.read_bytes().count(b"\n"), (tmp_path / "err").read_text()

    _, kept, _ = started_and_stopped(signal.SIGKILL, 2)
    code, more, err = started_and_stopped(signal.SIGINT, kept + 2)
    assert f"{kept} of 120 prompts are taken from a stopped bench" in err
    assert code == 130
    assert f"stopped; {more} of 120 prompts are kept" in err


@pytest.mark.usefixtures("no_calibration")
def test_the_line_of_progress_is_taken_away_before_it_says_that_it_stopped(
    capsys: pytest.CaptureFixture[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> Iterator[Progress]:
        yield Progress(0, 6, None, "plain", "1", "one", 1)
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.bench.trials.run.run_trials", stopped)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, _, err = run(capsys, words)
    assert code == 130
    assert "measuring:" in err and "\r\x1b[Kstopped; 0 of 3 prompts are kept" in err
