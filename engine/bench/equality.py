"""Whether two greedy answers are the same text, and if not, whether a tie of two tokens explains it.

Passes of different widths round differently, so float32 leaves one way for two correct decoders to part: at a
token where the two likeliest lie closer together than widths move them. What widths do is measured here with
the model's own forward pass and transformers' own cache, not with the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.models.causal_lm import CausalLM


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two answers to one prompt compare."""

    first_difference: int | None = None
    """Index of the first token that differs; None if none does."""
    gap: float = 0.0
    """There: how far the worse of the two tokens is below the likeliest one, in logits."""
    change: float = 0.0
    """There: the most that any difference of two logits changes between passes of one row and of several."""

    @property
    def same(self) -> bool:
        """Token for token."""
        return self.first_difference is None

    @property
    def tied(self) -> bool:
        """They differ, but first at a token that rounding may choose."""
        return not self.same and self.gap <= self.change


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first token that differs between two answers of the same length; None if none does."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)


def compare(
    model: CausalLM, prompt: Sequence[int], one: Sequence[int], other: Sequence[int], k: int
) -> Agreement:
    """Compare two answers of the same length.

    Args:
        k: draft tokens a round; passes of 1 to K+1 rows are measured against each other.
    """
    at = first_difference(one, other)
    if at is None:
        return Agreement()
    shared = list(one[:at])
    # As transformers' generate reads it: the whole prompt in one pass, then one token a pass.
    reference = next_logits(model, list(prompt), shared, 1)  # (V,)
    gap = float(reference.max() - reference[[one[at], other[at]]].min())
    change = 0.0
    for width in range(1, k + 2):
        # As this engine reads it: the last token of the prompt belongs to the first of the wider passes.
        moved = next_logits(model, list(prompt[:-1]), [prompt[-1], *shared], width) - reference  # (V,)
        change = max(change, float(moved.max() - moved.min()))
    return Agreement(at, gap, change)


@torch.inference_mode()
def next_logits(model: CausalLM, head: list[int], rest: list[int], width: int) -> Tensor:
    """Logits after head and rest: the head in one pass, the rest in passes of ``width``, the last one full.

    They come from the model's own forward pass and transformers' own cache.  # (V,)
    """
    odd = len(rest) % width
    passes = [head, rest[:odd], *(rest[start : start + width] for start in range(odd, len(rest), width))]
    cache, logits = None, torch.empty(0)
    for ids in filter(None, passes):
        given: dict[str, Any] = {} if cache is None else {"cache": cache}
        output = model.model(
            input_ids=torch.tensor([ids], device=model.device), use_cache=True, logits_to_keep=1, **given
        )
        cache, logits = output.cache, output.logits[0, -1, : model.vocab_size].float()
    return logits
