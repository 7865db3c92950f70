"""Whether models and caches fit into memory, estimated before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import DoesNotFit
from engine.models.folder import Folder
from engine.models.safetensors_files import FULL_FLOATS, bytes_in_memory

if TYPE_CHECKING:
    import torch

    from engine.models.coding import Quantize

_IN_A_LAYER = re.compile(r"\.(layers|h)\.\d+\.(?!.*\bexperts\.)")
"""Weights of decoder layers; transformers fuses experts, and they are not quantised."""
_STEP = 256
"""Caches grow in steps of this many positions."""
WORKING_BYTES = 64 << 20
"""What a pass needs beside weights and caches, roughly."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one model will need."""

    name: str
    weights: int
    """Bytes."""
    cache: int
    """Bytes of keys and values at the full length."""
    loading: int = 0
    """Bytes of weights more while they are being loaded."""

    @property
    def total(self) -> int:
        return self.weights + self.cache


def estimate(
    name: str,
    folder: Folder,
    config: Any,
    dtype: torch.dtype,
    tokens: int,
    quantize: Quantize = "none",
) -> Estimate:
    """What a model needs in ``dtype`` with a cache of ``tokens`` positions.

    Args:
        name: as the configuration names the model.
        folder: its checked files.
        config: its transformers configuration.
        quantize: what the matrices of its layers will be held in.
    """
    weights = bytes_in_memory(folder.entries, dtype.itemsize)
    saved = 0 if quantize == "none" else _saved(folder, quantize, dtype.itemsize)
    positions = -(-tokens // _STEP) * _STEP
    return Estimate(name, weights - saved, cached_numbers(config) * positions * dtype.itemsize, saved)


def _saved(folder: Folder, quantize: str, item_bytes: int) -> int:
    """Bytes by which quantising makes the weights smaller."""
    from engine.models.coding import coded_bytes, fits

    shapes = [
        entry.shape
        for name, entry in folder.entries.items()
        if len(entry.shape) == 2 and entry.dtype in FULL_FLOATS and _IN_A_LAYER.search(name)
    ]
    return sum(n * k * item_bytes - coded_bytes(quantize, n, k) for n, k in shapes if fits(quantize, n, k))


def cached_numbers(config: Any) -> int:
    """Numbers in the keys and values of one token, all layers.

    Sliding-window layers count in full: the caches here keep all positions.
    """
    inner = config.get_text_config(decoder=True)
    heads = int(getattr(inner, "num_attention_heads", None) or 0)
    if heads == 0:
        # A recurrent model: it keeps no keys and values, and is refused where its cache would be made.
        return 0
    kv_heads = int(getattr(inner, "num_key_value_heads", None) or heads)
    width = int(getattr(inner, "head_dim", None) or inner.hidden_size // heads)
    key = _latent_key_width(inner) or width
    value = int(getattr(inner, "v_head_dim", None) or width)
    return int(inner.num_hidden_layers) * kv_heads * (key + value)


def _latent_key_width(inner: Any) -> int:
    """Key width of multi-head latent attention, whose keys have two parts; 0 elsewhere."""
    nope, rope = getattr(inner, "qk_nope_head_dim", None), getattr(inner, "qk_rope_head_dim", None)
    return int(nope) + int(rope) if nope and rope else 0


def check_fits(estimates: Iterable[Estimate], free: int, where: str) -> None:
    """Refuse what cannot fit.

    Args:
        estimates: of all models that share the memory.
        free: bytes.
        where: the memory's name for the message, such as "cuda:0".

    Raises DoesNotFit, which names what each model needs, what is free and what to change.
    """
    rows = list(estimates)
    loading = sum(row.weights for row in rows) + max((row.loading for row in rows), default=0)
    needed = max(loading, sum(row.total for row in rows)) + WORKING_BYTES
    if needed <= free:
        return
    parts = ", ".join(
        f"{row.name}: {shown(row.weights)} of weights and {shown(row.cache)} of cache" for row in rows
    )
    raise DoesNotFit(
        f"not enough memory on {where}: about {shown(needed)} needed, {shown(free)} free ({parts})",
        'lower run.max_new_tokens, set run.dtype = "bfloat16", or use a smaller model',
    )


def free_on(device: torch.device, balanced: bool) -> tuple[int, str]:
    """Free bytes where a model would be held, and the name of that memory."""
    if device.type != "cuda":
        return free_memory(), "this machine"
    import torch

    if balanced:
        count = torch.cuda.device_count()
        return sum(torch.cuda.mem_get_info(index)[0] for index in range(count)), f"{count} CUDA device(s)"
    return torch.cuda.mem_get_info(device)[0], str(device)


def free_memory() -> int:
    """Bytes of main memory that this process may still take: the machine's, or its container's if less."""
    import psutil

    available = int(psutil.virtual_memory().available)
    return max(0, min([available, *container_limits(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))]))


def container_limits(root: Path, membership: Path) -> list[int]:
    """What control groups leave over, on every level that has a limit; memory of files counts as free."""
    left = []
    for folder in control_groups(root, membership, "memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _read(folder / limit_name).strip(), _read(folder / used_name).strip()
            if limit.isdigit() and used.isdigit():
                left.append(int(limit) - int(used) + _reclaimable(folder / "memory.stat"))
    return left


def control_groups(root: Path, membership: Path, controller: str) -> set[Path]:
    """Folders of the control groups that this process is in, of both versions, for one controller.

    Args:
        root: where the groups are mounted, /sys/fs/cgroup.
        membership: what lists this process's groups, /proc/self/cgroup.
        controller: "memory" or "cpu".
    """
    folders = {root, root / controller}
    for line in _read(membership).splitlines():
        _, controllers, inside = line.split(":", 2)
        base = root / controller if controller in controllers.split(",") else root
        if not controllers or base != root:
            path = base / inside.lstrip("/")
            folders |= {path, *(parent for parent in path.parents if base in parent.parents)}
    return folders


def _reclaimable(statistics: Path) -> int:
    rows = dict(line.split(" ", 1) for line in _read(statistics).splitlines() if " " in line)
    value = rows.get("total_inactive_file") or rows.get("inactive_file") or "0"
    return int(value)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def shown(count: int) -> str:
    """Bytes for a reader: "1.5 GB", powers of 1000."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB"
