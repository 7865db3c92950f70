"""docs/exactness.md names what is there."""

from __future__ import annotations

import re
from pathlib import Path

from engine.registry import RULES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "exactness.md").read_text("utf-8")


def test_the_files_it_names() -> None:
    named = set(re.findall(r"`((?:tests|engine|docs)/[\w/.]+\.\w+)`", TEXT))
    assert len(named) > 12
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_each_file_of_proofs_is_named() -> None:
    proofs = {path.name for path in (ROOT / "tests" / "proofs").glob("test_*.py")}
    long_versions = {"test_soak_equality.py"}
    assert [name for name in sorted(proofs - long_versions) if f"tests/proofs/{name}" not in TEXT] == []


def test_the_tests_it_names() -> None:
    named = re.findall(r"`(test_\w+)`", TEXT)
    source = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "proofs").glob("*.py"))
    assert named
    assert [name for name in named if f"def {name}(" not in source] == []


def test_each_rule_is_in_the_table() -> None:
    assert [name for name in RULES if f"| `{name}` |" not in TEXT] == []
