"""Reading memory in the place of decoding: an arm that no decoding can beat."""

from __future__ import annotations

from engine.bench.arms import Arm
from engine.bench.clock import Timed
from engine.memory_bandwidth import MemoryReader


def reading(reader: MemoryReader, size: int) -> Arm:
    """Reading ``size`` bytes in the place of a token: an arm whose milliseconds a token are the limit."""
    return Arm("memory", lambda _prompt, _tokens: Timed((), reader.read_ms() * size / reader.size))
