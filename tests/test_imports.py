"""What an import loads, seen in a fresh process; import-linter checks the same rules in the source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[1]
CONTRACTS = {
    contract["id"]: contract
    for contract in tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
}
LIGHT = CONTRACTS["light-half-has-no-torch"]["source_modules"]
HEAVY = {"torch", "transformers", "numpy", "textual", "accelerate", "gguf", "huggingface_hub"}


def loaded_by(*modules: str) -> set[str]:
    """Top-level names in ``sys.modules`` after the imports."""
    code = f"import {', '.join(modules)}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


def test_light_half_is_light() -> None:
    assert loaded_by(*LIGHT) & (HEAVY | {"rich", "tui"}) == set()


@pytest.mark.parametrize("module", ["tui.cli", "engine.session"])
def test_start_up_is_light(module: str) -> None:
    assert loaded_by(module) & HEAVY == set()


def test_help_needs_no_pydantic() -> None:
    """`spec --help` has 0.25 s; pydantic takes more than half of that."""
    assert "pydantic" not in loaded_by("tui.cli")


def test_light_half_is_complete() -> None:
    """Every module that DESIGN calls light is under the contract."""
    assert set(LIGHT) >= {
        f"engine.{name}"
        for name in ("errors", "config", "context", "events", "recording", "stats", "registry", "presets")
    }
