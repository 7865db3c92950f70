"""A bench that is stopped and gone on with: what is kept, for whom, and when it is not used."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import engine
from engine.bench.__main__ import main
from engine.bench.jobs import STOPPED, Job, run_jobs, time_left
from engine.bench.lab import Lab, Measure, Setup
from engine.bench.report import Row
from engine.bench.rows import ROWS
from engine.bench.state import Done, State, code_hash, default_path, key_of
from engine.errors import UserError

NAMES = ("a", "b", "c")


def row(name: str) -> Row:
    return Row(name, 1.5, "x", at_least=1.0, note="as it was", k=3, points=({"context": 128.0, "step": 2.0},))


class Bench:
    """Three measures that count how often they run; one of them may be interrupted."""

    def __init__(self, stop_at: str = "") -> None:
        self.ran: list[str] = []
        self.told: list[str] = []
        self._stop_at = stop_at

    def _rows(self, name: str) -> Iterator[Row]:
        self.ran.append(name)
        yield row(f"{name}, first")
        if name == self._stop_at:
            raise KeyboardInterrupt
        yield row(f"{name}, second")

    def run(self, state: State) -> list[Done]:
        jobs = [Job(name, 10.0, partial(self._rows, name)) for name in NAMES]
        return run_jobs(jobs, state, self.told.append)


def test_a_stopped_run_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.jsonl"
    first = Bench(stop_at="b")
    with pytest.raises(KeyboardInterrupt):
        first.run(State(path, "key", NAMES))
    assert first.ran == ["a", "b"]
    assert "1 of 3 measures are kept" in first.told[-1]
    second = Bench()
    done = second.run(State(path, "key", NAMES))
    assert second.ran == ["b", "c"], "what was half done is done again, from its start"
    assert [each.measure for each in done] == [*NAMES]
    assert done[0].rows == (row("a, first"), row("a, second")), "points, K and all"
    assert "1 of 3 measures were finished by a run" in second.told[0]
    third = Bench()
    assert third.run(State(path, "key", NAMES)) == done
    assert third.ran == []


@pytest.mark.parametrize("cut", [1, 30])
def test_a_line_that_a_kill_cut_off_is_not_used(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Bench().run(State(path, "key", NAMES))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Bench()
    again.run(State(path, "key", NAMES))
    assert again.ran == ([] if cut == 1 else ["c"]), "a line that lacks only its end is whole"
    assert len(State(path, "key", NAMES).finished) == 3


def test_other_code_or_setup_measures_anew_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Bench().run(State(path, "old", NAMES))
    newer = Bench()
    newer.run(State(path, "new", NAMES))
    assert newer.ran == [*NAMES]
    assert "3 measures with other code" in newer.told[0]


def test_two_benches_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    Bench().run(State(path, "one", NAMES))
    other = State(path, "two", ["d"])
    assert (other.finished, other.outdated) == ({}, 0)
    other.add(Done("d", (row("d"),), 1.0, "now"))
    assert State(path, "one", NAMES).finished.keys() == set(NAMES)
    other.drop()
    assert not path.exists()


def test_without_a_file_nothing_is_kept() -> None:
    bench = Bench(stop_at="b")
    with pytest.raises(KeyboardInterrupt):
        bench.run(State(None, "key", NAMES))
    assert "kept" not in bench.told[-1]


def test_the_key_knows_code_and_setup(tmp_path: Path) -> None:
    package = types.ModuleType("package")
    package.__file__ = str(tmp_path / "__init__.py")
    source = tmp_path / "inner" / "module.py"
    source.parent.mkdir()
    source.write_text("a = 1")
    before = code_hash(package)
    assert code_hash(package) == before
    source.write_text("a = 2")
    changed = code_hash(package)
    source.rename(source.with_name("other.py"))
    assert len({before, changed, code_hash(package), code_hash(engine)}) == 4
    keys = {key_of({"setup": Setup(repeats=n), "code": code}) for n in (1, 2) for code in (before, changed)}
    assert len(keys) == 4
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


def test_the_time_left_goes_by_what_was_taken() -> None:
    jobs = [Job(name, seconds, list) for name, seconds in (("a", 10), ("b", 20), ("c", 200))]
    assert time_left(jobs, []) == "about 4 min left"
    assert time_left(jobs, [Done("a", (), 5.0, "")]) == "about 2 min left"
    assert time_left(jobs, [Done("a", (), 5.0, ""), Done("c", (), 100.0, "")]) == "about 10 s left"


# -- as a command


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bench's measures replaced by two that cost nothing; which of them ran."""
    ran: list[str] = []

    def measure(name: str) -> Measure:
        def rows(lab: Lab) -> Iterator[Row]:
            ran.append(f"{name}-{lab.dtype}")
            yield Row(f"{name}, {lab.dtype}", 1.0, "x")

        return Measure(rows, 1.0)

    for name in [*ROWS]:
        monkeypatch.delitem(ROWS, name)
    for name in ("one", "two"):
        monkeypatch.setitem(ROWS, name, measure(name))
    return ran


EVERY = ["one-float32", "two-float32", "one-bfloat16", "two-bfloat16"]


@pytest.mark.usefixtures("own_cache")
def test_a_finished_run_is_over(counted: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert counted == EVERY
    assert not default_path("engine").exists()
    assert main(["--keep"]) == 0
    assert counted == 2 * EVERY, "nothing of a finished run is used again"
    first = capsys.readouterr().out.splitlines()[-1]
    assert main(["--keep"]) == 0
    assert counted == 2 * EVERY, "kept for the bench that shares the file"
    told = capsys.readouterr()
    assert "4 of 4 measures were finished" in told.err
    assert first.partition('"rows"')[2] == told.out.splitlines()[-1].partition('"rows"')[2]
    assert main(["--repeats", "2", "--keep"]) == 0
    assert counted == 3 * EVERY
    assert main(["--fresh"]) == 0
    assert counted == 4 * EVERY


@pytest.mark.usefixtures("own_cache")
def test_chosen_measures_are_kept_where_told(counted: list[str], tmp_path: Path) -> None:
    assert main(["--only", "one", "--keep"]) == 0
    assert not default_path("engine").exists()
    state = ["--state", str(tmp_path / "state.jsonl"), "--keep"]
    assert main(["--only", "one-float32", *state]) == 0
    assert main(["--only", "one-float32", *state]) == 0
    assert counted == ["one-float32", "one-bfloat16", "one-float32"]


@pytest.mark.usefixtures("own_cache")
def test_ctrl_c(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(lab: Lab) -> Iterator[Row]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(ROWS, "two", Measure(stop, 1.0))
        assert main([]) == STOPPED
    assert main([]) == 0
    assert counted == ["one-float32", "two-float32", "one-bfloat16", "two-bfloat16"]


KILLED = """\
import os, pathlib, sys
from engine.bench.report import Row
from engine.bench.state import Done, State
from engine.errors import UserError
state = State(pathlib.Path(sys.argv[1]), "key", ["a", "b"])
state.add(Done("a", (Row("a", 1.0, "x"),), 1.0, "now"))
os.kill(os.getpid(), 9)
"""


def test_a_killed_process_keeps_what_it_finished(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=root, check=False, timeout=60)
    assert done.returncode == -9
    assert State(path, "key", ["a", "b"]).finished.keys() == {"a"}


@pytest.mark.parametrize(
    "content", ["notes of mine\n", '{"type": "header"}\n', '{"key": "k", "measure": "a"}\nmine\n', "[1]\n"]
)
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    """At its end a bench removes its file."""
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=r"notes\.txt: holds something else than a stopped bench"):
        State(path, "key", NAMES)
    assert path.read_text() == content
    with pytest.raises(UserError, match="is no regular file"):
        State(tmp_path, "key", NAMES)
