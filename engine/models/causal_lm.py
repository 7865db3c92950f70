"""A loaded causal language model, as the engine sees it: ids in, logits out, everything else hidden."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.clock import PassClock
from engine.events import ModelInfo
from engine.kv_cache import KVCache, as_ids
from engine.models import attention
from engine.models.token_text import TokenText


class CausalLM:
    """One copy of a model, with what is needed to decode from it.

    Args:
        model: a transformers causal LM in eval mode.
        text: its tokenizer.
        info: its name, size and place.
        eos_ids: the ids that end an answer.
        generation_defaults: what ``engine.models.generation_config`` found in the model's own settings.
        context_length: tokens its positions allow.
    """

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        text: TokenText,
        info: ModelInfo,
        eos_ids: frozenset[int],
        generation_defaults: Mapping[str, Any],
        context_length: int,
    ) -> None:
        self.model = model
        self.text = text
        self.info = info
        self.eos_ids = eos_ids
        self.generation_defaults = generation_defaults
        self.context_length = context_length
        self.vocab_size = info.vocab_size
        self.device = model.get_input_embeddings().weight.device
        self.clock = PassClock(self.device)
        self._decoder = model.get_decoder()
        parameters = inspect.signature(model.forward).parameters
        self._keeps_logits = "logits_to_keep" in parameters
        # transformers renamed the argument in 5.20.
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._row_invariant = attention.fits(model)

    def twin(self) -> CausalLM:
        """The same weights under a clock of their own: a model that drafts for itself."""
        return CausalLM(
            model=self.model,
            text=self.text,
            info=self.info,
            eos_ids=self.eos_ids,
            generation_defaults=self.generation_defaults,
            context_length=self.context_length,
        )

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence."""
        return KVCache(self.model.config, attention.BLOCK if self._row_invariant else 1)

    @torch.inference_mode()
    def forward(self, ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        """One pass over n ids that follow the cache; logits of the last ``keep`` positions.  # (keep, V)

        The cache grows by n. Rows of the output matrix that no token belongs to are cut off.
        """
        with self._pass():
            arguments: dict[str, Any] = {"logits_to_keep": keep} if self._keeps_logits else {}
            output = self.model(**self._inputs(ids, cache), **arguments)
            logits: Tensor = output.logits[0, -keep:, : self.vocab_size]
        return logits

    @torch.inference_mode()
    def extend(self, ids: list[int], cache: KVCache) -> None:
        """One pass over n ids that follow the cache, without the output matrix. The cache grows by n."""
        with self._pass():
            self._decoder(**self._inputs(ids, cache))

    @contextmanager
    def _pass(self) -> Iterator[None]:
        with (
            self.clock.measure(),
            attention.row_invariant(self.model) if self._row_invariant else nullcontext(),
        ):
            yield

    def _inputs(self, ids: list[int] | Tensor, cache: KVCache) -> dict[str, Any]:
        return {
            "input_ids": as_ids(ids, self.device)[None],  # (1, n)
            self._cache_name: cache.transformers_cache,
            "use_cache": True,
        }
