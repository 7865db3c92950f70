"""What is read of a machine: a container's limits, cores, memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.machine import Others, _seconds, core_quota, memory_limit, processor_name, read_machine


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def membership(folder: Path, text: str) -> Path:
    written(folder / "cgroup", text)
    return folder / "cgroup"


def test_no_limits_where_there_are_no_groups(tmp_path: Path) -> None:
    assert core_quota(tmp_path / "none", tmp_path / "nothing") is None
    assert memory_limit(tmp_path / "none", tmp_path / "nothing") is None


def test_the_second_version_on_every_level(tmp_path: Path) -> None:
    own = membership(tmp_path, "0::/outer/inner\n")
    root = tmp_path / "root"
    written(root / "outer" / "inner" / "cpu.max", "max 100000\n")
    written(root / "outer" / "cpu.max", "250000 100000\n")
    written(root / "outer" / "inner" / "memory.max", "max\n")
    written(root / "outer" / "memory.max", "2000000000\n")
    assert core_quota(root, own) == 2.5
    assert memory_limit(root, own) == 2_000_000_000
    written(root / "outer" / "inner" / "cpu.max", "50000 100000\n")
    assert core_quota(root, own) == 0.5


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
def test_the_first_version(tmp_path: Path, controllers: str) -> None:
    own = membership(tmp_path, f"4:memory:/box\n3:{controllers}:/box\n")
    root = tmp_path / "root"
    written(root / "cpu" / "box" / "cpu.cfs_quota_us", "150000\n")
    written(root / "cpu" / "box" / "cpu.cfs_period_us", "100000\n")
    written(root / "memory" / "box" / "memory.limit_in_bytes", "1000000000\n")
    written(root / "memory" / "memory.limit_in_bytes", "9223372036854771712\n")
    assert core_quota(root, own) == 1.5
    assert memory_limit(root, own) == 1_000_000_000
    written(root / "cpu" / "box" / "cpu.cfs_quota_us", "-1\n")
    assert core_quota(root, own) is None
    (root / "memory" / "box" / "memory.limit_in_bytes").unlink()
    assert memory_limit(root, own) is None


def test_damaged_files_are_no_limits(tmp_path: Path) -> None:
    own = membership(tmp_path, "0::/\n")
    written(tmp_path / "root" / "cpu.max", "many 0\n")
    (tmp_path / "root" / "memory.max").write_bytes(b"\xff\xfe")
    assert core_quota(tmp_path / "root", own) is None
    assert memory_limit(tmp_path / "root", own) is None


def test_what_others_use_is_what_is_busy_but_for_ourselves(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([(100.0, 900.0, 50.0), (104.0, 904.0, 51.0), (104.0, 904.0, 51.0), (104.0, 905.0, 53.0)])
    monkeypatch.setattr("engine.machine._seconds", lambda: next(seconds))
    assert Others().share() == pytest.approx(3 / 8)  # 4 s busy, 1 s of them ours, 4 s idle
    assert Others().share() == 0  # clocks of different steps must not make less than nothing


def test_our_own_work_is_not_of_others() -> None:
    others, end = Others(), time.process_time() + 0.3
    while time.process_time() < end:
        pass
    busy, idle, own = (now - then for now, then in zip(_seconds(), others._before, strict=True))
    assert own >= 0.25
    assert others.share() <= (busy - 0.2) / (busy + idle)


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    machine = read_machine(0.01)
    assert machine.processor == processor_name() != ""
    assert 1 <= machine.allowed_cores <= machine.logical_cores
    assert 1 <= machine.useful_threads <= machine.allowed_cores
    assert 0 < machine.memory_free <= machine.memory_total
    assert 0 <= machine.busy <= 1
    assert machine.thread_variables == (("OMP_NUM_THREADS", "3"),)
