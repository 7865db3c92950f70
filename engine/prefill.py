"""Taking in a prompt: chunk by chunk, so that it can show progress and be cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.kv_cache import KVCache, common_prefix

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

CHUNK = 256
"""Tokens a pass: wide enough for the device, small enough for memory and for a quick cancel."""


def rewind_to_prefix(cache: KVCache, held: list[int], tokens: list[int]) -> int:
    """Keep what the cache shares with ``tokens[:-1]``; returns its new length.

    Args:
        held: the ids whose keys and values the cache holds, or more.
    """
    common = min(common_prefix(held, tokens), len(tokens) - 1, len(cache))
    cache.truncate(common)
    return common


def catch_up(model: CausalLM, cache: KVCache, tokens: list[int]) -> bool:
    """Take in what is too long for the first pass of a draft; whether there was any such thing.

    A drafter that was not asked for a while lacks all that was written since.
    """
    if len(tokens) - 1 - len(cache) <= CHUNK:
        return False
    for _ in prefill(model, cache, tokens):
        pass
    return True


def prefill(model: CausalLM, cache: KVCache, tokens: list[int]) -> Iterator[int]:
    """Fill the cache up to ``tokens[:-1]``; yields the number of tokens done after each chunk.

    The last token is left for the first round, which needs its logits. Between chunks the caller may stop.
    """
    first = len(cache)
    for start in range(first, len(tokens) - 1, CHUNK):
        chunk = tokens[start : min(start + CHUNK, len(tokens) - 1)]
        try:
            model.extend(chunk, cache)
        except BaseException:
            cache.truncate(start)  # some layers may have taken the chunk in, others not
            raise
        yield start + len(chunk) - first
