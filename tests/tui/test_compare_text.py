"""The statistics of two runs as text."""

from __future__ import annotations

import pytest
from support.recordings import answer

from tui.compare import NAMES, Comparison, compare_runs
from tui.compare_text import (
    LABELS,
    difference_text,
    measure_rows,
    ratio_text,
    setting_rows,
    value_text,
    verdict,
)
from tui.export.report import build_report


def compared(first: list[bytes], second: list[bytes]) -> Comparison:
    (one,), (other,) = (build_report({}, answer(pieces)).runs for pieces in (first, second))
    return compare_runs(one, other)


def test_every_measure_has_a_row() -> None:
    assert set(LABELS) == set(NAMES)
    rows = measure_rows(compared([b"a", b"b"], [b"a", b"b", b"c", b"d"]))
    assert [row[0] for row in rows] == [*LABELS.values()]
    assert ("tokens", "2", "4", "+2", "2.00x") in rows


def test_the_verdict_counts_from_one() -> None:
    assert verdict(compared([b"a", b"b"], [b"a", b"b"])) == "the same 2 tokens"
    assert verdict(compared([b"a", b"b"], [b"a", b"x"])) == "they part at token 2"
    assert verdict(compared([b"a"], [b"a", b"x"])) == "they part at token 2"
    assert setting_rows(compared([b"a"], [b"a"])) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "--"),
        (True, "yes"),
        (False, "no"),
        (0.5, "0.5"),
        (12.3456, "12.3"),
        (1234.5, "1,234"),
        (7, "7"),
        ("greedy", "greedy"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("first", "second", "difference", "ratio"),
    [
        (1, 3, "+2", "3.00x"),
        (2.0, 1.5, "-0.5", "0.75x"),
        (5, 5, "0", "1.00x"),
        (0, 5, "+5", ""),
        (None, 5, "", ""),
        (5, None, "", ""),
        (True, False, "", ""),
        ("a", "b", "", ""),
    ],
)
def test_differences(first: object, second: object, difference: str, ratio: str) -> None:
    assert difference_text(first, second) == difference
    assert ratio_text(first, second) == ratio
