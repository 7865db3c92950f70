"""What tuning and a quick bench tell, without an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from support.trials import ONE, TWO, small_plan, unit_of

from engine.bench.trials.cells import Results, results_of
from engine.bench.trials.events import Progress
from engine.tune_ranking import LeftOut, Ranked, Ranking, Trying, Tuned, TuneEvent
from tui.bench_work import BenchEvent, Done, SoFar

PLAIN = Ranked("", 0, 1.0, None, None, True, 1.0, (("draft.num_draft_tokens", "auto"),))
BEST = Ranked("lookup", 8, 1.42, 1.38, 1.47, True, 2.31, (("draft.num_draft_tokens", 8),))
OWN = Ranked("lookup", 5, 1.31, 1.3, 1.33, True, 2.1, ())
GUESS = Ranked("lookup", 3, 1.2, None, None, False, 1.9, (("draft.num_draft_tokens", 3),))
ROWS = (BEST, OWN, PLAIN, GUESS)
TUNED = Tuned(ROWS, 80, 48, 21.5)


def tuning(*_: Any, **__: Any) -> Iterator[TuneEvent]:
    """All of it, at once."""
    yield Trying("plain decoding", 0.0, 30.0)
    yield LeftOut("model mine/[b]", "it is not on this machine")
    yield Ranking((PLAIN, GUESS))
    yield TUNED


def endless(tell: Callable[[int], Any]) -> Callable[..., Iterator[Any]]:
    """A measurement that goes on until it is called off.

    Args:
        tell: gives what it tells, by a number that counts up.
    """

    def run(_: Any, *more: Any, cancelled: Callable[[], bool] | None = None) -> Iterator[Any]:
        called_off = cancelled or more[-1]
        for number in range(10_000):
            if called_off():
                return
            yield tell(number)
            threading.Event().wait(0.005)

    return run


def results(*, factor: float = 0.8) -> Results:
    """Of two prompts; the larger K loses.

    Args:
        factor: time of K = 2 over that of plain decoding.
    """
    plan = small_plan("scripted", repeats=2)
    plain, two, four = (arm.name for arm in plan.arms)
    units = [
        unit_of(plan, question, {plain: 100.0, two: 100 * factor + repeat, four: 130.0}, repeat=repeat)
        for repeat in (1, 2)
        for question in (ONE, TWO)
    ]
    return results_of(plan, units)


FACTS = {
    "command": "the app's quick bench",
    "date": "2026-01-01",
    "processor": "x86 <64>",
    "cores": 2,
    "memory_gb": 8.0,
    "threads": 2,
    "versions": {"torch": "2.13.0"},
    "models": ["scripted in float32 on cpu"],
    "load_average_before": 0.5,
    "load_average_after": None,
    "peak_memory_mb": 100,
    "questions": 2,
    "tokens": 6,
    "repeats": 2,
    "seed": 0,
    "seconds": 12.3,
}
DONE = Done(results(), FACTS)


def bench(*_: Any) -> Iterator[BenchEvent]:
    """All of it, at once."""
    yield Progress(0, 20, None, "this pair, K = 2", "1", "chat", 1)
    yield SoFar(results(factor=0.9))
    yield DONE
