"""The bench as a harness: what it runs, in which order, and how it judges. No time is asserted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.bench import memory, peers
from engine.bench.__main__ import main
from engine.bench.arms import Arm
from engine.bench.clock import CommitClock, Timed
from engine.bench.lab import DTYPES, Setup
from engine.bench.prompts import Prompt
from engine.bench.report import Row, fenced, json_line, table, written_into
from engine.bench.rows import ROWS
from engine.bench.timing import fastest, interleave, median_ratio
from engine.context import Message

SHORT_PROMPTS = tuple(Prompt(text, (Message("user", text),)) for text in ("one two one two", "a knight"))

LIMITS = {
    "float32": [(1.3, None), (None, None), (2.0, None), (1.5, None), (None, 5), (1.5, None), (None, 5)],
    "bfloat16": [(1.3, None), (0.5, None), (2.5, None), (1.5, None), (None, 5), (1.5, None), (None, 5)],
}
"""Plain decoding over generate and over memory; lookup over plain, over transformers' lookup, its host; the
drafter over assisted generation, its host."""

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def setup(target: str) -> Setup:
    return Setup(
        target=target,
        layers=(0, 2),
        copy=SHORT_PROMPTS,
        chat=SHORT_PROMPTS,
        tuning_copy=SHORT_PROMPTS[:1],
        tuning_chat=SHORT_PROMPTS[:1],
        chat_tokens=8,
        copy_tokens=8,
        tuning_tokens=8,
        memory_tokens=8,
        lookup_ks=(1, 3),
        drafter_ks=(1, 2),
    )


# -- judging


@pytest.mark.parametrize(
    ("limits", "value", "status"),
    [
        ({"at_least": 1.0}, 1.0, "PASS"),
        ({"at_least": 1.0}, 0.999, "SHORT"),
        ({"at_most": 700.0}, 700.0, "PASS"),
        ({"at_most": 700.0}, 700.5, "SHORT"),
        ({"at_least": 1.0, "at_most": 2.0}, 2.5, "SHORT"),
        ({"at_least": 1.0, "at_most": 2.0}, 1.5, "PASS"),
        ({}, 0.5, "REPORT"),
        ({"at_least": 1.0}, None, "REPORT"),
    ],
)
def test_pass_and_short(limits: dict[str, Any], value: float | None, status: str) -> None:
    assert Row("measure", value, "x", **limits).status == status


def test_the_median_decides_and_its_interval_is_around_it() -> None:
    estimate = median_ratio([1.0, 5.0, 1.2, 1.1, 0.9])
    assert estimate.value == 1.1
    assert 0.9 <= estimate.low <= 1.1 <= estimate.high <= 5.0
    assert estimate.low < estimate.high
    assert median_ratio([1.0, 5.0, 1.2, 1.1, 0.9]) == estimate, "the same numbers, the same interval"
    assert median_ratio([2.0]).low == median_ratio([2.0]).high == 2.0


def test_table_and_json() -> None:
    rows = [
        Row("plain", 1.254, "x", at_least=1.0, low=1.2, high=1.31, note="all identical"),
        Row("memory", 640.4, "MB", at_most=600),
        Row("host share", 3.21, "%"),
        Row("memory elsewhere", None, "MB", note="no /proc here"),
    ]
    lines = table(rows).splitlines()
    assert len(lines) == 5
    assert len({line.index("measured") for line in lines[:1]} | {lines[1].index("1.25 x")}) == 1
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == [
        "all identical", "SHORT", "REPORT", "no /proc here",
    ]  # fmt: skip
    assert ">= 1.00 x" in lines[1] and "1.20 x .. 1.31 x" in lines[1] and "PASS" in lines[1]
    assert "<= 600 MB" in lines[2] and "640 MB" in lines[2]
    assert "not known" in lines[4]
    line = json_line(rows, {"threads": 2})
    assert "\n" not in line
    told = json.loads(line)
    assert told["threads"] == 2
    assert [row["status"] for row in told["rows"]] == ["PASS", "SHORT", "REPORT", "REPORT"]
    assert told["rows"][0]["value"] == 1.254
    with pytest.raises(ValueError, match="JSON"):
        json_line([Row("broken", float("nan"), "x")], {})


def test_the_block_of_a_document() -> None:
    begin, end = "<!-- app: begin -->", "<!-- app: end -->"
    document = f"# Measured\n\n{begin}\nold\n{end}\n\nMore.\n"
    text = written_into(document, fenced("new\n"), "app")
    assert text == f"# Measured\n\n{begin}\n```\nnew\n```\n{end}\n\nMore.\n"
    assert written_into(text, fenced("new"), "app") == text
    with pytest.raises(AssertionError, match="marks"):
        written_into(document, "new")


# -- timing


def test_the_first_commit_starts_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([5_000_000_000, 5_010_000_000, 5_050_000_000])
    monkeypatch.setattr("engine.bench.clock.time.perf_counter_ns", lambda: next(times))
    clock = CommitClock()
    clock.commit(4)
    with pytest.raises(AssertionError, match="two commits"):
        _ = clock.ms_per_token
    clock.commit(1)
    assert clock.ms_per_token == 10.0
    clock.commit(3)
    assert clock.ms_per_token == 12.5


def logged(name: str, log: list[str], ms: Sequence[float] = (1.0,)) -> Arm:
    """An arm that writes its name down and tells times in turn."""
    calls: list[float] = []

    def decode(prompt: Sequence[int], tokens: int) -> Timed:
        log.append(f"{name}{prompt[0]}" if tokens == 9 else f"warm {name}")
        calls.append(0)
        return Timed((7,) * tokens, ms[(len(calls) - 2) % len(ms)])

    return Arm(name, decode)


def test_there_and_back() -> None:
    log: list[str] = []
    blocks = interleave([logged("a", log, [1.0, 3.0]), logged("b", log, [8.0])], [[1], [2]], 9, repeats=2)
    assert log == ["warm a", "warm b", *["a1", "b1", "b1", "a1", "a2", "b2", "b2", "a2"] * 2]
    assert [block.prompt for block in blocks] == [(1,), (2,)] * 2
    assert blocks[0].ms("a") == 2.0
    assert blocks[0].ratio("a", "b") == 4.0, "a is four times as fast"
    log.clear()
    interleave([logged(name, log) for name in "abc"], [[1]], 9)
    assert log[3:] == ["a1", "b1", "c1", "c1", "b1", "a1"]


def test_the_first_and_the_last_run_of_an_arm_are_a_pair() -> None:
    log: list[str] = []
    (block,) = interleave([logged("a", log, [1.0, 2.0]), logged("b", log, [3.0, 4.0])], [[1]], 9)
    assert [timed.ms_per_token for timed in block.timed["a"]] == [1.0, 2.0]
    assert [timed.ms_per_token for timed in block.timed["b"]] == [3.0, 4.0]


def test_the_fastest_k() -> None:
    ms = {1: 5.0, 2: 3.0, 4: 4.0}
    assert fastest(lambda k: logged("", [], [ms[k]]), list(ms), [[1], [2]], 9) == 2


# -- the whole


def test_everything_but_memory(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "plain", "lookup", "drafter"], setup) == 0
    captured = capsys.readouterr()
    *lines, last = captured.out.splitlines()
    told = json.loads(last)
    names = [row["name"] for row in told["rows"]]
    assert len(names) == len(set(names)) == 7 * len(DTYPES)
    assert all(sum(name in line for line in lines) == 1 for name in names)
    for row in told["rows"]:
        assert row["value"] > 0
        if row["unit"] == "x":
            assert row["low"] <= row["value"] <= row["high"]
        if row["unit"] == "x" and "float32" in row["name"] and "bandwidth" not in row["name"]:
            assert "2 of 2 texts identical" in row["note"]
        assert (row["k"] is None) == row["name"].startswith("plain"), "the K that was chosen"
    assert told["threads"] == 1
    assert told["versions"]["transformers"] == peers.VERSION
    assert {"processor", "load_average_before", "load_average_after", "seconds"} <= set(told)
    for dtype, limits in LIMITS.items():
        ours = [row for row in told["rows"] if row["name"].endswith(dtype)]
        assert [(row["at_least"], row["at_most"]) for row in ours] == limits
    progress = captured.err.splitlines()
    assert sum(line.startswith("[") for line in progress) == 3 * len(DTYPES)
    assert all(any(name in line for line in progress) for name in names), "each row as it comes"


def test_json_only(setup: Setup, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = tmp_path / "measured.md"
    document.write_text("<!-- measured: begin -->\n<!-- measured: end -->\n")
    assert main(["--only", "plain-float32", "--json", "--repeats", "2", "--write", str(document)], setup) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert [row["name"] for row in told["rows"]] == [
        "plain decoding / transformers generate, float32",
        "plain decoding / limit of memory bandwidth, float32",
    ]
    assert told["repeats"] == 2
    assert "4 of 4 texts identical" in told["rows"][0]["note"]
    assert "plain decoding / transformers generate, float32" in document.read_text()


def test_unknown_measure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--only", "everything"])
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert all(name in told for name in ROWS)


def test_memory_of_a_session(setup: Setup) -> None:
    """One fresh process; a tiny model is far below what the program itself takes."""
    files = sum(file.stat().st_size for file in Path(setup.target).glob("*.safetensors"))
    request = memory.Request(
        config={
            "draft": {"method": "lookup"},
            "verify": {"model_name": setup.target},
            "run": {"device": "cpu", "dtype": "float32", "max_new_tokens": 8, "ignore_eos": True},
        },
        messages=[{"role": "user", "content": "one two"}],
    )
    if not memory.can_measure():
        with pytest.raises(RuntimeError, match="/proc"):
            memory.measure(request)
        return
    found = memory.measure(request)
    assert found.files == files
    assert 0 < found.weights < files
    assert found.caches > 0
    assert 0 < found.load_peak < 100e6
    assert 0 < found.steady < 100e6


def test_a_measured_process_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = shutil.which("false")
    assert failing is not None
    monkeypatch.setattr("engine.bench.memory.sys.executable", failing)
    monkeypatch.setattr("engine.bench.memory.can_measure", lambda: True)
    with pytest.raises(RuntimeError, match="the measured process failed"):
        memory.measure(memory.Request({}, []))
