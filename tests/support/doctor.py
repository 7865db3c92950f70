"""Facts that a doctor may find, on a machine with nothing to say against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.doctor.facts import (
    Device,
    Facts,
    FormatSpeed,
    Library,
    Memory,
    Model,
    Pair,
    Speed,
    Torch,
    Vocabulary,
)
from engine.machine import Machine

MACHINE = Machine(
    system="Linux 6.1 x86_64",
    processor="A processor",
    physical_cores=4,
    logical_cores=8,
    allowed_cores=8,
    core_quota=None,
    memory_total=16_000_000_000,
    memory_free=12_000_000_000,
    memory_limit=None,
    load=(0.1, 0.2, 0.3),
    busy=0.02,
    thread_variables=(),
)
CPU = Device("cpu", "multiplies bfloat16 fast (AMX)")
GPU = Device("cuda:0", "A GPU, compute capability 9.0", 80_000_000_000, 70_000_000_000)
TORCH = Torch(cuda_build=None, nvidia_driver=False, fast_bfloat16="AMX", threads=4, devices=(CPU,))
SPEED = Speed(
    device="cpu",
    read_bytes=200_000_000,
    bandwidth_gbs=20.0,
    ways="20.0 (dot), 15.0 (sum)",
    matrices="8 matrices of 2048 x 2048",
    formats=(FormatSpeed("float32", 8.0, 20.0), FormatSpeed("bfloat16", 4.0, 4.4)),
)
TARGET = Model(
    role="target",
    name="org/target",
    here=True,
    architecture="LlamaForCausalLM",
    parameters=100_000_000,
    layers=30,
    weights=200_000_000,
    bytes_a_token=200_000_000,
)
DRAFTER = replace(
    TARGET, role="drafter", name="org/drafter", layers=6, weights=20_000_000, bytes_a_token=20_000_000
)
VOCABULARY = Vocabulary((1000, 1000), None)
OTHER_VOCABULARY = Vocabulary((1000, 900), "drafter and target differ from token id 7 on: 'a', 'b'", 250)
MEMORY = Memory(220_000_000, 50_000_000, 64 << 20, 12_000_000_000, "this machine", None)
PAIR = Pair(
    config="pair.toml",
    method="model",
    num_draft_tokens=5,
    any_tokenizer=False,
    device_asked="auto",
    device="cpu",
    device_reason="cpu: no CUDA or MPS device here",
    dtype_asked="auto",
    dtype="bfloat16",
    dtype_reason="bfloat16: this processor has AMX",
    threads_asked=None,
    models=(TARGET, DRAFTER),
    vocabulary=VOCABULARY,
    memory=MEMORY,
)
FACTS = Facts(
    version="1.0",
    python="3.11.7",
    libraries=(Library("torch", "2.13.0+cpu", "2.13.0"), Library("textual", "8.2.8", "8.2.8")),
    machine=MACHINE,
    cache="/cache",
    cache_free=50_000_000_000,
    torch=TORCH,
    speed=SPEED,
    pair=PAIR,
)


def facts(**parts: dict[str, Any]) -> Facts:
    """``FACTS`` with other values; keyword: the part, "pair", "machine", "torch", "speed" or "facts"."""
    changed = replace(FACTS, **parts.pop("facts", {}))
    return replace(
        changed, **{name: replace(getattr(FACTS, name), **values) for name, values in parts.items()}
    )
