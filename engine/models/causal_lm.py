"""A loaded causal language model, as the engine sees it: ids in, logits out, everything else hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from engine.clock import PassClock
from engine.events import ModelInfo
from engine.kv_cache import KVCache, as_ids
from engine.models.forward import EagerForward, Forward
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
        way: how its passes run; by default as transformers has written them.
        asked: the ``run.optimize`` that the way was chosen for.
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
        way: Forward | None = None,
        asked: str = "eager",
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
        self.way = way or EagerForward(model)
        self.asked = asked

    def twin(self) -> CausalLM:
        """The same weights under a clock of their own: a model that drafts for itself."""
        return CausalLM(
            model=self.model,
            text=self.text,
            info=self.info,
            eos_ids=self.eos_ids,
            generation_defaults=self.generation_defaults,
            context_length=self.context_length,
            way=self.way,
            asked=self.asked,
        )

    def new_cache(self, way: Forward | None = None) -> KVCache:
        """An empty cache for one sequence, to be filled by passes of one way: the model's own if None."""
        return KVCache(self.model.config, (way or self.way).block)

    @torch.inference_mode()
    def forward(self, ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        """One pass over n ids that follow the cache; logits of the last ``keep`` positions.  # (keep, V)

        The cache grows by n. Rows of the output matrix that no token belongs to are cut off.
        """
        with self.clock.measure():
            return self.way.logits(as_ids(ids, self.device), cache, keep)[:, : self.vocab_size]

    @torch.inference_mode()
    def extend(self, ids: list[int], cache: KVCache) -> None:
        """One pass over n ids that follow the cache, without the output matrix. The cache grows by n."""
        with self.clock.measure():
            self.way.extend(as_ids(ids, self.device), cache)
