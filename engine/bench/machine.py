"""What numbers of a bench depend on: the machine, its threads, the versions of what computes."""

from __future__ import annotations

import platform
from typing import Any

import psutil
import torch

from engine.bench import peers
from engine.machine import processor_name
from engine.models.devices import fast_bfloat16


def machine_facts() -> dict[str, Any]:
    """By machine-readable name."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": peers.VERSION,
        },
        "processor": processor_name(),
        "fast_bfloat16": fast_bfloat16(),
        "cores": psutil.cpu_count(logical=False),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "threads": torch.get_num_threads(),
    }


def machine_words(facts: dict[str, Any]) -> str:
    """The same on one line, for people."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return f"{facts['processor']}, {facts['threads']} threads, {facts['memory_gb']} GB; {versions}"
