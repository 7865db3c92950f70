"""Models of real shapes with random weights, made on the device: speed is measured without a download.

The weights are set so that the likeliest next token is the newest one, by far: the output matrix is the input
table, and the layers add little to what goes through them. So passes of different widths write the same text
whatever they round, and the synthetic drafter, which knows that text, stays on it. No pass is faster for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch
from tokenizers.decoders import ByteLevel

from engine.bench import peers
from engine.models.causal_lm import CausalLM
from engine.models.describe import model_info
from engine.models.optimize import optimize
from engine.models.token_text import TokenText

_SMALL = 0.02
"""Factor on what a layer adds; the table has a spread of 1."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformers configuration by its name."""

    name: str
    config: Mapping[str, Any]


def _qwen3(name: str, **sizes: Any) -> Shape:
    return Shape(name, MappingProxyType({"model_type": "qwen3", **sizes}))


_VOCABULARY = {"vocab_size": 151_936, "max_position_embeddings": 40_960, "head_dim": 128}

QWEN3_06B = _qwen3(
    "Qwen3-0.6B",
    **_VOCABULARY,
    num_hidden_layers=28,
    hidden_size=1024,
    num_attention_heads=16,
    num_key_value_heads=8,
    intermediate_size=3072,
    tie_word_embeddings=True,
)
"""As huggingface.co/Qwen/Qwen3-0.6B/blob/main/config.json has it."""

QWEN3_8B = _qwen3(
    "Qwen3-8B",
    **_VOCABULARY,
    num_hidden_layers=36,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=8,
    intermediate_size=12_288,
    tie_word_embeddings=False,
)
"""As huggingface.co/Qwen/Qwen3-8B/blob/main/config.json has it."""

_TINY = {"vocab_size": 512, "max_position_embeddings": 1024, "head_dim": 16, "num_key_value_heads": 2}

TINY_DRAFTER = _qwen3(
    "tiny drafter",
    **_TINY,
    num_hidden_layers=2,
    hidden_size=32,
    num_attention_heads=2,
    intermediate_size=64,
    tie_word_embeddings=True,
)
TINY_TARGET = _qwen3(
    "tiny target",
    **_TINY,
    num_hidden_layers=3,
    hidden_size=64,
    num_attention_heads=4,
    intermediate_size=128,
    tie_word_embeddings=False,
)

PAIRS: Mapping[str, tuple[Shape, Shape]] = {
    "qwen3": (QWEN3_06B, QWEN3_8B),
    "tiny": (TINY_DRAFTER, TINY_TARGET),
}
"""Drafter and target by the name of the pair."""


def random_lm(shape: Shape, device: torch.device, dtype: torch.dtype) -> CausalLM:
    """A model of this shape on the device, ready to decode; its tokens are spelled as their numbers."""
    network = peers.random_network(shape.config, device, dtype)
    _repeat_newest(network)
    text = numbers(int(shape.config["vocab_size"]))
    info = model_info(network, text, name=shape.name)
    model = CausalLM(
        model=network,
        text=text,
        info=info,
        eos_ids=frozenset(),
        generation_defaults={},
        context_length=info.context_length,
    )
    optimize(model)
    return model


def numbers(size: int) -> TokenText:
    """A tokenizer that has no text to encode: token 17 reads "17 "."""
    # The letter that byte-level BPE writes for a space.
    vocabulary = {f"{id_}\u0120": id_ for id_ in range(size)}
    return TokenText(
        SimpleNamespace(
            get_vocab=lambda: vocabulary,
            backend_tokenizer=SimpleNamespace(decoder=ByteLevel()),
            added_tokens_decoder={},
            all_special_ids=[],
            chat_template=None,
        )
    )


@torch.no_grad()
def _repeat_newest(network: Any) -> None:
    table, head = (part.weight for part in (network.get_input_embeddings(), network.get_output_embeddings()))
    table.normal_()
    if head is not table:
        head.copy_(table)
    for layer in network.get_decoder().layers:
        layer.self_attn.o_proj.weight.mul_(_SMALL)
        layer.mlp.down_proj.weight.mul_(_SMALL)
