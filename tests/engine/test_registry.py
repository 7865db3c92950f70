"""The registry: names, and the classes behind them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.config_tables import DraftConfig
from engine.registry import DRAFTERS, RULES, Entry, load


@pytest.mark.parametrize("entry", [*DRAFTERS.values(), *RULES.values()], ids=lambda entry: entry.target)
def test_entry_loads(entry: Entry) -> None:
    module, name = entry.target.split(":")
    found = load(entry)
    assert (found.__module__, found.__name__) == (module, name)
    assert entry.summary.endswith(".")


def test_the_names() -> None:
    assert {"model": True, "lookup": False}.items() <= {n: e.loads_model for n, e in DRAFTERS.items()}.items()
    assert list(RULES) == ["speculative_sampling", "greedy_match", "block", "match", "seed_exact"]
    assert {name for name, rule in RULES.items() if rule.follows_seed} == {
        *("greedy_match", "match", "seed_exact")
    }


def test_options_are_keys_of_the_draft_table() -> None:
    named = {option for entry in DRAFTERS.values() for option in entry.options}
    assert named <= set(DraftConfig.model_fields)


def test_drafters_that_know_the_text_are_told_it() -> None:
    for entry in DRAFTERS.values():
        assert vars(load(entry)).get("needs_plain_run", False) == entry.knows_text, entry.target


def test_listing_imports_nothing() -> None:
    code = "import sys, engine.registry; sys.exit('engine.drafters' in sys.modules or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_function_is_no_entry() -> None:
    with pytest.raises(AssertionError, match="is not a class"):
        load(Entry("engine.registry:load", loads_model=False, summary="."))
