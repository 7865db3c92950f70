"""Where a run left the text that plain decoding writes: a numerical tie, or a bug?

A run at temperature 0, or under a rule that follows the seed, must repeat plain decoding token for
token. In most number formats it can part from it without a fault: the target's pass over one row and its
pass over K+1 rows round differently, and two tokens may lie closer together than that. How much the two
passes differ is measured at the very place, by passes that only append to a fresh cache: a rewind that
went wrong is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.draws import Draws
from engine.models.causal_lm import CausalLM
from engine.prefill import prefill
from engine.sampling import Law


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


@torch.inference_mode()
def examine(
    target: CausalLM, law: Law, draws: Draws, parting: Parting, width: int, cancelled: Callable[[], bool]
) -> tuple[float, float] | None:
    """How far apart the two tokens are in the plain pass, and how much passes of several rows change that.

    Passes of ``width`` rows come first, as the rounds had them; narrower ones follow while the gap is not
    explained. None if it was cancelled. Units as in ``engine.events.Divergence``.
    """
    position = len(parting.prompt) + len(parting.shared)
    gap = _gap(law, draws, parting, position)
    change = 0.0
    for rows in sorted({2, max(2, width // 2), width}, reverse=True):
        logits = _logits(target, parting, rows, cancelled)
        if logits is None:
            return None
        scores = law.process(logits, [*parting.prompt, *parting.shared])[0]  # (V,)
        change = max(change, _change(law, draws, parting.scores, scores))
        if gap <= change:
            break
    return gap, change


def _gap(law: Law, draws: Draws, parting: Parting, position: int) -> float:
    if law.greedy:
        return float(parting.scores[parting.plain] - parting.scores[parting.written])
    return draws.distance(law.probabilities(parting.scores[None])[0], position, parting.written)


def _change(law: Law, draws: Draws, one: Tensor, other: Tensor) -> float:
    if not law.greedy:
        return draws.shift(*(law.probabilities(scores[None])[0] for scores in (one, other)))
    moved = (other - one)[one.isfinite() & other.isfinite()]
    return float(moved.max() - moved.min())


def _logits(target: CausalLM, parting: Parting, rows: int, cancelled: Callable[[], bool]) -> Tensor | None:
    """Logits after the shared tokens, by passes of this many rows, the last one full.  # (1, V)"""
    cache = target.new_cache()
    for _ in prefill(target, cache, list(parting.prompt)):
        if cancelled():
            return None
    rest = [parting.prompt[-1], *parting.shared]
    logits = torch.empty(0)
    for end in range(len(rest) % rows or rows, len(rest) + 1, rows):
        if cancelled():
            return None
        logits = target.forward(rest[len(cache) - len(parting.prompt) + 1 : end], cache, keep=1)  # (1, V)
    target.clock.take_ms()
    return logits
