"""The rows of the pane that explains a run's speed: the curve over K, what would have been, and the costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.costs import Costs
from engine.explained import AfterTheFact, Explained
from engine.predictor import Point, best
from engine.stats import Statistics
from engine.verdict import outcome
from tui.explain_lines import estimates
from tui.glyphs import Glyphs, bar, bar_with_tick
from tui.widgets.bars import bar_pieces
from tui.widgets.rows import Piece, Row, clip_row, padded, wrap

_NOTE = 5
"""Columns of what stands behind a bar."""
_LABEL = 12
_UNSEEN = "lines--dim"
_COLOURS = {1: "lines--good", 0: "lines--target", -1: "lines--bad"}
"""Of a gain, of no difference, of a loss."""


def curve_rows(
    points: Sequence[Point], now: int, cursor: int | None, width: int, glyphs: Glyphs
) -> Iterator[Row]:
    """A row for each K: its number, with a sign on the present one, the speedup, and a bar with a mark at
    plain decoding. What was not observed is dim. The key of a row is its K."""
    peak = best(points)
    top = max(peak.speedup, 1.0)
    for point in points:
        sign = glyphs.play if point.k == now else " "
        text = f"{sign}{point.k:>2} {point.speedup:5.2f}x "
        style = "lines--cursor" if point.k == cursor else "" if point.observed else _UNSEEN
        room = max(width - len(text) - _NOTE, 0)
        colour = _COLOURS[outcome(point.speedup)] if point.observed else _UNSEEN
        bars = bar_pieces(bar_with_tick(point.speedup / top, 1 / top, room, glyphs), colour, glyphs)
        note = " best" if point.k == peak.k else ""
        row = (Piece(text, style), *bars, Piece(note, "lines--strong"))
        yield Row(tuple(piece._replace(key=point.k) for piece in clip_row(row, width, glyphs.ellipsis)))


def after_rows(stats: Statistics, after: AfterTheFact | None, width: int, glyphs: Glyphs) -> Iterator[Row]:
    """Prediction beside measurement, and what other drafting would have given."""
    if stats.speedup is not None:
        yield _pair("measured", f"{stats.speedup:.2f}x", width, glyphs)
    if stats.predicted_speedup is not None:
        error = stats.prediction_error
        off = "" if error is None else f", error {error:.1%}"
        yield _pair("predicted", f"{stats.predicted_speedup:.2f}x{off}", width, glyphs)
    for name, found in () if after is None else estimates(after):
        asked = "" if found.k is None else f", K = {found.k}"
        unseen = f", {found.unobserved:.0%} unobserved" if found.unobserved else ""
        yield _pair(name, f"{found.speedup:.2f}x{asked}{unseen}", width, glyphs)


def survival_rows(told: Explained, width: int, glyphs: Glyphs) -> Iterator[Row]:
    """How likely the first 1, 2, 3, ... drafts all come and are accepted, as far as seen and one more."""
    seen = sum(observed for _, observed in told.survival)
    for position, (chance, observed) in enumerate(told.survival[: seen + 1], 1):
        text = f"{position:>3} {chance:6.2f} "
        note = "" if observed else " not observed"
        room = max(width - len(text) - len(note), 0)
        style = "" if observed else _UNSEEN
        bars = bar_pieces(bar(chance, room, glyphs), "lines--drafter" if observed else _UNSEEN, glyphs)
        yield Row(clip_row((Piece(text, style), *bars, Piece(note, _UNSEEN)), width, glyphs.ellipsis))


def cost_rows(costs: Costs, width: int, glyphs: Glyphs) -> Iterator[Row]:
    """The parts of a round in plain steps, and how near the pass comes to what memory gives."""
    yield _pair("t1", f"{costs.t1_ms:.1f} ms", width, glyphs)
    c = costs.c()
    if c is not None:
        yield _pair("c", f"{c:.3g}", width, glyphs)
    yield _pair("o", f"{max(costs.o(1), 0.0):.3f}", width, glyphs)
    if costs.bandwidth_gbs is not None and costs.copy_gbs is not None:
        share = costs.bandwidth_gbs / costs.copy_gbs
        told = f"{costs.bandwidth_gbs:.1f} of {costs.copy_gbs:.1f} GB/s, {share:.0%}"
        yield _pair("memory", told, width, glyphs)
    passes = "  ".join(f"{cost.rows}: {costs.r(cost.rows):.2f}" for cost in costs.rounds)
    yield from wrap(f"r by rows  {passes}", width)


def _pair(name: str, value: str, width: int, glyphs: Glyphs) -> Row:
    row = (Piece(padded(name, _LABEL), "lines--dim"), Piece(value))
    return Row(clip_row(row, width, glyphs.ellipsis))
