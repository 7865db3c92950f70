"""Which way a model's passes run, and why: chosen by measurement where ``run.optimize`` is "auto"."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from engine.errors import ConfigError
from engine.models.capture import Uncaptured
from engine.models.forward import EagerForward, Forward
from engine.models.lean import LeanForward, why_not
from engine.models.static import StaticForward

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

Optimize = Literal["auto", "eager", "static", "compile"]
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.1}
"""How far logits of two ways may lie apart, relative to their size; measured: 2e-6 in float32, 0.03 in
bfloat16, whose two sums are equally far from float32's."""
_IDS = 12
"""Ids the ways are compared on."""
_REPEATS = 3


def optimize(lm: CausalLM, wanted: Optimize = "auto") -> str:
    """Set the way the model's passes run; says which it is and why.

    Such as "static: a pass of one row takes 18.2 ms, 35.2 as eager".

    Raises ConfigError where a way was asked for by name that this model cannot go.
    """
    way, reason, forward = _chosen(lm, wanted)
    lm.way, lm.asked = forward, wanted
    lm.info = replace(lm.info, passes=way)
    return f"{way}: {reason}"


def _chosen(lm: CausalLM, wanted: Optimize) -> tuple[str, str, Forward]:
    eager = EagerForward(lm.model)
    if wanted == "eager":
        return "eager", "as configured", eager
    obstacle = why_not(lm.model)
    ours = None if obstacle else _built(lm, compiled=wanted == "compile")
    if ours is not None:
        obstacle = _disagreement(lm, ours, eager)
    if ours is None or obstacle is not None:
        if wanted == "auto":
            return "eager", f"{obstacle}", eager
        raise ConfigError(
            f"run.optimize = {wanted!r} does not fit {lm.info.name}: {obstacle}",
            'use run.optimize = "auto"',
        )
    if wanted != "auto":
        return wanted, "as configured", ours
    static_ms, eager_ms = _times(lm, ours, eager)
    if static_ms < eager_ms:
        return "static", f"a pass of one row takes {static_ms:.1f} ms, {eager_ms:.1f} as eager", ours
    return "eager", f"a pass of one row takes {eager_ms:.1f} ms, {static_ms:.1f} as static", eager


def _built(lm: CausalLM, *, compiled: bool) -> StaticForward:
    lean = LeanForward(lm.model, compiled=compiled)
    # A trace runs the operators it saw, not the kernels that were compiled of them.
    capture = Uncaptured() if compiled and lean.device.type == "cpu" else None
    return StaticForward(lean, capture)


@torch.inference_mode()
def _disagreement(lm: CausalLM, ours: Forward, theirs: Forward) -> str | None:
    """What is wrong with our layers for this model: they must run, and give transformers' own logits."""
    try:
        one, other = (_logits(lm, way).float() for way in (ours, theirs))
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # no compiler here, or a kernel that this device lacks
        return f"our layers do not run here ({str(error).splitlines()[0][:200]})"
    apart = float((one - other).norm() / other.norm())
    # What goes into a quantised matrix is rounded to bfloat16, whatever comes out.
    rounded = lm.info.quantized and lm.model.dtype != torch.float64
    if apart <= _TOLERANCE.get(torch.bfloat16 if rounded else lm.model.dtype, 0):
        return None
    return f"our layers give other logits than transformers' own (relative error {apart:.2g})"


def _logits(lm: CausalLM, way: Forward) -> Tensor:
    """Of a few ids, half of them taken in before.  # (n, V)

    A pass over other ids of the same shape comes first, so that what is captured there is judged here.
    """
    n = min(_IDS, lm.context_length) // 2
    ids = torch.arange(2 * n, device=lm.device) * 7 % lm.vocab_size
    cache = lm.new_cache(way)
    way.extend(ids[:n], cache)
    way.logits(ids[:n], cache, n)
    cache.truncate(n)
    return way.logits(ids[n:], cache, n)


@torch.inference_mode()
def _times(lm: CausalLM, *ways: Forward) -> list[float]:
    """Milliseconds of a pass of one row, the best of a few, in turns."""
    caches = [lm.new_cache(way) for way in ways]
    ids = torch.zeros(1, dtype=torch.long, device=lm.device)
    best = [float("inf")] * len(ways)
    for repeat in range(_REPEATS + 1):
        for index, (way, cache) in enumerate(zip(ways, caches, strict=True)):
            cache.truncate(0)
            start = time.perf_counter()
            way.logits(ids, cache, 1)
            if lm.device.type != "cpu":
                torch.accelerator.synchronize(lm.device)
            ms = (time.perf_counter() - start) * 1e3
            if repeat:  # the first of its shape makes kernels
                best[index] = min(best[index], ms)
    return best
