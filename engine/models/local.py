"""Loading a checked model folder into memory, on its device and in its number format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelUnsupported, OutOfMemory
from engine.models.cache import IsCancelled, Progress, stop_if
from engine.models.devices import Placement
from engine.models.folder import Folder, architecture_of, one_line, refuse_gaps
from engine.models.safetensors_files import FULL_FLOATS, TensorEntry

_TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
_SCRATCH_BYTES = 16 << 20


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder. Raises ModelUnsupported in transformers' words."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        # The tokenizers library raises plain Exception.
        raise ModelUnsupported(f"the tokenizer in {folder} cannot be loaded: {one_line(error)}") from error


def load_weights(
    folder: Folder, config: Any, placement: Placement, on_progress: Progress, cancelled: IsCancelled
) -> Any:
    """The model, in eval mode and without gradients.

    Args:
        config: what ``load_config`` made of the folder.

    Raises ModelUnsupported where the files do not make up the model, OutOfMemory, Cancelled.
    """
    stop_if(cancelled)
    try:
        if placement.device.type == "cpu" and "quantization_config" not in folder.config:
            model = _read_to_cpu(folder, config, placement.dtype, on_progress, cancelled)
        else:
            model = _read_to_device(folder, config, placement, on_progress)
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(f"{placement.device} ran out of memory while loading {folder.path}") from error
    except MemoryError as error:
        raise OutOfMemory(f"memory ran out while loading {folder.path}") from error
    except (OSError, ValueError, ImportError, RuntimeError, KeyError) as error:
        # The CPU's allocator has no error class of its own.
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            raise OutOfMemory(f"memory ran out while loading {folder.path}") from error
        raise ModelUnsupported(f"{folder.path} cannot be loaded: {one_line(error)}") from error
    model.requires_grad_(False)
    return model.eval()


def load_config(folder: Folder) -> Any:
    """The transformers configuration. Raises ModelUnsupported if it is not that of a known causal LM."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    model_type = folder.config["model_type"]
    known = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type)
    architecture = architecture_of(folder.config)
    if known is None:
        raise ModelUnsupported(
            f"{folder.path} ({architecture}) is no causal language model that transformers knows"
        )
    classes = known if isinstance(known, tuple | list) else (known,)
    if folder.config.get("architectures") and architecture not in classes:
        raise ModelUnsupported(
            f"{folder.path} is a {architecture}, not a causal language model ({classes[0]})"
        )
    try:
        return AutoConfig.from_pretrained(folder.path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, StrictDataclassError) as error:
        raise ModelUnsupported(f"{folder.path / 'config.json'} is not valid: {one_line(error)}") from error


def _read_to_device(folder: Folder, config: Any, placement: Placement, on_progress: Progress) -> Any:
    """Through transformers and accelerate: every tensor goes straight to its device."""
    from transformers import AutoModelForCausalLM

    total = sum(entry.end - entry.begin for entry in folder.entries.values())
    on_progress("read", 0, total)
    model, report = AutoModelForCausalLM.from_pretrained(
        folder.path,
        config=config,
        dtype=placement.dtype,
        device_map="balanced" if placement.balanced else {"": placement.device},
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    refuse_gaps(report)
    on_progress("read", total, total)
    return model


def _read_to_cpu(
    folder: Folder, config: Any, dtype: torch.dtype, on_progress: Progress, cancelled: IsCancelled
) -> Any:
    """Tensor by tensor into memory of our own, converted on the way.

    transformers' own way peaks at the file plus the weights when the number format differs, and leaves a
    mapped file behind when it does not. Here the peak is the weights.
    """
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config, dtype=dtype)
    # Parts that must stay in float32 are converted by transformers, which knows them.
    converts = not (skeleton._keep_in_fp32_modules or skeleton._keep_in_fp32_modules_strict)
    weights = _read_all(folder, dtype if converts else None, on_progress, cancelled)
    model, report = type(skeleton).from_pretrained(
        None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True
    )
    refuse_gaps(report)
    return model


def _read_all(
    folder: Folder, dtype: torch.dtype | None, on_progress: Progress, cancelled: IsCancelled
) -> dict[str, Tensor]:
    """Every tensor of the folder, full floats as ``dtype`` (None: as they are)."""
    total = sum(entry.end - entry.begin for entry in folder.entries.values())
    scratch = torch.empty(_SCRATCH_BYTES, dtype=torch.uint8)
    tensors: dict[str, Tensor] = {}
    done = 0
    for path in folder.files:
        entries = [(name, entry) for name, entry in folder.entries.items() if entry.file == path]
        with path.open("rb", buffering=0) as file:
            for name, entry in sorted(entries, key=lambda item: item[1].begin):
                stop_if(cancelled)
                tensors[name] = _read_tensor(file, entry, dtype, scratch)
                done += entry.end - entry.begin
                on_progress("read", done, total)
    return tensors


def _is_converted(entry: TensorEntry, dtype: torch.dtype | None) -> bool:
    return dtype is not None and entry.dtype in FULL_FLOATS and _TORCH_DTYPES[entry.dtype] != dtype


def _read_tensor(file: Any, entry: TensorEntry, dtype: torch.dtype | None, scratch: Tensor) -> Tensor:
    """One tensor; one that is converted passes through ``scratch`` piece by piece."""
    if entry.dtype not in _TORCH_DTYPES:
        raise ValueError(f"numbers of format {entry.dtype}")
    stored = _TORCH_DTYPES[entry.dtype]
    if dtype is None or not _is_converted(entry, dtype):
        tensor = torch.empty(entry.shape, dtype=stored)
        _fill(file, entry.begin, tensor.view(-1).view(torch.uint8))
        return tensor
    tensor = torch.empty(entry.shape, dtype=dtype)
    flat, width = tensor.view(-1), stored.itemsize
    for start in range(0, flat.numel(), len(scratch) // width):
        target = flat[start : start + len(scratch) // width]
        raw = scratch[: target.numel() * width]
        _fill(file, entry.begin + start * width, raw)
        target.copy_(raw.view(stored))
    return tensor


def _fill(file: Any, begin: int, target: Tensor) -> None:
    """Read as many bytes as ``target`` has, from ``begin`` on."""
    view = memoryview(target.numpy().data)
    file.seek(begin)
    while view:
        count = file.readinto(view)
        if not count:
            raise ValueError("the weight file ends too early")
        view = view[count:]
