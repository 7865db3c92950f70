"""The results of a bench, complete or not, as lines of text for a screen."""

from __future__ import annotations

import textwrap

from engine.bench.trials.cells import Results
from engine.bench.trials.events import Progress
from engine.bench.trials.tables import category_lines, table_lines
from engine.bench.trials.words import sentences


def views(results: Results) -> tuple[str, ...]:
    """What there is a table of: "" for all prompts together, then the categories."""
    return ("", *dict.fromkeys(cell.category for cell in results.by_category))


def bench_lines(results: Results, view: str, width: int) -> list[str]:
    """A table of one view, speedups by category, and what loses, in words; no line wider than ``width``."""
    cells = [cell for cell in results.by_category if cell.category == view] if view else results.cells
    many = cells[0].questions if cells else 0
    title = view or f"{many} prompt{'' if many == 1 else 's'} together"
    lines = [title[:width], *table_lines(cells, width), *category_lines(results, width)]
    said = [textwrap.wrap(sentence, width) for sentence in sentences(results)]
    return [*lines, "", *(line for wrapped in said for line in wrapped)]


def progress_line(progress: Progress) -> str:
    """How far it is, and what runs."""
    left = "" if progress.seconds_left is None else f", {_duration(progress.seconds_left)} left"
    return f"{progress.done} of {progress.total} answers{left}; {progress.category}: {progress.arm}"


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
