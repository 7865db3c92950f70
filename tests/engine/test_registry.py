"""The registry: names, and the classes behind them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.registry import DRAFTERS, RULES, Entry, load


@pytest.mark.parametrize("entry", [*DRAFTERS.values(), *RULES.values()], ids=lambda entry: entry.target)
def test_entry_loads(entry: Entry) -> None:
    module, name = entry.target.split(":")
    found = load(entry)
    assert (found.__module__, found.__name__) == (module, name)
    assert entry.summary.endswith(".")


def test_only_the_model_drafter_loads_a_model() -> None:
    assert {name: entry.loads_model for name, entry in DRAFTERS.items()} == {"model": True, "lookup": False}
    assert list(RULES) == ["speculative_sampling", "greedy_match"]


def test_listing_imports_nothing() -> None:
    code = "import sys, engine.registry; sys.exit('engine.drafters' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_function_is_no_entry() -> None:
    with pytest.raises(AssertionError, match="is not a class"):
        load(Entry("engine.registry:load", loads_model=False, summary="."))
