"""Keys and values of the committed tokens, preallocated, with a rewind that moves a counter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from engine.errors import ModelUnsupported

_STEP = 256
"""Capacity is a multiple of this many positions."""


class PreallocatedLayer(CacheLayerMixin):
    """One attention layer, sliding-window ones included: it keeps ALL positions.

    The model's own mask applies the window (``get_mask_sizes`` offers every position), so a token that left
    the window is still there when a rewind brings it back in.
    """

    is_compileable = False
    is_croppable = True

    def __init__(self, owner: KVCache, is_sliding: bool, sliding_window: int | None) -> None:
        super().__init__()
        self._owner = owner
        self.is_sliding = is_sliding
        self.sliding_window = sliding_window
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_empty((*key_states.shape[:2], 0, key_states.shape[3]))  # (1, H, 0, D)
        self.values = value_states.new_empty((*value_states.shape[:2], 0, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append n positions and return all of them, as views, up to the next block.  # (1, H, m, D) each"""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, end = self.length, self.length + key_states.shape[2]
        self.make_room(end)
        assert self.keys is not None and self.values is not None
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        self.length = end
        shown = self._owner.shown(end)
        return self.keys[:, :, :shown], self.values[:, :, :shown]

    def make_room(self, end: int) -> None:
        """Hold at least ``end`` positions. If memory runs out the tensors stay as they are."""
        assert self.keys is not None and self.values is not None
        if end <= self.keys.shape[2]:
            return
        self._owner.forget_views()
        capacity = -(-max(end, self._owner.reserved) // _STEP) * _STEP
        keys, values = (_grown(held, capacity, self.length) for held in (self.keys, self.values))
        self.keys, self.values = keys, values

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._owner.shown(self.length + query_length), 0

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self.length = 0


class KVCache:
    """The cache of one sequence. Its length counts tokens.

    Args:
        config: the model's configuration.
        block: passes see positions in multiples of this many; they have to mask what lies behind the newest.

    Raises:
        ModelUnsupported: a layer keeps a state that cannot be rewound.
    """

    def __init__(self, config: PreTrainedConfig, block: int = 1) -> None:
        assert _STEP % block == 0, "a layer's capacity holds whole blocks"
        self.reserved = 0
        self._block = block
        self._views: tuple[int, list[Tensor], list[Tensor]] | None = None
        self._layers: list[PreallocatedLayer] = []
        layers: list[Any] = []
        for index, layer in enumerate(DynamicCache(config=config).layers):
            # Exact classes: a subclass keeps something more (an indexer, a recurrent state).
            if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer):
                own = PreallocatedLayer(self, layer.is_sliding, getattr(layer, "sliding_window", None))
                self._layers.append(own)
                layers.append(own)
            elif isinstance(layer, DummyLayer):  # it keeps nothing: no attention, or another layer's keys
                layers.append(layer)
            else:
                raise ModelUnsupported(
                    f"{config.model_type}: layer {index} keeps a state ({type(layer).__name__}) "
                    "that cannot be rewound after a rejected draft",
                    hint="choose a model whose layers are all attention layers",
                )
        if not self._layers:
            raise ModelUnsupported(
                f"{config.model_type} has no attention layers: a recurrent state cannot be rewound after a "
                "rejected draft",
                hint="choose a model whose layers are all attention layers",
            )
        self.transformers_cache = Cache(layers=layers)

    def __len__(self) -> int:
        """Tokens held."""
        return self._layers[0].length

    def opened(self, n: int, like: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Keys and values of every layer with room for n more positions, up to the last one a pass over them
        is shown.  # (1, G, m, D) each

        For a pass that writes them itself and then calls ``advance``; until then the length stays.

        Args:
            like: a tensor of their heads, size, number format and device.  # (1, G, any, D)
        """
        end = len(self) + n
        shown = self.shown(end)
        for layer in self._layers:
            if not layer.is_initialized:
                layer.lazy_initialization(like, like)
            layer.make_room(end)
        if self._views is None or self._views[0] != shown:
            keys = [layer.keys[:, :, :shown] for layer in self._layers if layer.keys is not None]
            values = [layer.values[:, :, :shown] for layer in self._layers if layer.values is not None]
            self._views = shown, keys, values
        return self._views[1:]

    def forget_views(self) -> None:
        """What ``opened`` gave lies elsewhere soon."""
        self._views = None

    def advance(self, n: int) -> None:
        """Count n more positions as held."""
        for layer in self._layers:
            layer.length += n

    def reserve(self, tokens: int) -> None:
        """Have room for this many tokens the next time a layer must grow, so that it grows once."""
        self.reserved = tokens

    def shown(self, length: int) -> int:
        """Positions that a pass is shown when ``length`` are held."""
        return -(-length // self._block) * self._block

    def clear(self) -> None:
        """Forget everything, a NaN that a broken pass left behind too; what was allocated stays."""
        self.wipe(0)

    @torch.inference_mode()
    def wipe(self, length: int) -> None:
        """As ``truncate``, and leave nothing of what is forgotten, not even where it is masked."""
        self.truncate(length)
        for layer in self._layers:
            for held in (layer.keys, layer.values):
                if held is not None:
                    held[:, :, layer.length :].zero_()

    def truncate(self, length: int) -> None:
        """Forget every position from ``length`` on, also after a pass that failed midway."""
        for layer in self._layers:
            layer.length = min(layer.length, length)

    def check_length(self, expected: int, model_type: str) -> None:
        """Make sure that every layer took part in the passes so far.

        Raises:
            ModelUnsupported: the model keeps its state somewhere else.
        """
        for index, layer in enumerate(self._layers):
            # A layer that shares the keys of another one is never filled.
            if layer.length != expected and (layer.is_initialized or index == 0):
                raise ModelUnsupported(
                    f"{model_type} does not keep its state as keys and values (layer {index} holds "
                    f"{layer.length} of {expected} tokens), so it cannot be rewound after a rejected draft",
                    hint="choose a model whose layers are all attention layers",
                )

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(t.nbytes for layer in self._layers for t in (layer.keys, layer.values) if t is not None)


def _grown(old: Tensor, capacity: int, length: int) -> Tensor:
    # Zeros: what is masked counts 0 times, and 0 times a NaN would be one.
    new = old.new_zeros((*old.shape[:2], capacity, old.shape[3]))  # (1, H, capacity, D)
    new[:, :, :length] = old[:, :, :length]
    return new


def common_prefix(a: list[int], b: list[int]) -> int:
    """Number of leading entries that agree."""
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return shorter
    low, high = 0, shorter  # a[:low] agrees, a[:high] does not
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def as_ids(ids: list[int] | Tensor, device: torch.device) -> Tensor:
    """Ids as the model takes them.  # (n,)"""
    if isinstance(ids, Tensor):
        return ids.to(device)
    return torch.tensor(ids, dtype=torch.long, device=device)
