"""Where a model runs and in which number format, with the reason in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import ConfigError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""The number formats a configuration may name, apart from "auto"."""

_DEVICES = '"auto", "cpu", "cuda", "cuda:N", "mps" or "balanced"'
_BF16_MACOS = (14, 0)
"""Metal has bfloat16 from this macOS on."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how a model is held."""

    device: torch.device
    """Where ids go in. For a model over several GPUs: the first of them."""
    balanced: bool
    """Whether the layers are spread over all GPUs."""
    dtype: torch.dtype
    device_reason: str
    """Such as "cpu: no CUDA or MPS device here"."""
    dtype_reason: str
    """Such as "bfloat16: this processor has AMX"."""


def place(device: str, dtype: str) -> Placement:
    """Resolve the configuration's ``run.device`` and ``run.dtype``.

    Raises ConfigError for a name that is unknown or a device that is not here.
    """
    where, balanced, device_reason = resolve_device(device)
    held_in, dtype_reason = resolve_dtype(dtype, where)
    return Placement(where, balanced, held_in, device_reason, dtype_reason)


def resolve_device(name: str) -> tuple[torch.device, bool, str]:
    """The device, whether the model is spread over all GPUs, and why. Raises ConfigError."""
    if name == "auto":
        if torch.cuda.is_available():
            return _cuda(0), False, f"cuda:0: {torch.cuda.get_device_name(0)}"
        if torch.backends.mps.is_available():
            return torch.device("mps"), False, "mps: this Mac's GPU"
        return torch.device("cpu"), False, "cpu: no CUDA or MPS device here"
    if name == "cpu":
        return torch.device("cpu"), False, "cpu: as configured"
    if name == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError(
                'run.device = "mps", but torch sees no MPS device here', 'use run.device = "auto"'
            )
        return torch.device("mps"), False, "mps: as configured"
    if name == "balanced":
        return _cuda(0), True, f"balanced over {torch.cuda.device_count()} CUDA device(s): as configured"
    match = re.fullmatch(r"cuda(?::(\d{1,3}))?", name)
    if match is None:
        raise ConfigError(f"run.device = {name!r} is not a device", f"use {_DEVICES}")
    index = int(match[1] or 0)
    return _cuda(index), False, f"cuda:{index}: as configured"


def _cuda(index: int) -> torch.device:
    if not torch.cuda.is_available():
        why = (
            "this torch is built without CUDA"
            if torch.version.cuda is None
            else "torch sees no CUDA device here"
        )
        raise ConfigError(f"a CUDA device was asked for, but {why}", 'use run.device = "auto" or "cpu"')
    count = torch.cuda.device_count()
    if index >= count:
        raise ConfigError(
            f"cuda:{index} does not exist: there are {count} CUDA device(s)", "they count from cuda:0"
        )
    return torch.device("cuda", index)


def resolve_dtype(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """The number format and why. Raises ConfigError for an unknown name."""
    if name != "auto":
        if name not in DTYPES:
            raise ConfigError(f"run.dtype = {name!r} is not known", f'use "auto", {", ".join(DTYPES)}')
        return DTYPES[name], f"{name}: as configured"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16, "bfloat16: this GPU computes in it"
        return torch.float16, "float16: this GPU has no bfloat16"
    if device.type == "mps":
        if torch.backends.mps.is_macos_or_newer(*_BF16_MACOS):
            return torch.bfloat16, "bfloat16: this macOS supports it"
        return torch.float32, "float32: bfloat16 on MPS needs macOS 14"
    feature = fast_bfloat16()
    if feature is not None:
        return torch.bfloat16, f"bfloat16: this processor has {feature}"
    return torch.float32, "float32: this processor has no fast bfloat16"


def fast_bfloat16() -> str | None:
    """The processor's feature that multiplies bfloat16 fast, None if it has none."""
    # Before torch 2.12 there is no such function, and no other way to ask for all of this.
    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if able.get("amx_bf16") and able.get("amx_tile"):
        return "AMX"
    if able.get("avx512_bf16"):
        return "AVX512-BF16"
    return None


def set_threads(count: int | None) -> int:
    """Set the threads torch computes with, 1 or more; None leaves torch's choice. Returns their number."""
    if count is not None:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")
