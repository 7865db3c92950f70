"""How fast the run is, against plain decoding that was really measured, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from textual.reactive import var

from tui.drafting import SYNTHETIC, any_synthetic, synthetic_sentence
from tui.glyphs import bar_with_tick, sparkline
from tui.same_text import same_text
from tui.state import NOTHING, Measures, ViewState, recent
from tui.why import outcome, verdict_sentence
from tui.widgets.bars import bar_pieces, digit_lines, shown, size, time_rows
from tui.widgets.fixed import FixedView
from tui.widgets.gauge_numbers import NUMBERS
from tui.widgets.rows import Piece, Row, clip_row, fitting, padded, wrap

_LABEL = 11
_CELL, _TWO_CELLS = 9, 7
"""Columns that a column of numbers needs, and that each of two can do with."""
_BESIDE = 20
"""Columns that a sentence beside the digits needs."""
_POSITION = 5
"""Columns of a position of the draft."""
_LEAST_SCALE = 2.0
"""The bar's right end, in times plain decoding; it grows with the speedup."""

_OUTCOMES = {1: ("lines--good", " faster"), 0: ("lines--strong", ""), -1: ("lines--bad", " slower")}
"""Style and word of a gain, of no difference, of a loss."""


class GaugePane(FixedView):
    """The measures of the segment, with those of the whole run beside them."""

    HELP: ClassVar[str] = (
        "The large number is the speed of this segment (since the settings last changed) in times plain "
        "decoding; it is there once plain decoding was measured on this machine. tau: tokens a round. "
        "alpha-hat: how likely a draft is accepted when it is judged. efficiency: accepted of all drafted "
        "tokens. plain: tokens/s of plain decoding. Prediction and best K come with a measurement of the "
        "costs."
    )
    DEFAULT_CSS = """
    GaugePane.-compact { border: none; height: 1; overflow-y: hidden; scrollbar-size-vertical: 0;
        scrollbar-gutter: auto; }
    GaugePane.-compact:focus { border: none; text-style: bold; }
    GaugePane > .gauge--position { color: $mark-accepted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"gauge--position"}

    compact: var[bool] = var(False)
    """One line, for narrow screens."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Gauge"
        self._state = ViewState()
        self._now = NOTHING
        self._memory: int | None = None
        self._is_synthetic = False

    # -- the app's side

    def show(self, state: ViewState) -> None:
        """Show the measures of a state."""
        before, self._state = self._state, state
        slices = (
            "segments",
            "segment",
            "total",
            "baseline",
            "reference",
            "replay",
            "rounds",
            "run",
            "segment_start",
        )
        if all(getattr(before, name) is getattr(state, name) for name in slices):
            return
        self._is_synthetic = any_synthetic(segment.settings for segment in state.segments)
        self.border_title = ", ".join(self._titles())
        self._now = recent(state)
        self.update_rows()

    def _titles(self) -> Iterator[str]:
        yield "Gauge"
        if self._is_synthetic:
            yield SYNTHETIC.upper()
        if self._state.replay:
            yield "REPLAY"

    def show_memory(self, count: int | None) -> None:
        """Show how much memory the process holds, in bytes."""
        if count is None or self._memory is None or size(count) != size(self._memory):
            self._memory = count
            self.update_rows()

    def watch_compact(self, compact: bool) -> None:
        self.set_class(compact, "-compact")
        if self.is_mounted:
            self.update_rows()

    # -- rows

    @property
    def _is_compact(self) -> bool:
        return self.compact or self.has_class("-compact")

    def make_rows(self) -> list[Row]:
        if self._is_compact:
            return [self._line()]
        state, width = self._state, self.row_width
        measures = state.segment
        rows = [*self._head(measures), *self._scale(measures), *self._notes(), *self._numbers()]
        rows += self._pairs(
            ("TTFT", self._ttft(state.total)),
            ("memory", self._memory_text()),
            ("predicted", self._predicted(measures)),
            ("best K", self._absent if measures.best_k is None else str(measures.best_k)),
        )
        rows += self._positions(measures)
        rows.append(self._heading("time a round"))
        count = max(measures.rounds, 1)
        times = (measures.draft_ms / count, measures.verify_ms / count, measures.host_ms / count)
        rows += time_rows(times, width, self.glyphs)
        rows += self._spark()
        return rows

    @property
    def _absent(self) -> str:
        return self.glyphs.absent

    def _style(self, speedup: float | None) -> str:
        if speedup is None:
            return "lines--dim"
        return _OUTCOMES[outcome(speedup)][0]

    def _head(self, measures: Measures) -> list[Row]:
        """The speedup in large digits, with its meaning beside it, or below where there is no room."""
        text = self._absent if measures.speedup is None else f"{measures.speedup:.2f}x"
        style, width = self._style(measures.speedup), self.row_width
        large = digit_lines(text)
        if self.ascii or measures.speedup is None or len(large[0]) > width:
            large = (text,)
        digits = [Piece(line, style, -1, text if y == 0 else "") for y, line in enumerate(large)]
        sentence, column = self._sentence(measures), len(large[0]) + 2
        beside = wrap(sentence, width - column) if width - column >= _BESIDE else []
        if not beside or len(beside) > max(len(large), 3):
            return [*(Row((piece,)) for piece in digits), *wrap(sentence, width)]
        while len(digits) < len(beside):
            digits.append(Piece(" " * (column - 2)))
        more = [row.pieces for row in beside] + [()] * len(digits)
        return [Row((piece, Piece("  "), *words)) for piece, words in zip(digits, more, strict=False)]

    def _sentence(self, measures: Measures) -> str:
        sentence = verdict_sentence(measures)
        if not self._is_synthetic:
            return sentence
        return synthetic_sentence(sentence, measures.counts.synthetic(self._state.settings))

    def _scale(self, measures: Measures) -> list[Row]:
        """A bar with a tick where plain decoding is, and what the tick is."""
        width, speedup = self.row_width, measures.speedup
        top = max(_LEAST_SCALE, math.ceil((speedup or 0.0) * 1.05))
        cells = bar_with_tick((speedup or 0.0) / top, 1 / top, width, self.glyphs)
        at = min(int(width / top), width - 1)
        end = f"{top:.0f}x"
        label = " " * at + "1.0x"
        if len(label) + len(end) < width:
            label += " " * (width - len(label) - len(end)) + end
        return [
            Row(bar_pieces(cells, self._style(speedup), self.glyphs)),
            Row(clip_row((Piece(label, "lines--dim"),), width, "")),
        ]

    def _notes(self) -> list[Row]:
        """What there is to say about the measurement of plain decoding."""
        state = self._state
        rows: list[Row] = []
        timing = state.baseline
        if timing is not None and timing.finished is None:
            rows += wrap(
                f"Timing plain decoding: {timing.done} of {timing.total} tokens.",
                self.row_width,
                "lines--dim",
            )
        elif state.reference is not None and state.reference_run != state.run:
            rows += wrap(
                f"Plain decoding as timed in run {state.reference_run}.", self.row_width, "lines--dim"
            )
        # Another run's plain decoding is compared with: what this run's own wrote is beside the point.
        own = state.reference is None or state.reference_run == state.run
        if (
            own
            and timing is not None
            and timing.finished is not None
            and timing.finished.identical is not None
        ):
            told = same_text(timing.finished, self._dtype(), ascii_only=self.ascii)
            assert told is not None, "it is told whether the texts are the same"
            style = "lines--bad lines--strong" if told.is_bug else "lines--dim"
            said = f"Same text as plain: {told.words}."
            if timing.finished.identical:
                said = "Plain decoding wrote the same tokens."
            rows += wrap(said, self.row_width, style)
        return rows

    def _dtype(self) -> str:
        return "" if self._state.target is None else self._state.target.dtype

    def _columns(self) -> list[tuple[str, Measures]]:
        """What the numbers are shown of, as many as there is room for."""
        state = self._state
        columns = [("segment", state.segment), ("run", state.total), ("now", self._now)]
        room = self.row_width - _LABEL
        return columns[: 3 if room >= 3 * _CELL else 2 if room >= 2 * _TWO_CELLS else 1]

    def _numbers(self) -> list[Row]:
        columns, width = self._columns(), self.row_width
        cell = max(min((width - _LABEL) // len(columns), 11), 1)
        rows = [self._table_row("", [f"{name:>{cell}}" for name, _ in columns], "lines--dim")]
        for label, number in NUMBERS:
            texts = [number(measures, self._absent) for _, measures in columns]
            if self.ascii:
                texts = [text.replace("±", "+-") for text in texts]
            # A number that has no room goes without its error.
            texts = [
                text if len(text) < cell else text.partition("±")[0].partition("+-")[0] for text in texts
            ]
            rows.append(self._table_row(label, [f"{text:>{cell}}" for text in texts], ""))
        return rows

    def _table_row(self, label: str, cells: list[str], style: str) -> Row:
        pieces = (Piece(padded(label, _LABEL), "lines--dim"), Piece("".join(cells), style))
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))

    def _pairs(self, *pairs: tuple[str, str]) -> list[Row]:
        """Labels and values, two a row where there is room."""
        cell = max(min((self.row_width - _LABEL) // len(self._columns()), 11), 1)
        each = 2 if self.row_width >= _LABEL + cell + 18 else 1
        rows: list[Row] = []
        for start in range(0, len(pairs), each):
            pieces: list[Piece] = []
            for label, value in pairs[start : start + each]:
                if pieces:
                    pieces += [Piece(f"  {label:<8}", "lines--dim"), Piece(f"{value:>8}")]
                else:
                    pieces += [Piece(padded(label, _LABEL), "lines--dim"), Piece(f"{value:>{cell}}")]
            rows.append(Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis)))
        return rows

    def _heading(self, text: str) -> Row:
        return Row(clip_row((Piece(text, "lines--strong"),), self.row_width, self.glyphs.ellipsis))

    def _ttft(self, measures: Measures) -> str:
        return self._absent if measures.ttft_ms is None else f"{measures.ttft_ms:.0f} ms"

    def _predicted(self, measures: Measures) -> str:
        speedup = measures.predicted_speedup
        return self._absent if speedup is None else f"{speedup:.2f}x"

    def _memory_text(self) -> str:
        return self._absent if self._memory is None else size(self._memory)

    def _positions(self, measures: Measures) -> list[Row]:
        """A column for each place in the draft: how often all drafts up to it were accepted."""
        shares = measures.acceptance_by_position
        if not shares:
            return []
        glyphs = self.glyphs
        room = max(self.row_width // _POSITION, 1)
        cut = shares[:room]
        heights = sparkline(cut, glyphs, top=1.0)
        numbers = "".join(f"{index + 1:>{_POSITION}}" for index in range(len(cut)))
        bars = "".join(f"{height:>{_POSITION}}" for height in heights)
        rates = "".join(f"{share:>{_POSITION}.0%}" for share in cut)
        heading = (
            "accepted up to draft" if len(cut) == len(shares) else f"accepted up to draft (of {len(shares)})"
        )
        return [
            self._heading(heading),
            Row((Piece(numbers, "lines--dim"),)),
            Row((Piece(bars, "gauge--position"),)),
            Row((Piece(rates),)),
        ]

    def _spark(self) -> list[Row]:
        """Tokens of the newest rounds of the segment."""
        state = self._state
        start = max(state.segment_start, len(state.rounds) - self.row_width)
        rounds = state.rounds[start:]
        if not rounds:
            return []
        top = max(round_.k for round_ in rounds) + 1
        line = sparkline((len(round_.tokens) for round_ in rounds), self.glyphs, top=top)
        return [self._heading(f"tokens a round (up to {top})"), Row((Piece(line, "lines--target"),))]

    def _line(self) -> Row:
        """The one line of the compact form."""
        measures, absent = self._state.segment, self._absent
        speedup = f"speedup {absent}" if measures.speedup is None else f"{measures.speedup:.2f}x"
        parts = [
            ("tok/s", shown(measures.tokens_per_second, ".1f", absent)),
            ("plain", shown(measures.baseline_tokens_per_second, ".1f", absent)),
            ("tau", shown(measures.tau, ".2f", absent)),
            ("alpha", shown(measures.alpha_hat, ".2f", absent)),
            ("eff", shown(measures.draft_efficiency, ".0%", absent)),
            ("TTFT", self._ttft(self._state.total)),
            ("mem", self._memory_text()),
        ]
        word = "" if measures.speedup is None else _OUTCOMES[outcome(measures.speedup)][1]
        word += f" ({SYNTHETIC})" if self._is_synthetic else ""
        pieces: tuple[Piece, ...] = (Piece(speedup + word, self._style(measures.speedup)),)
        for name, value in parts:
            more = (*pieces, Piece(f"  {name} ", "lines--dim"), Piece(value))
            pieces = fitting(self.row_width, more, pieces)  # whole measures only
        return Row(clip_row(pieces, self.row_width, self.glyphs.ellipsis))
