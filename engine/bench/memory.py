"""Memory of a whole session, in a fresh process, above what torch and transformers take by themselves.

``python -m engine.bench.memory REQUEST`` is that process; it prints what it measured as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.bench.process import run_alone

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Request:
    """What to load and to run."""

    config: dict[str, Any]
    """A configuration, as TOML has it."""
    messages: list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, above those of the process with torch, transformers and the model's code there imported."""

    load_peak: int
    steady: int
    """After an answer and its baseline."""
    weights: int
    caches: int
    files: int
    """Size of the weight files."""


def can_measure() -> bool:
    """Whether this system tells a process its memory."""
    return _STATUS.is_file()


def measure(request: Request) -> Memory:
    """Run a session in a process of its own.

    Raises:
        RuntimeError: the process failed, or this system cannot measure.
    """
    if not can_measure():
        raise RuntimeError(f"this system has no {_STATUS}")
    return Memory(**run_alone("engine.bench.memory", request))


def _child(request: Request) -> Memory:
    from engine.bench import peers
    from engine.config import Config
    from engine.models.load import describe

    config = Config.model_validate(request.config)
    peers.import_all(describe(config.verify.model_name).folder.path)
    before = _resident("VmRSS")
    from engine.context import Message
    from engine.session import Session

    session = Session(config)
    session.load()
    load_peak = _resident("VmHWM") - before
    for _ in session.generate([Message(**message) for message in request.messages]):
        pass
    for _ in session.baseline():
        pass
    steady = _resident("VmRSS") - before
    names = {config.verify.model_name, config.draft.model_name} - {None}
    models = filter(None, (session.pair.target.info, session.pair.drafter.model_info))
    return Memory(
        load_peak=load_peak,
        steady=steady,
        weights=sum({info.name: info.weight_bytes for info in models}.values()),
        caches=_cache_bytes(),
        files=sum(file.stat().st_size for name in names if name for file in describe(name).folder.files),
    )


def _cache_bytes() -> int:
    """Of every cache that is alive, the drafter's too."""
    from engine.kv_cache import KVCache

    return sum(cache.nbytes for cache in gc.get_objects() if isinstance(cache, KVCache))


def _resident(entry: str) -> int:
    """A size from the process's status, in bytes."""
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == entry:
            return int(rest.removesuffix("kB")) * 1024
    raise LookupError(entry)


def main(argv: Sequence[str]) -> None:
    """The measured process."""
    sys.stdout.write(json.dumps(asdict(_child(Request(**json.loads(argv[0]))))))


if __name__ == "__main__":
    main(sys.argv[1:])
