"""Whether a run wrote the text of plain decoding, and what a difference is."""

from __future__ import annotations

from typing import Any

import pytest
from support.nasty import OBEYED
from support.panes import NASTY_PIECES

from engine.events import BaselineFinished, Divergence
from tui.same_text import divergence_dict, divergence_of, same_text


def divergence(gap: float | None = 0.03, change: float | None = 0.12, piece: bytes = b" the") -> Divergence:
    return Divergence(40, 7, piece, 8, b" a", gap, change)


def baseline(identical: bool | None, **values: Any) -> BaselineFinished:
    first = 40 if identical is False else None
    return BaselineFinished(0, 0, 60, (), 1.0, 1.0, identical, first, True, **values)


WIDTHS = "passes of different width differ by 0.12 there"
WHERE = 'token 41 is the first that differs: "·the" for "·a"'


@pytest.mark.parametrize(
    ("gap", "change", "words", "verdict"),
    [
        (
            *(0.03, 0.12),
            f"no, {WHERE}; numerical tie: they were 0.03 apart, and {WIDTHS}",
            "numerical tie",
        ),
        (
            *(0.5, 0.12),
            f"BUG: no, {WHERE}; they were 0.5 apart, yet {WIDTHS}",
            "bug",
        ),
        (
            *(0.1200001, 0.12),
            f"BUG: no, {WHERE}; they were 0.1200001 apart, yet {WIDTHS}",
            "bug",
        ),
        (None, None, f"no, {WHERE}; how near the two were was not measured", None),
    ],
)
def test_a_difference_is_a_tie_a_bug_or_not_measured(
    gap: float | None, change: float | None, words: str, verdict: str | None
) -> None:
    found = divergence(gap, change)
    told = same_text(baseline(False, divergence=found), "bfloat16")
    assert told is not None
    assert (told.words, told.is_bug) == (words, verdict == "bug")
    as_json = divergence_dict(found)
    numbers = {"gap": gap, "change": change, "verdict": verdict}
    assert as_json == {"index": 40, "written": 7, "plain": 8, **numbers}


def test_without_a_look_at_the_difference_none_is_judged() -> None:
    told = same_text(baseline(False), "float32")
    assert told is not None and not told.is_bug
    assert (
        told.words == "no, token 41 is the first that differs; whether rounding explains it was not measured"
    )
    half = same_text(baseline(False), "bfloat16")
    assert half is not None and "in bfloat16 near ties fall either way" in half.words


def test_the_same_text_and_texts_that_need_not_be_the_same() -> None:
    told = same_text(baseline(True), "float32")
    assert told is not None and told.words == "yes, all 60 tokens"
    assert same_text(baseline(None), "float32") is None
    assert divergence_dict(divergence_of(baseline(True))) is None
    assert divergence_of(None) is None


@pytest.mark.parametrize("piece", NASTY_PIECES)
def test_no_token_acts(piece: bytes) -> None:
    told = same_text(baseline(False, divergence=divergence(piece=piece)), "float16", ascii_only=True)
    assert told is not None
    assert OBEYED.search(told.words) is None
