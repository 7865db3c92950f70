"""A quick bench of a session's own pair, as the app runs it, and its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.bench.trials.cells import Results, cell_of
from engine.bench.trials.events import Finished, Progress
from engine.bench.trials.plan import Plan
from engine.bench.trials.units import Unit
from engine.errors import UserError
from engine.user_text import shown_name
from tui.atomic_file import user_path, write_atomic
from tui.safe_text import visible

if TYPE_CHECKING:
    from engine.session import Session

LABEL = "this pair"
COMMAND = "the app's quick bench"
ENDINGS = (".md", ".html")
_MODE = 0o666
"""Less what the user's umask takes: a report is made to be shown."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """What the prompts that are done have come to; without intervals, which take long."""

    results: Results


@dataclass(frozen=True, slots=True)
class Done:
    """The bench ran to its end."""

    results: Results
    facts: Mapping[str, Any]
    """What a report says beside them."""


BenchEvent = Progress | SoFar | Done


def quick_bench(session: Session, cancelled: Callable[[], bool]) -> Iterator[BenchEvent]:
    """One prompt of each category with each K of a quick bench: (Progress*, SoFar)*, Done.

    The conversation stays as it is; what the caches hold of its prompt is lost. If it is cancelled, it ends
    without Done.

    Raises:
        PromptTooLong, EngineError, ResourceError: as ``run_trials``.
    """
    from engine.bench.trials.build import quick_plan
    from engine.bench.trials.facts import facts_of, load_average
    from engine.bench.trials.questions import own_questions
    from engine.bench.trials.run import run_trials

    plan = quick_plan({LABEL: session.config}, own_questions())
    load_before, start = load_average(), time.monotonic()
    units: list[Unit] = []
    shown = 0
    for event in run_trials(lambda _: session, plan, keep=units.append, cancelled=cancelled):
        if isinstance(event, Progress):
            yield event
        elif isinstance(event, Finished):
            seconds = time.monotonic() - start
            yield Done(event.results, facts_of(plan, [session], COMMAND, seconds, load_before))
        elif len(units) > shown:
            shown = len(units)
            yield SoFar(_so_far(plan, units))


def _so_far(plan: Plan, units: list[Unit]) -> Results:
    of_categories = tuple(
        cell_of(plan, arm, [unit], unit.category, resamples=0) for unit in units for arm in plan.arms
    )
    return Results(tuple(cell_of(plan, arm, units, resamples=0) for arm in plan.arms), of_categories, ())


def report_problem(name: str) -> str | None:
    """What is wrong with the name of a report; None for nothing."""
    if Path(name).suffix not in ENDINGS:
        return "The ending says what is written: .md or .html."
    return None


def write_report(done: Done, name: str) -> Path:
    """Write a report, by its ending; returns where. Raises UserError, DiskError."""
    from engine.bench.trials.html_page import html_page
    from engine.bench.trials.markdown import markdown

    problem = report_problem(name)
    if problem is not None:
        raise UserError(f"{shown_name(name)}: is neither .md nor .html", problem)
    path = user_path(name)
    text = html_page if path.suffix == ".html" else markdown
    write_atomic(path, visible(text(done.results, dict(done.facts))), mode=_MODE)
    return path.absolute()
