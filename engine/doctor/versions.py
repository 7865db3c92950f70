"""The versions of what the program stands on, and those it is tested with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from engine.doctor.facts import Library

NAMES = (
    *("torch", "transformers", "tokenizers", "safetensors", "numpy", "huggingface_hub", "gguf"),
    *("pydantic", "textual"),
)
"""Libraries whose version can change a text or a speed, and that of the app."""
_PINNED = re.compile(r"^([\w.-]+)==(\S+)$", re.MULTILINE)


def libraries(constraints: Path | None = None) -> tuple[Library, ...]:
    """The libraries of ``NAMES``.

    Args:
        constraints: the file that pins the tested versions (default: that of the source tree, which an
            installed program does not have).
    """
    path = constraints or Path(__file__).parents[2] / "constraints.txt"
    try:
        pinned = dict(_PINNED.findall(path.read_text(encoding="utf-8")))
    except OSError:
        pinned = {}
    return tuple(Library(name, _installed(name), pinned.get(name)) for name in NAMES)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
