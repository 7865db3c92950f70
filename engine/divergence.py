"""Where a run left the text that plain decoding writes: a numerical tie, or a bug?

A run at temperature 0, or under a rule that follows the seed, must repeat plain decoding token for token. In
most number formats it can part from it without a fault: the target's passes over one row and over several
round differently, and two tokens may lie closer together than that. So the run's own passes are repeated at
the very place, on a fresh cache in which nothing that was rejected stays behind: what they change against the
plain pass is rounding, and a rewind that went wrong is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.draws import Draws
from engine.models.causal_lm import CausalLM
from engine.prefill import prefill
from engine.sampling import Law

_LARGEST = torch.finfo(torch.float32).max
"""Stands for an infinite distance, which no event can hold: the token was excluded."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first token in which two texts differ."""

    prompt: Sequence[int]
    shared: Sequence[int]
    """Tokens of the answer before it."""
    written: int
    """The run's token."""
    plain: int
    scores: Tensor
    """Processed logits of the plain pass that chose ``plain``.  # (V,)"""
    passes: Iterable[tuple[int, list[int]]] = ()
    """Position and ids of what the run fed the target, pass by pass."""

    @property
    def position(self) -> int:
        """Tokens before the one that differs."""
        return len(self.prompt) + len(self.shared)


@torch.inference_mode()
def examine(
    target: CausalLM, law: Law, draws: Draws, parting: Parting, width: int, cancelled: Callable[[], bool]
) -> tuple[float, float] | None:
    """How far apart the two tokens are in the plain pass, and how much other passes change that.

    The run's own passes come first; passes of ``width`` rows, of half as many and of two follow while the gap
    is not explained. None if it was cancelled. Units as in ``engine.events.Divergence``.
    """
    gap, change = _gap(law, draws, parting), 0.0
    history = [*parting.prompt, *parting.shared]
    for passes in _shapes(parting, width):
        logits = _repeated(target, parting, passes, cancelled)
        if logits is None:
            return None
        if len(logits):
            scores = law.process(logits, history)[0]  # (V,)
            change = max(change, _change(law, draws, parting.scores, scores))
        if gap <= change:
            break
    return gap, change


def _gap(law: Law, draws: Draws, parting: Parting) -> float:
    if law.greedy:
        return min(float(parting.scores[parting.plain] - parting.scores[parting.written]), _LARGEST)
    return draws.distance(law.probabilities(parting.scores[None])[0], parting.position, parting.written)


def _change(law: Law, draws: Draws, one: Tensor, other: Tensor) -> float:
    if not law.greedy:
        return draws.shift(*(law.probabilities(scores[None])[0] for scores in (one, other)))
    moved = (other - one)[one.isfinite() & other.isfinite()]
    return float(moved.max() - moved.min()) if len(moved) else 0.0


def _shapes(parting: Parting, width: int) -> Iterator[Iterable[tuple[int, list[int]]]]:
    """Ways to come to the place, as starts and ids of passes."""
    yield parting.passes
    first = len(parting.prompt) - 1
    rest = [parting.prompt[-1], *parting.shared]
    for rows in sorted({2, max(2, width // 2), width}, reverse=True):
        starts = range(len(rest) % rows - rows if len(rest) % rows else 0, len(rest), rows)
        yield [(first + max(0, at), rest[max(0, at) : at + rows]) for at in starts]


def _repeated(
    target: CausalLM,
    parting: Parting,
    passes: Iterable[tuple[int, list[int]]],
    cancelled: Callable[[], bool],
) -> Tensor | None:
    """Logits at the place by these passes; no row if they stop before it, None if cancelled.  # (0..1, V)"""
    cache = target.new_cache()
    for _ in prefill(target, cache, list(parting.prompt)):
        if cancelled():
            return None
    history = [*parting.prompt, *parting.shared]
    for start, ids in passes:
        if cancelled():
            return None
        if start > len(cache):
            break
        cache.wipe(start)
        logits = target.forward(ids, cache, keep=len(ids))  # (n, V)
        target.clock.take_ms()
        there = history[start:]  # a pass whose drafts fell before the place comes to it another time
        if there and ids[: len(there)] == there:
            return logits[len(there) - 1 : len(there)]
    return torch.empty(0, target.vocab_size)
