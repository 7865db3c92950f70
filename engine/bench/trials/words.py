"""What the results say, in sentences; what loses is said as plainly as what wins. Torch-free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.bench.trials.cells import Cell, Choice, Results
from engine.bench.trials.labels import labels_of
from engine.bench.trials.tables import interval_words, percent, times


def sentences(results: Results) -> list[str]:
    """All there is to say, faults first."""
    labels = labels_of(results.cells)
    return [
        *_faults(results.cells, labels),
        *_differences(results.cells, labels),
        *_losses(results, labels),
        *(_choice(choice, len(results.choices) > 1) for choice in results.choices),
    ]


def _faults(cells: Sequence[Cell], labels: dict[str, str]) -> Iterator[str]:
    for cell in cells:
        if cell.unexplained:
            yield (
                f"WRONG TEXT: {labels[cell.arm]}: {cell.unexplained} of {cell.compared} greedy answers in"
                " float32 are not plain decoding's, and no numerical tie explains it (first at token"
                f" {cell.first_difference})."
            )


def _differences(cells: Sequence[Cell], labels: dict[str, str]) -> Iterator[str]:
    for cell in cells:
        if cell.identical is None or cell.identical == 1 or cell.unexplained:
            continue
        parted = cell.compared - round(cell.compared * cell.identical)
        why = "at numerical ties" if cell.dtype == "float32" else f"as {cell.dtype} rounds by width"
        yield (
            f"{labels[cell.arm]}: {parted} of {cell.compared} answers part from plain decoding's {why},"
            f" token {cell.first_difference} at the earliest."
        )


def _losses(results: Results, labels: dict[str, str]) -> Iterator[str]:
    for cell in results.cells:
        if cell.loses and cell.speedup is not None:
            clear = cell.speedup.high is not None and cell.speedup.high < 1
            doubt = "" if clear or cell.speedup.high is None else ", though the interval reaches 1"
            yield f"{labels[cell.arm]} is slower than plain decoding: {_measured(cell)}{doubt}."
    for category in dict.fromkeys(cell.category for cell in results.by_category):
        losing = [cell for cell in results.by_category if cell.category == category and cell.loses]
        if losing:
            told = ", ".join(f"{labels[cell.arm]} ({_speedup(cell)})" for cell in losing)
            yield f"On {category}, slower than plain decoding: {told}."


def _choice(choice: Choice, several: bool) -> str:
    whose = [choice.configuration, choice.rule]
    if choice.temperature is not None:
        whose.append(f"T = {choice.temperature:g}")
    head = f"{', '.join(whose)}: " if several else ""
    fixed = (
        f"The best fixed K is {choice.static_k} ({times(choice.static_speedup)})"
        if choice.static_k
        else "No fixed K pays, plain decoding is faster"
    )
    words = f"{head}{fixed}, known afterwards"
    over = choice.adaptive_over_static
    if over is not None:
        found = "" if over.low is None else f" ({interval_words(over)})"
        words += f'; "auto" is {times(choice.adaptive_speedup)}, {percent(over.value)} of that{found}'
    if choice.oracle_speedup is not None:
        best = f"{times(choice.oracle_speedup)} by the costs"
        words += f"; an oracle that asks for just what will stand would have {best}"
    return f"{words}."


def _measured(cell: Cell) -> str:
    interval = interval_words(cell.speedup)
    return _speedup(cell) if interval == "-" else f"{_speedup(cell)} ({interval})"


def _speedup(cell: Cell) -> str:
    return times(cell.speedup.value if cell.speedup else None)
