"""The manual's table of keys."""

from __future__ import annotations

from pathlib import Path

from tui.key_table import TITLES, key_table
from tui.keys import OWNERS, known_ids

MANUAL = Path(__file__).parents[2] / "docs" / "app.md"


def test_the_manual_has_today_s_keys() -> None:
    assert key_table().strip() in MANUAL.read_text("utf-8"), "make screenshots writes them"


def test_every_id_is_listed_in_a_place_that_has_a_name() -> None:
    table = key_table()
    assert not [id_ for id_ in known_ids() if f"`{id_}`" not in table]
    assert {owner.__name__ for owner in OWNERS} <= TITLES.keys()
