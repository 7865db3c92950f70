"""What plain steps, passes and drafts cost here and now, on the live models and caches, left as they are.

Everything is timed whole and by the code that runs it otherwise: plain steps by ``PlainDecoder``, rounds of
each width by ``Speculator`` with a draft that is there already, drafting by the drafter itself. Each width is
run once before it counts. The cache is rewound after every sample, chance is keyed by position and no drafter
is told what became of its drafts, so the run that follows writes what it would have written.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import torch

from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.costs import ROWS, Costs, DraftCost, RoundCost
from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.draws import Draws
from engine.errors import OutOfMemory
from engine.events import Settings
from engine.memory_bandwidth import best_gbs, bytes_a_token
from engine.pair import Pair, map_torch_errors
from engine.sampling import Law

BUDGET_S = 2.0
"""Time for all samples; a machine on which a plain step is slow gets that of ``BUDGET_STEPS`` of them."""
BUDGET_STEPS = 10
SAMPLES = 3
"""Of each kind, where the time lasts."""
_DRAFTS = (1, 2, 4, 8, 16)
"""Lengths of draft that are timed, up to the run's own."""
_FEWEST = (1, 2)
"""Those that are timed whatever the run's own is: by one alone a longer draft would seem to cost no more."""


@dataclass(slots=True)
class _Samples:
    """Pairs of milliseconds of everything that is measured, by kind and size."""

    plain: list[tuple[float, float]] = field(default_factory=list)
    """Pass and host of each plain step."""
    rounds: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """Pass and host of rounds, by rows."""
    drafts: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By source and length."""


class Calibrator:
    """Measures a pair at the end of a text.

    Args:
        pair: its caches hold all tokens but the newest.
        settings: what it drafts and judges with.
        tokens: committed ids, the prompt first.
        cancelled: asked between samples.
    """

    def __init__(
        self, pair: Pair, settings: Settings, tokens: list[int], cancelled: Callable[[], bool]
    ) -> None:
        self._pair, self._settings, self._tokens, self._cancelled = pair, settings, tokens, cancelled
        self._law, self._draws = Law(settings), pair.draws(settings)
        self._room = pair.target.context_length - len(tokens)
        self._given = _Given(pair.drafter.context)
        self._samples = _Samples()
        self._tried: set[tuple[str, int]] = set()  # source and length of the drafts that were asked for

    def costs(self) -> Costs | None:
        """Measure; None where it was cancelled, or the text leaves no room for a step."""
        start = time.perf_counter()
        if self._room < 1:
            return None
        deadline = start + BUDGET_S
        for sample in self._order():
            if self._cancelled():
                return None
            sample()
            if len(self._samples.plain) == 1:
                deadline = start + max(BUDGET_S, BUDGET_STEPS * sum(self._samples.plain[0]) / 1e3)
            if time.perf_counter() > deadline and self._is_enough():
                break
        return self._medians((time.perf_counter() - start) * 1e3)

    def _order(self) -> Iterator[Callable[[], None]]:
        """What matters most first: plain steps, the run's own width and draft; then the rest; all again."""
        own = self._own_rows
        widths = [own, *(rows for rows in ROWS if rows != own and rows <= self._room)]
        longest = max(own - 1, *_FEWEST)
        own_lengths = self._own_lengths
        lengths = [*own_lengths, *(k for k in reversed(_DRAFTS) if k <= longest and k not in own_lengths)]
        parts = self._pair.drafter.parts()
        yield self._plain_step  # once before it counts
        self._samples.plain.clear()
        for source, part in parts.items():
            yield partial(self._draft, source, part, longest, counts=False)
        for _ in range(SAMPLES):
            yield self._plain_step
            for rows in widths[:1]:
                yield from self._rounds(rows)
            for source, part in parts.items():
                for k in lengths:
                    yield partial(self._draft, source, part, k)
            for rows in widths[1:]:
                yield from self._rounds(rows)

    def _rounds(self, rows: int) -> Iterator[Callable[[], None]]:
        """A round of a width; before it one that does not count, if the pair never ran it."""
        if rows not in self._pair.warmed:
            self._pair.warmed.add(rows)
            yield partial(self._round, rows, counts=False)
        yield partial(self._round, rows)

    def _is_enough(self) -> bool:
        """Whether there is one sample of what the run itself will do, and of two lengths of every part's
        drafts: one of them would say nothing of another K."""
        wanted = {(source, k) for source in self._pair.drafter.parts() for k in self._own_lengths}
        return bool(self._samples.plain and self._samples.rounds) and self._tried >= wanted

    @property
    def _own_rows(self) -> int:
        """Rows of the run's own passes, as far as they are measured and fit."""
        return min(self._settings.num_draft_tokens + 1, ROWS[-1], self._room)

    @property
    def _own_lengths(self) -> tuple[int, ...]:
        """The run's own length of draft, and a second one."""
        own = self._own_rows - 1
        return (own, 1) if own > 1 else _FEWEST

    # -- one sample each

    def _answer(self) -> Answer:
        limits = Limits(self._room, self._pair.target.context_length)
        return Answer(self._tokens, self._pair.target.text, limits)

    def _plain_step(self) -> None:
        decoder = self._pair.plain_decoder(self._settings, _stamp)
        step = decoder.step(self._answer(), 1)
        self._samples.plain.append((step.verify_ms, step.host_ms))
        self._rewind()

    def _round(self, rows: int, *, counts: bool = True) -> None:
        speculator = self._pair.speculator(self._settings, 0, _stamp)
        speculator.drafter, speculator.chooser = self._given, FixedLength(rows - 1)
        round_ = speculator.round(self._answer(), 1)
        if counts:
            self._samples.rounds[rows].append((round_.verify_ms, round_.host_ms + round_.draft_ms))
        self._rewind()

    @torch.inference_mode()
    def _draft(self, source: str, part: Drafter, k: int, *, counts: bool = True) -> None:
        start = time.perf_counter_ns()
        draft = part.propose(self._tokens, k, self._law, self._draws)
        drafted = len(draft.ids.tolist())  # waits for a device
        ms = (time.perf_counter_ns() - start) / 1e6
        part.take_ms()
        if counts:
            self._tried.add((source, k))
        if counts and (drafted or part.model_info is None):  # a model that cannot go on has not drafted
            self._samples.drafts[source, k].append(ms)
        if drafted > len(self._given.draft.ids):
            self._given.draft = draft

    def _rewind(self) -> None:
        self._pair.cache.truncate(len(self._tokens) - 1)

    # -- the sum

    def _medians(self, took_ms: float) -> Costs:
        samples, target = self._samples, self._pair.target
        plain_pass, plain_host = _median_pair(samples.plain)
        if 1 not in samples.rounds:  # no time was left: narrow rounds must not cost what wide ones do
            samples.rounds[1] = samples.plain
        return Costs(
            context_length=len(self._tokens),
            plain_pass_ms=plain_pass,
            plain_host_ms=plain_host,
            rounds=tuple(
                RoundCost(rows, *_median_pair(found)) for rows, found in sorted(samples.rounds.items())
            ),
            drafts=tuple(
                DraftCost(source, k, median(found)) for (source, k), found in sorted(samples.drafts.items())
            ),
            took_ms=took_ms,
            bandwidth_gbs=bytes_a_token(target) / plain_pass / 1e6 if plain_pass else None,
            copy_gbs=_copy_gbs(target.device),
        )


def _copy_gbs(device: torch.device) -> float | None:
    """What memory gives at best; None where there is no room to find out, which must not end a run."""
    try:
        with map_torch_errors():
            return best_gbs(device)
    except OutOfMemory:
        return None


class _Given(Drafter):
    """Gives a draft that is there already, over and over where more is asked for."""

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        self.draft = Draft(torch.empty(0, dtype=torch.long))

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        known = self.draft
        if not len(known.ids):
            return Draft(torch.full((k,), tokens[-1], dtype=torch.long))
        rows = torch.arange(k, device=known.ids.device) % len(known.ids)  # (k,)
        q, top = (None if rows_of is None else rows_of[rows] for rows_of in (known.q, known.top))
        return Draft(known.ids[rows], q, top)

    def take_ms(self) -> float:
        return 0.0


def _stamp() -> tuple[int, int]:
    """Of events that nobody is told."""
    return 0, 0


def _median_pair(found: list[tuple[float, float]]) -> tuple[float, float]:
    one, other = zip(*found, strict=True)
    return median(one), median(other)
