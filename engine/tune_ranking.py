"""What tuning finds: ways of decoding in the order of their speed on one context; torch-free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

K = int | Literal["auto"]
"""Draft tokens a round."""
DISTURBED = 1.3
"""A highest speedup over the lowest that is no property of the way of decoding."""
Value = str | int | float | bool | None
"""Of a key of the configuration; None takes the key out."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One way of decoding this context."""

    drafter: str
    """In words: "lookup", "hybrid with NAME"; empty for plain decoding."""
    k: K
    """0 for plain decoding."""
    speedup: float
    """In times plain decoding."""
    low: float | None
    """The lowest of several measurements; None where there are not two."""
    high: float | None
    measured: bool
    """Else predicted, from this drafter's acceptance with another K and from measured costs."""
    tau: float | None
    """Tokens a round; 1 for plain decoding, None where it is not known."""
    settings: tuple[tuple[str, Value], ...]
    """What has to change in the configuration, by dotted key; empty for the configuration's own way."""

    @property
    def is_plain(self) -> bool:
        """Whether nothing is drafted."""
        return not self.drafter


@dataclass(frozen=True, slots=True)
class Trying:
    """Something is about to run."""

    what: str
    """In words: "lookup, K = 16"."""
    seconds: float
    """Since the start."""
    limit: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A drafter that cannot be tried here."""

    drafter: str
    why: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order so far, the fastest first; the newest one counts."""

    rows: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Tuning ran to its end."""

    rows: tuple[Ranked, ...]
    """Not empty; the first one is measured."""
    prompt_tokens: int
    answer_tokens: int
    """Of each run, at most."""
    seconds: float

    @property
    def best(self) -> Ranked:
        """The fastest of those measured."""
        return self.rows[0]


TuneEvent = Trying | LeftOut | Ranking | Tuned


def in_order(rows: Iterable[Ranked]) -> tuple[Ranked, ...]:
    """What was measured, the fastest first, then what is predicted only.

    A prediction is no reason to prefer a setting to one that was timed.
    """
    return tuple(sorted(rows, key=lambda row: (not row.measured, -row.speedup, _size(row.k))))


def sentence(tuned: Tuned) -> str:
    """What came of it, in words."""
    best = tuned.best
    here = "This is for this context and machine only."
    if any(map(_is_disturbed, tuned.rows)):
        here += " These times were disturbed: other programs run, so tune again without them."
    if best.is_plain:
        others = [row for row in tuned.rows if row.measured and not row.is_plain]
        near = f" The nearest, {name_of(others[0])}, is {others[0].speedup:.2f}x." if others else ""
        return f"No drafter pays here: K = 0, plain decoding, is the fastest.{near} {here}"
    return f"The fastest is {name_of(best)}: {best.speedup:.2f} times as fast as plain decoding. {here}"


def _is_disturbed(row: Ranked) -> bool:
    """Whether its times cannot all be its own: they vary, or its rounds were faster than plain steps."""
    if not row.measured or row.is_plain:
        return False
    varies = row.low is not None and row.high is not None and row.high > DISTURBED * row.low
    return varies or (row.tau is not None and row.speedup > DISTURBED * row.tau)


def name_of(row: Ranked) -> str:
    """ "lookup, K = 8" """
    return "plain, K = 0" if row.is_plain else f"{row.drafter}, K = {row.k}"


def _size(k: K) -> int:
    return k if isinstance(k, int) else 0
