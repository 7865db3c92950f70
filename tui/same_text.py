"""Whether a run wrote the text of plain decoding that it had to repeat, and what a difference means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.events import BaselineFinished, Divergence
from tui.safe_text import visible_bytes

TIE, BUG = "numerical tie", "bug"


@dataclass(frozen=True, slots=True)
class SameText:
    """What there is to say."""

    words: str
    """Safe to show."""
    is_bug: bool = False
    """The difference cannot come from rounding: to be shown loudly."""


def same_text(baseline: BaselineFinished, dtype: str, *, ascii_only: bool = False) -> SameText | None:
    """Of a run and its plain decoding; None where the texts need not be the same.

    Args:
        dtype: number format of the target; decides what a difference that was not looked at may mean.
    """
    if baseline.identical is None:
        return None
    if baseline.identical:
        return SameText(f"yes, all {baseline.tokens} tokens")
    found = baseline.divergence
    if found is None:
        return SameText(_unexplained(baseline.first_difference, dtype))
    words = f"no, {difference_words(found, ascii_only=ascii_only)}"
    return SameText(f"BUG: {words}" if found.is_tie is False else words, found.is_tie is False)


def difference_words(found: Divergence, *, ascii_only: bool = False) -> str:
    """The first difference, and whether rounding explains it."""
    written, plain = (
        f'"{visible_bytes(piece, ascii_only=ascii_only)}"'
        for piece in (found.written_piece, found.plain_piece)
    )
    where = f"token {found.index + 1} is the first that differs: {written} for {plain}"
    if found.gap is None or found.change is None:
        return f"{where}; how near the two were was not measured"
    gap, change = _told_apart(found.gap, found.change)
    verdict = f"{TIE}: " if found.is_tie else ""
    but = "and" if found.is_tie else "yet"
    return (
        f"{where}; {verdict}they were {gap} apart, {but} passes of different width differ by {change} there"
    )


def divergence_of(baseline: BaselineFinished | None) -> Divergence | None:
    """What is told of the first difference; None where nothing is."""
    return None if baseline is None else baseline.divergence


def divergence_dict(found: Divergence | None) -> dict[str, Any] | None:
    """For JSON."""
    if found is None:
        return None
    verdict = None if found.is_tie is None else TIE if found.is_tie else BUG
    numbers = {"gap": found.gap, "change": found.change, "verdict": verdict}
    return {"index": found.index, "written": found.written, "plain": found.plain, **numbers}


def _unexplained(at: int | None, dtype: str) -> str:
    where = "no" if at is None else f"no, token {at + 1} is the first that differs"
    if dtype in {"", "float32"}:
        return f"{where}; whether rounding explains it was not measured"
    return f"{where}; in {dtype} near ties fall either way, float32 decides (--set run.dtype=float32)"


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Two distances with as many digits as tell them apart, at least two."""
    for digits in range(2, 8):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1] or one == other:
            return texts
    return f"{one!r}", f"{other!r}"
