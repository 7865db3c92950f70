"""Recordings as they should not be."""

from __future__ import annotations

import json
import random
from typing import Any

NUMBERS = (0, -1, 1, 2, 3.5, -0.0, 1e-300, 1e300, 2**31, 2**63, 2**64, -(2**70), 10**30, 0.1)
TEXTS = (
    "",
    "accepted",
    "ignored",
    "eos",
    "\x1b[2J",
    "\ud800",
    "\u202e",
    "a" * 300,
    "<b>",
    "speculative_sampling",
)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes cut out, lines dropped, doubled or exchanged."""
    data = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        kind = chance.randrange(5)
        if kind == 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data = data[: chance.randrange(1, len(data))] or data
        elif kind == 2:
            start = chance.randrange(len(data))
            del data[start : start + chance.randrange(1, 400)]
        else:
            lines = data.split(b"\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            if kind == 3:
                lines[one], lines[other] = lines[other], lines[one]
            else:
                lines.insert(one, lines[other])
            data = bytearray(b"\n".join(lines))
        if not data:
            data = bytearray(b"\n")
    return bytes(data)


def forged(content: bytes, chance: random.Random) -> bytes:
    """Whole JSON of the right shape with values that make no sense."""
    lines = [json.loads(line) for line in content.splitlines()]
    for _ in range(chance.randrange(1, 8)):
        _forge(chance.choice(lines), chance)
    if chance.random() < 0.3:
        chance.shuffle(lines)
    if chance.random() < 0.3:
        lines += lines[chance.randrange(len(lines)) :]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _forge(value: Any, chance: random.Random) -> None:
    """Change one value, somewhere within."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.85:
            value = inner
            continue
        break
    if isinstance(inner, bool) or inner is None:
        value[key] = chance.choice([True, False, None])
    elif isinstance(inner, int):
        value[key] = int(chance.choice(NUMBERS))
    elif isinstance(inner, float):
        value[key] = float(chance.choice(NUMBERS))
    elif isinstance(inner, str):
        value[key] = chance.choice(TEXTS)
    elif isinstance(inner, list):
        value[key] = inner[: chance.randrange(len(inner) + 1)] if chance.random() < 0.5 else inner * 2
    elif isinstance(value, dict):
        del value[key]
