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


MOST_FOR_HELP = 75
"""Modules that `spec --help` imports; 61 of them now, in 0.02 s. It has 0.25 s, of which pydantic alone takes
more than half."""


def test_help_needs_few_modules_and_only_pythons_own() -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); before = {*sys.modules}; from tui.cli import main; "
        "code = main(['--help']); print(*{*sys.modules} - before, file=sys.stderr); sys.exit(code)"
    )
    # Without the packages that are installed: an import of one would fail.
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert "usage: spec" in done.stdout
    assert "tui.cli" in done.stderr.split()
    assert len(done.stderr.split()) <= MOST_FOR_HELP


def test_light_half_is_complete() -> None:
    """Every module that DESIGN calls light is under the contract."""
    assert set(LIGHT) >= {
        f"engine.{name}"
        for name in ("errors", "config", "context", "events", "recording", "stats", "registry", "presets")
    }
