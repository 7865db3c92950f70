"""What a process holds: Python's objects, torch's tensors, pages of memory."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import Self

import psutil
import torch


@dataclass(frozen=True, slots=True)
class Footprint:
    """Counted once the garbage is gone."""

    blocks: int
    """Of Python's allocator: about one for each object, numbers and strings too."""
    tensors: int
    tensor_bytes: int
    """Of their storages, each counted once."""
    resident: int
    """Bytes of pages in memory; the system's allocators give them back late or never."""

    @classmethod
    def now(cls) -> Self:
        """Of this process."""
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
        count, size = len(tensors), sum(storages.values())
        del tensors, storages
        return cls(sys.getallocatedblocks(), count, size, psutil.Process().memory_info().rss)
