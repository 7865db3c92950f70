"""Ways to run a model's forward pass: what a CausalLM decodes with."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from engine.kv_cache import KVCache
from engine.models import attention


class Forward(Protocol):
    """One pass over n ids that follow a cache, which grows by n."""

    block: int
    """The cache shows positions in multiples of this many."""

    def logits(self, ids: Tensor, cache: KVCache, keep: int) -> Tensor:
        """Logits of the last ``keep`` of the ids.  # (n,) -> (keep, V)"""
        ...

    def extend(self, ids: Tensor, cache: KVCache) -> None:
        """Only the keys and values of the ids.  # (n,)"""
        ...


class EagerForward:
    """transformers' own forward pass, with attention that is indifferent to the number of rows where that
    costs nothing."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._decoder = model.get_decoder()
        parameters = inspect.signature(model.forward).parameters
        self._keeps_logits = "logits_to_keep" in parameters
        # transformers renamed the argument in 5.20.
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._row_invariant = attention.fits(model)
        self.block = attention.BLOCK if self._row_invariant else 1

    def logits(self, ids: Tensor, cache: KVCache, keep: int) -> Tensor:
        arguments: dict[str, Any] = {"logits_to_keep": keep} if self._keeps_logits else {}
        with self._attention():
            logits: Tensor = self._model(**self._inputs(ids, cache), **arguments).logits
        return logits[0, -keep:]

    def extend(self, ids: Tensor, cache: KVCache) -> None:
        with self._attention():
            self._decoder(**self._inputs(ids, cache))

    def _attention(self) -> AbstractContextManager[None]:
        return attention.row_invariant(self._model) if self._row_invariant else nullcontext()

    def _inputs(self, ids: Tensor, cache: KVCache) -> dict[str, Any]:
        return {
            "input_ids": ids[None],  # (1, n)
            self._cache_name: cache.transformers_cache,
            "use_cache": True,
        }
