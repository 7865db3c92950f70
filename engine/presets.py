"""The presets that ship with the program: a configuration and a context each."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "assets" / "presets"

PRESETS: dict[str, str] = {
    "builtin": "SmolLM2-135M with prompt lookup on a code edit: small, and needs no model hub.",
    "qwen3": "Qwen3-0.6B drafts for Qwen3-8B on a story: the pair of the original project.",
}
"""Name of each preset and what it is, in one sentence."""


def is_preset(source: str) -> bool:
    """Whether the word means a preset: it is the name of one and no file has that name."""
    return source in PRESETS and (Path(source).is_dir() or not os.path.lexists(source))


def config_text(name: str) -> str:
    """The TOML of a preset. Raises KeyError for a name that is none."""
    return _asset(name, ".toml")


def context_text(name: str) -> str:
    """The JSON context of a preset. Raises KeyError for a name that is none."""
    return _asset(name, ".json")


def _asset(name: str, suffix: str) -> str:
    if name not in PRESETS:
        raise KeyError(name)
    return (_FOLDER / (name + suffix)).read_text(encoding="utf-8")
