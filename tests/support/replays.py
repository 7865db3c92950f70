"""Recordings for tests of what plays, lists and compares them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.scripted import SEED, TARGET, make_round
from support.story import finished, settings, started

from engine.config import parse_config
from engine.context import Message
from engine.events import Event, LoadFinished, PrefillFinished, SegmentStarted
from engine.recording import Recorder

HEADER: dict[str, Any] = {
    "machine": {"processor": "Test CPU", "threads": 2, "device": "cpu", "dtype": "float32"},
    "target": {"name": "scripted:target"},
    "drafter": None,
    "seed": SEED,
    "context": [{"role": "user", "content": "Who is there?"}],
}
STEP_NS = 50_000_000


def config_of(**draft: Any) -> dict[str, Any]:
    """A configuration as a header holds it."""
    text = '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n'
    config = parse_config(text, "test").model_dump(mode="json")
    config["draft"].update(draft)
    return config


def one_run(rounds: int, *, number: int = 1, question: str = "Who is there?") -> list[Event]:
    """A run whose round n drafts 3 tokens of which n % 4 are accepted."""
    begun = dataclasses.replace(started(number), messages=(Message("user", question),))
    return [
        begun,
        SegmentStarted(0, 0, 1, settings()),
        PrefillFinished(0, 0, 10.0),
        *(make_round(at, 3, at % 4) for at in range(1, rounds + 1)),
        finished(rounds),
    ]


def timed(events: Sequence[Event]) -> list[Event]:
    """Events one after the other."""
    return [dataclasses.replace(event, seq=at, t_ns=at * STEP_NS) for at, event in enumerate(events, 1)]


def record(path: Path, events: Sequence[Event], header: dict[str, Any] | None = None) -> Path:
    """Write a recording."""
    recorder = Recorder(path)
    recorder.write_header(HEADER if header is None else header)
    for event in events:
        recorder.write(event)
    recorder.close()
    return path


def recording(path: Path, rounds: int = 12, header: dict[str, Any] | None = None) -> Path:
    """Write one of one run."""
    return record(path, timed([LoadFinished(0, 0, "target", TARGET, 1.0), *one_run(rounds)]), header)
