"""What a bench tells while it runs; torch-free, frozen.

``Progress`` before each answer, ``CellMeasured`` for every arm after each prompt, ``Finished`` at the end.
A bench that is cancelled ends without ``Finished``.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.bench.trials.cells import Cell, Results


@dataclass(frozen=True, slots=True)
class Progress:
    """An answer is about to be written."""

    done: int
    """Answers that are finished, those of an earlier run of this bench included."""
    total: int
    seconds_left: float | None
    """At the pace so far; None before there is one."""
    arm: str
    """Its name in the plan."""
    question: str
    category: str
    repeat: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class CellMeasured:
    """What an arm has come to over the prompts so far. Told again after each prompt: the newest counts."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class Finished:
    """The bench ran to its end."""

    results: Results


TrialEvent = Progress | CellMeasured | Finished
