"""What a check of a recording may find, and how much that weighs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

SLACK = 1e-4
"""Relative difference of two normalisations of one law in float32: 1.2e-5 was seen over 49,152 ids."""


class Grade(StrEnum):
    """How much a finding weighs."""

    TIE = "exact tie"
    """Two answers are equally right, and this is one of them."""
    ROUNDING = "within rounding"
    """The numbers do not agree, but no more than rounding explains."""
    BUG = "BUG"
    """This cannot come from a correct engine, or the file was changed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be."""

    run: int
    round: int | None
    """Number of the round in its run; None: the run as a whole."""
    check: str
    """Stable name of the check: "acceptance", "draw", "target", "cut", ..."""
    grade: Grade
    text: str
    margin: float | None = None
    """How far the numbers were from the other outcome; None where there is no such number."""


class Checks:
    """Checks of one run, and what they found."""

    def __init__(self, run: int) -> None:
        self.run = run
        """Number of the run."""
        self.checks = 0
        self._found: list[Finding] = []
        self._number: int | None = None

    def _expect(self, holds: bool, check: str, text: str, grade: Grade = Grade.BUG) -> bool:
        self.checks += 1
        if not holds:
            self._found.append(Finding(self.run, self._number, check, grade, text))
        return holds


def float32(value: float) -> float:
    """The nearest number of the format that laws have in most runs; infinite where it has none."""
    try:
        number: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return number
