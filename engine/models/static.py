"""Passes through the lean layers, each captured as one call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from engine.kv_cache import KVCache
from engine.models.attention import BLOCK, TILE
from engine.models.capture import Capture, Layered, capture_for
from engine.models.lean import (
    WIDE,
    Layer,
    LeanForward,
    Norm,
    Places,
    shape_of,
    tensors_of,
    with_tensors,
)
from engine.models.projection import Projection

_GRAPH_BLOCK = 256
"""On a GPU a length of the text that is new needs a new graph, so there are fewer of them."""


class StaticForward:
    """Passes of one model through its lean layers.

    Args:
        lean: the layers.
        capture: how a pass becomes one call; None: as the device can.
    """

    def __init__(self, lean: LeanForward, capture: Capture | None = None) -> None:
        self._lean = lean
        self._capture = capture or capture_for(lean.device)
        self.block = _GRAPH_BLOCK if lean.device.type == "cuda" else BLOCK
        self._layers = {wide: self._layered(wide) for wide in (False, True)}
        self._shape = shape_of(lean)
        self._cos = self._sin = torch.empty(0)
        self._like = torch.empty((1, lean.kv_heads, 0, lean.size), dtype=lean.dtype, device=lean.device)

    def logits(self, ids: Tensor, cache: KVCache, keep: int) -> Tensor:
        n, at = ids.shape[0], len(cache)
        keys, values = cache.opened(n, self._like)
        ids, places = self._none_alone(ids), self._places(at, n, keys[0].shape[2])
        rows = self._none_alone(self._span(n - keep, n))
        inputs = (ids, rows, places.positions, places.cos, places.sin, places.mask)
        wide = keep >= WIDE
        logits = self._capture((self._shape, wide), self._layers[wide], inputs, (keys, values))
        cache.advance(n)
        return logits[:keep]

    def extend(self, ids: Tensor, cache: KVCache) -> None:
        n, at = ids.shape[0], len(cache)
        keys, values = cache.opened(n, self._like)
        places = self._places(at, n, keys[0].shape[2])
        self._lean.hidden(self._none_alone(ids), places, keys, values)
        cache.advance(n)

    def _layered(self, wide: bool) -> Layered:
        weights = self._lean.weights
        first, last = weights.layers[0], (weights.norm, weights.wide_head if wide else weights.head)
        return Layered(
            whole=partial(self._whole, wide),
            layer=partial(_traced_layer, self._lean, first),
            end=partial(_traced_end, last),
            table=weights.table,
            layers=[tensors_of(layer) for layer in weights.layers],
            last=tensors_of(last),
            alike=len({shape_of(layer) for layer in weights.layers}) == 1,
        )

    def _whole(
        self, wide: bool, ids: Tensor, rows: Tensor, positions: Tensor, cos: Tensor, sin: Tensor,
        mask: Tensor, keys: Sequence[Tensor], values: Sequence[Tensor],
    ) -> Tensor:  # fmt: skip
        hidden = self._lean.hidden(ids, Places(positions, cos, sin, mask), keys, values)  # (n, M)
        return self._lean.logits(hidden.index_select(0, rows), wide)

    def _none_alone(self, rows: Tensor) -> Tensor:
        """The last row twice, where it would be alone in a product or in a tile of attention: rows that are
        take another kernel, which rounds otherwise.  # (n, ...) -> (n or n + 1, ...)"""
        n = rows.shape[0]
        alone = n == 1 or self._lean.shared * n % TILE == 1
        return torch.cat([rows, rows[-1:]]) if self._lean.turned and alone else rows

    def _span(self, start: int, end: int) -> Tensor:
        return torch.arange(start, end, device=self._lean.device)

    def _places(self, start: int, n: int, shown: int) -> Places:
        """What a pass over n ids from ``start`` on needs, with ``shown`` positions to look at."""
        lean = self._lean
        if self._cos.shape[0] < start + n:
            self._cos, self._sin = lean.rotary(2 * max(start + n, 512))
        positions = self._none_alone(self._span(start, start + n))
        looking = positions if n > 1 else positions[:1]
        hidden = self._span(0, shown) > looking[:, None]  # (n, m)
        mask = torch.zeros(hidden.shape, dtype=lean.dtype, device=lean.device)
        mask.masked_fill_(hidden, -torch.inf)
        if n > 1:
            mask = mask.repeat(lean.shared, 1)
        cos, sin = (
            self._none_alone(table[start : start + n]) for table in (self._cos, self._sin)
        )  # (n, 1, D)
        return Places(positions, cos, sin, mask)


def _traced_layer(
    lean: LeanForward, layer: Layer, x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, mask: Tensor,
    keys: Tensor, values: Tensor, tensors: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    """A layer of this kind with other tensors."""
    return lean.layer(with_tensors(layer, iter(tensors)), x, Places(positions, cos, sin, mask), keys, values)


def _traced_end(last: tuple[Norm, Projection], rows: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    norm, head = with_tensors(last, iter(tensors))
    logits: Tensor = head(norm(rows))
    return logits
