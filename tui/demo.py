"""Recordings to play, and the one that ships with the program: something to see before any model is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from engine.context import Message, messages_from
from engine.errors import SpeculateError
from engine.recording import Recording, read_recording
from tui.source import ReplayClock, ReplaySource

PATH = Path(__file__).parents[1] / "engine" / "assets" / "demo.jsonl"


@dataclass(frozen=True, slots=True)
class Demo:
    """A recording, ready to be played."""

    source: ReplaySource
    messages: tuple[Message, ...]
    names: tuple[str, str]
    """Target and drafter that made it."""


def load_demo(path: Path = PATH, now: Callable[[], float] = monotonic) -> Demo | None:
    """The shipped recording; None where there is none, or none that can be read: it is no reason not to
    start."""
    if not path.is_file():
        return None
    try:
        return to_play(read_recording(path), path.name, now)
    except SpeculateError:
        return None


def to_play(
    recording: Recording, name: str, now: Callable[[], float] = monotonic, speed: float = 1.0
) -> Demo:
    """A recording, ready to be played from its beginning at so many times its pace.

    Args:
        name: of the file, for messages.
        now: a monotonic clock in seconds.

    Raises:
        ContextError: the messages in its header are none. One without messages is played without them.
    """
    context = recording.header.get("context")
    messages = messages_from(context, name) if context else ()
    clock = ReplayClock(now, speed)
    return Demo(ReplaySource(recording.events, clock), messages, _names(recording.header))


def _names(header: dict[str, Any]) -> tuple[str, str]:
    def name(role: str) -> str:
        model = header.get(role)
        return str(model.get("name", "")) if isinstance(model, dict) else ""

    config = header.get("config")
    draft = config.get("draft") if isinstance(config, dict) else None
    method = str(draft.get("method", "")) if isinstance(draft, dict) else ""
    return name("target") or "recorded target", name("drafter") or method or "recorded drafter"
