"""Hypothesis tries the same cases every time, a slow machine is no failure, models have what they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("engine", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("engine")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Sums come out the same whatever else runs: torch computes in one thread."""
    import torch  # not where no test of a process needs it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are converted into the test's own folder."""
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "cache"))
