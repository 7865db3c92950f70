"""Measures that need a fresh process: a module of the bench run by itself, JSON in and out."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_TIMEOUT_S = 300


def run_alone(module: str, request: DataclassInstance) -> dict[str, Any]:
    """What ``python -m module REQUEST`` prints. Raises RuntimeError if that fails."""
    command = [sys.executable, "-m", module, json.dumps(asdict(request))]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
