"""What is told about a loaded model."""

from __future__ import annotations

from typing import Any

from engine.events import ModelInfo
from engine.models.devices import dtype_name
from engine.models.quantized import numbers_in
from engine.models.token_text import TokenText

UNBOUNDED = 1 << 20
"""Context length of a model whose configuration names none: its positions set no limit, memory does."""


def context_length(config: Any) -> int:
    """Tokens the positions of a model allow."""
    inner = config.get_text_config(decoder=True)
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        value = getattr(inner, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return UNBOUNDED


def model_info(
    model: Any,
    text: TokenText,
    *,
    name: str,
    revision: str | None = None,
    sha256: str | None = None,
    licence: str | None = None,
    quantized: str = "",
) -> ModelInfo:
    """Measure a loaded model; shared tensors count once."""
    tensors = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}
    parameters = {tensor.data_ptr(): tensor for tensor in model.parameters()}
    devices = sorted({str(tensor.device) for tensor in parameters.values()})
    inner = model.config.get_text_config(decoder=True)
    return ModelInfo(
        name=name,
        architecture=type(model).__name__,
        revision=revision,
        sha256=sha256,
        parameters=sum(tensor.numel() for tensor in parameters.values()) + numbers_in(model),
        weight_bytes=sum(tensor.nbytes for tensor in tensors.values()),
        layers=int(inner.num_hidden_layers),
        vocab_size=min(text.vocab_size, int(inner.vocab_size)),
        context_length=context_length(model.config),
        dtype=dtype_name(model.get_input_embeddings().weight.dtype),
        device="+".join(devices),
        licence=licence,
        quantized=quantized,
    )
