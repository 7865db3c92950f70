"""The bench of the app: its terminal, and every measure in small."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine.bench import loading
from engine.bench.jobs import STOPPED
from engine.bench.report import Row
from engine.recording import read_recording
from tui.bench.__main__ import main
from tui.bench.frames import rounds_without_end
from tui.bench.live import SCREENS
from tui.bench.rows import ROWS, Setup, frame_rows, key_rows, replay_rows, rest_rows, speed_rows
from tui.bench.start import load_rows, start_rows
from tui.bench.terminal import Terminal, TerminalError
from tui.playable import PATH

ECHO = """\
import json, os, sys, time
fact = os.fdopen(int(sys.argv[1]), "w", buffering=1)
fact.write(json.dumps({"size": [*os.get_terminal_size()]}) + "\\n")
print("ready", flush=True)
print("<" + sys.stdin.readline().strip() + ">", flush=True)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokenizer = tiny_tokenizer()
    folder = tmp_path_factory.mktemp("tiny") / "model"
    return str(save_folder(folder, tiny_model("llama"), tokenizer))


def small(folder: Path, **changes: Any) -> Setup:
    few: dict[str, Any] = {"starts": 1, "blocks": 1, "tokens": 40, "selections": 2, "frames": 3, "repeats": 1}
    return Setup(
        folder,
        **{
            **few,
            "rest_s": 0.2,
            "sizes": (40, 80),
            "question": "Hello" if "model" in changes else "",
            **changes,
        },
    )


def test_the_terminal_keeps_what_is_drawn_with_its_time() -> None:
    with Terminal(["-c", ECHO], {}, size=(90, 20)) as terminal:
        assert terminal.fact(20) == {"size": [90, 20]}
        ready = terminal.drawn_at("ready")
        since, pressed = terminal.send("héllo\n")
        answered = terminal.drawn_at("<héllo>", since)
    assert ready is not None
    assert answered is not None
    assert terminal.began < ready < pressed < answered < time.monotonic()


def test_what_is_never_drawn_is_waited_for_no_longer_than_asked() -> None:
    with Terminal(["-c", ECHO], {}) as terminal:
        terminal.fact(20)
        began = time.monotonic()
        assert terminal.drawn_at("nothing like it", timeout=0.2) is None
        assert time.monotonic() - began < 5
        terminal.send("\n")


def test_a_program_that_ends_early_is_told_with_its_last_words() -> None:
    failing = "import sys; sys.exit('it \\x1b[31mbroke')"
    with (
        Terminal(["-c", failing], {}) as terminal,
        pytest.raises(TerminalError, match=r"ended early.*it broke"),
    ):
        terminal.fact(20)


def test_rounds_go_on_without_end() -> None:
    rounds = rounds_without_end(read_recording(PATH).events)
    taken = [next(rounds) for _ in range(100)]
    assert [round_.number for round_ in taken] == [*range(1, 101)]
    assert all(round_.cut is None for round_ in taken)


def test_a_start_is_timed_and_torch_is_not_there(tmp_path: Path) -> None:
    shown, paint, imported = start_rows(small(tmp_path, helps=2))
    assert shown.value is not None
    assert 0 < shown.value < 60
    assert "median of 2" in shown.note
    assert paint.value is not None
    assert 0 < paint.value < 60
    assert (imported.value, imported.status) == (0, "PASS"), imported.note


def test_loading_is_compared_with_reading(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured_here(request: loading.Request) -> loading.Loading:
        loading.main([json.dumps(asdict(request))])
        return loading.Loading(**json.loads(capsys.readouterr().out))

    monkeypatch.setattr(loading, "measure", measured_here)
    rows = list(load_rows(small(tmp_path, model=model, loads=2)))
    assert [row.name.split()[-1] for row in rows] == ["float32", "bfloat16"]
    for row in rows:
        assert row.value is not None
        assert row.value > 1, "who loads a model reads it"


def test_a_process_that_cannot_load_is_told_with_its_reason() -> None:
    with pytest.raises(RuntimeError, match="there is no model 'nowhere'"):
        loading.measure(loading.Request("nowhere", "float32"))


def test_frames_are_timed_at_every_size(tmp_path: Path) -> None:
    (row,) = frame_rows(small(tmp_path))
    assert row.value is not None
    assert row.value > 0
    assert "at 40, 80 tokens" in row.note


def test_a_long_recording_is_opened_and_gone_through(tmp_path: Path) -> None:
    opens, seek, memory = replay_rows(small(tmp_path, recorded=300, seeks=5))
    assert opens.value is not None and 0 < opens.value < 60
    assert seek.value is not None and 0 < seek.value < 60_000
    assert "5 places" in seek.note
    assert memory.value is not None


def test_the_speed_with_the_app_is_compared_in_pairs(tmp_path: Path, model: str) -> None:
    (row,) = speed_rows(small(tmp_path, model=model))
    assert row.value is not None
    assert row.low is not None
    assert row.high is not None
    assert 0 < row.low <= row.value <= row.high
    assert "2 pairs" in row.note
    assert row.at_least == 0.95


def test_keys_are_timed(tmp_path: Path, model: str) -> None:
    (row,) = key_rows(small(tmp_path, model=model))
    assert row.value is not None
    assert row.value > 0
    assert row.note.startswith("4 presses")


def test_screens_are_left_at_rest(tmp_path: Path, model: str) -> None:
    names = ("live", "settings", "live, 60 columns")
    floor, *rows = rest_rows(small(tmp_path, model=model, screens=names))
    assert floor.status == "REPORT"
    assert [row.name for row in rows] == [f"at rest: {name}" for name in names]
    assert "LiveScreen" in rows[0].note
    assert "SettingsScreen" in rows[1].note


def test_every_screen_has_a_name_of_its_own() -> None:
    assert len(SCREENS) >= 12
    assert [*ROWS] == ["start", "load", "speed", "keys", "frames", "replay", "rest"]


def test_the_table_and_one_line_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "measured.md"
    document.write_text("# Measured\n\n<!-- app: begin -->\n<!-- app: end -->\n\nMore.\n")
    assert main(["--only", "frames", "--write", str(document)], small(tmp_path)) == 0
    table, line = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert "cost of a frame" in table
    assert table.strip() in document.read_text()
    assert json.loads(line)["rows"][0]["at_most"] == 1.2


def test_a_stopped_bench_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def measured(setup: Setup, name: str = "start") -> Iterator[Row]:
        ran.append(name)
        yield Row(name, 1.0, "s")

    def stopped(setup: Setup) -> Iterator[Row]:
        raise KeyboardInterrupt

    options = ["--only", "start", "keys", "--state", str(tmp_path / "state.jsonl")]
    monkeypatch.setitem(ROWS, "start", measured)
    monkeypatch.setitem(ROWS, "keys", stopped)
    assert main(options, small(tmp_path)) == STOPPED
    monkeypatch.setitem(ROWS, "keys", partial(measured, name="keys"))
    assert main([*options, "--json"], small(tmp_path / "elsewhere")) == 0
    assert ran == ["start", "keys"], "where it keeps its files is no part of the setup"
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["start", "keys"]
    assert not (tmp_path / "state.jsonl").exists()
    assert main([*options, "--tokens", "7"], small(tmp_path)) == 0
    assert ran == ["start", "keys"] * 2
