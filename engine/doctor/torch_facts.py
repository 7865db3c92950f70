"""How torch sees this machine: devices, threads, and what it was built for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from engine.doctor.facts import Device, Torch
from engine.models.devices import fast_bfloat16, set_threads

_DRIVER = Path("/proc/driver/nvidia/version")


@contextmanager
def threads_as(asked: int | None) -> Iterator[None]:
    """Compute with so many threads for a while; None leaves torch's choice."""
    before = torch.get_num_threads()
    set_threads(asked)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def torch_facts() -> Torch:
    """What torch says, with the threads that are set now."""
    return Torch(
        cuda_build=torch.version.cuda,
        nvidia_driver=_DRIVER.exists(),
        fast_bfloat16=fast_bfloat16(),
        threads=torch.get_num_threads(),
        devices=tuple(_devices()),
    )


def _devices() -> Iterator[Device]:
    feature = fast_bfloat16()
    yield Device("cpu", f"multiplies bfloat16 fast ({feature})" if feature else "no fast bfloat16")
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        major, minor = torch.cuda.get_device_capability(index)
        about = f"{torch.cuda.get_device_name(index)}, compute capability {major}.{minor}"
        yield Device(f"cuda:{index}", about, total, free)
    if torch.backends.mps.is_available():
        yield Device("mps", "this Mac's GPU")
