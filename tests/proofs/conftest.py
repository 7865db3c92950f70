"""What all proofs run with.

Tensors of three numbers gain nothing from threads, and waiting for each other costs them ten times the work.
Hypothesis tries the same cases every time, and a slow machine is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("proofs", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("proofs")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
