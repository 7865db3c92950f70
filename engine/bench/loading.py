"""How long a model takes to load in a fresh process, against reading the bytes of its files.

``python -m engine.bench.loading REQUEST`` is that process; it prints what it measured as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from engine.bench.process import run_alone


@dataclass(frozen=True, slots=True)
class Request:
    """What to load."""

    model: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Loading:
    """Seconds, with the files in the system's cache and everything imported that a session imports first."""

    load: float
    """Of ``load_model``: found, checked, tokenizer, weights."""
    read: float
    """Of the bytes of its weight files, into memory that was just allocated: mean of before and after."""

    @property
    def ratio(self) -> float:
        return self.load / self.read


def measure(request: Request) -> Loading:
    """Load a model in a process of its own. Raises RuntimeError if that fails."""
    return Loading(**run_alone("engine.bench.loading", request))


def _child(request: Request) -> Loading:
    from engine.models.load import describe, load_model

    files = describe(request.model).folder.files
    import engine.pair  # noqa: F401  # what a session imports before it loads

    _read(files)
    before = _read(files)
    start = time.perf_counter()
    model = load_model(request.model, device="cpu", dtype=request.dtype)
    load = time.perf_counter() - start
    del model
    return Loading(load, fmean((before, _read(files))))


def _read(files: Iterable[Path]) -> float:
    """Seconds for all bytes."""
    import torch

    start = time.perf_counter()
    for path in files:
        target = memoryview(torch.empty(path.stat().st_size, dtype=torch.uint8).numpy().data)
        with path.open("rb", buffering=0) as file:
            while target and (count := file.readinto(target)):
                target = target[count:]
    return time.perf_counter() - start


def main(argv: Sequence[str]) -> None:
    """The measured process."""
    sys.stdout.write(json.dumps(asdict(_child(Request(**json.loads(argv[0]))))))


if __name__ == "__main__":
    main(sys.argv[1:])
