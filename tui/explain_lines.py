"""An explained run as lines for a terminal or a file, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from engine.costs import Costs
from engine.explained import AfterTheFact, Explained
from engine.predictor import Point, best
from engine.what_if import Estimate
from tui.glyphs import Glyphs, bar, bar_with_tick

_LABEL = 14
_BAR = 40
"""Columns of the longest bar."""


def explain_lines(told: Explained, k: int | None, glyphs: Glyphs, width: int) -> list[str]:
    """The parts in their order: costs, survival, the predicted speedup, what would have been, why.

    Args:
        k: draft tokens that most rounds asked for; None: none did.
    """
    if told.costs is None:
        said = "No costs were measured in this run, so nothing is predicted."
        return [said, *_summary_lines(told), *_sentence(told, width)]
    parts = [
        list(_cost_lines(told.costs)),
        list(_survival_lines(told, glyphs)),
        list(_curve_lines(told.points, k, glyphs)),
        list(_summary_lines(told)),
        _sentence(told, width),
    ]
    return [line for part in parts if part for line in ["", *part]][1:]


def _cost_lines(costs: Costs) -> Iterator[str]:
    yield f"costs, measured at {costs.context_length} tokens; all but t1 in plain steps"
    yield _line("t1", f"{costs.t1_ms:.2f} ms, a plain step; {costs.plain_host_ms:.2f} of it host work")
    passes = "  ".join(f"{cost.rows}: {costs.r(cost.rows):.2f}" for cost in costs.rounds)
    yield _line("r by rows", passes)
    for source in costs.sources:
        drafts = "  ".join(
            f"{cost.drafts}: {share_text(cost.ms / costs.t1_ms)}"
            for cost in costs.drafts
            if cost.source == source
        )
        yield _line(f"D by K {source}".rstrip(), drafts)
    c = costs.c()
    if c is not None:
        yield _line("c", f"{share_text(c)} a drafted token")
    yield _line("o", f"{max(costs.o(1), 0.0):.3f} of host work more in a round of one draft")
    if costs.bandwidth_gbs is not None and costs.copy_gbs is not None:
        share = costs.bandwidth_gbs / costs.copy_gbs
        yield _line(
            "bandwidth", f"{costs.bandwidth_gbs:.1f} GB/s of {costs.copy_gbs:.1f} that it gives ({share:.0%})"
        )


def share_text(share: float) -> str:
    """A cost in plain steps; what is next to nothing is told as such."""
    return f"{share:.3g}" if share >= 0.001 or share == 0 else "<0.001"


def _survival_lines(told: Explained, glyphs: Glyphs) -> Iterator[str]:
    """As far as drafts were judged, and one position beyond."""
    seen = sum(observed for _, observed in told.survival)
    if not told.survival:
        return
    yield "survival: how likely the first i drafts of a round all come and are accepted"
    for position, (chance, observed) in enumerate(told.survival[: seen + 1], 1):
        drawn = bar(chance, _BAR, glyphs).rstrip(glyphs.empty)
        note = "" if observed else "  not observed"
        yield f"  {position:>3}  {chance:5.2f}   {drawn}{note}".rstrip()


def _curve_lines(points: Sequence[Point], k: int | None, glyphs: Glyphs) -> Iterator[str]:
    if len(points) < 2:
        return
    peak = best(points)
    top = max(peak.speedup, 1.0)
    yield "predicted speedup over K; the mark is plain decoding"
    for point in points:
        cells = bar_with_tick(point.speedup / top, 1 / top, _BAR, glyphs).replace(glyphs.empty, " ")
        notes = [
            *(["now"] if point.k == k else []),
            *(["best"] if point.k == peak.k else []),
            *([] if point.observed else ["not observed"]),
        ]
        yield f"  {point.k:>3}  {point.speedup:5.2f}x  {cells}  {', '.join(notes)}".rstrip()


def _summary_lines(told: Explained) -> Iterator[str]:
    stats = told.statistics
    if stats.speedup is not None:
        yield _line("measured", f"{stats.speedup:.2f}x")
    if stats.predicted_speedup is not None:
        error = stats.prediction_error
        off = "" if error is None else f", error {error:.1%}"
        yield _line("predicted", f"{stats.predicted_speedup:.2f}x{off}")
    if told.after is not None:
        for name, found in estimates(told.after):
            yield _line(name, estimate_words(found))


def estimates(after: AfterTheFact) -> Iterator[tuple[str, Estimate]]:
    """What would have been, by names."""
    if after.asked is not None:
        yield "what if", after.asked
    yield "static best", after.static_best
    yield "oracle", after.oracle
    for other in after.others:
        yield other.name, other


def estimate_words(found: Estimate) -> str:
    """What an estimate comes to."""
    asked = "" if found.k is None else f"K = {found.k}: "
    words = f"{asked}{found.speedup:.2f}x, tau {found.tau:.2f}"
    return f"{words}, {found.unobserved:.0%} of its drafts not observed" if found.unobserved else words


def _sentence(told: Explained, width: int) -> list[str]:
    if told.explanation is None:
        return []
    return textwrap.wrap(told.explanation.sentence, width)


def _line(name: str, value: str) -> str:
    return f"  {name:<{_LABEL}}{value}"
