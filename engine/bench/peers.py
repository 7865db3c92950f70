"""transformers' own decoding loops on the very same weights. The one module here that imports transformers.

Decoding is timed by a streamer, which ``generate`` hands each token (or each block of an assisted round) as
it is committed. The clock starts at the first commit, so the prefill and the setting up of ``generate`` are
not in it; that is fairer to transformers than taking a second, shorter call away, which would leave the
setting up inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from engine.bench.clock import CommitClock, Timed

VERSION: str = transformers.__version__


def import_all(folder: Path) -> None:
    """Have transformers import what the model of this folder needs: it imports each part when first named.

    The model is built without weights, on torch's meta device, and dropped.
    """
    with torch.device("meta"):
        AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


def random_network(config: Mapping[str, Any], device: torch.device, dtype: torch.dtype) -> Any:
    """A causal LM with random weights, made on the device.

    Args:
        config: entries of its configuration, "model_type" among them.
    """
    with torch.device(device):
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=dtype)
    network.requires_grad_(False)
    return network.eval()


class _Stream:
    """What ``generate`` calls: once with the prompt, then at each commit."""

    def __init__(self, clock: CommitClock) -> None:
        self._clock = clock
        self._prompt_came = False

    def put(self, ids: torch.Tensor) -> None:
        if self._prompt_came:
            self._clock.commit(ids.numel())
        self._prompt_came = True

    def end(self) -> None:
        """Nothing is held back."""


def generate(
    model: Any,
    prompt: Sequence[int],
    tokens: int,
    *,
    assistant: Any = None,
    k: int | None = None,
    lookup: int | None = None,
) -> Timed:
    """Greedy ``generate`` of a transformers model, EOS off.

    Args:
        assistant: drafts, in assisted generation.
        k: draft tokens a round, always that many; None leaves transformers' defaults (up to 20, fewer where
            the assistant is unsure).
        lookup: draft tokens a round of prompt lookup, at most; None: no lookup.
    """
    clock = CommitClock()
    ids = torch.tensor([list(prompt)], device=model.device)
    more: dict[str, Any] = {} if assistant is None else {"assistant_model": assistant}
    if lookup is not None:
        more["prompt_lookup_num_tokens"] = lookup
    with ExitStack() as stack:
        for each in filter(None, (model, assistant)):
            stack.enter_context(_generation(each, {"eos_token_id": None, "pad_token_id": 0}))
        if k is not None:
            stack.enter_context(_generation(assistant, _always(k)))
        written = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens,
            streamer=_Stream(clock),
            **more,
        )
    return Timed(tuple(written[0, len(prompt) :].tolist()), clock.ms_per_token)


def _always(k: int) -> dict[str, Any]:
    return {
        "num_assistant_tokens": k,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }


@contextmanager
def _generation(model: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """The model's generation settings changed for a while; ``generate`` fills its gaps from there."""
    settings = model.generation_config
    before = {name: getattr(settings, name) for name in values}
    for name, value in values.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
