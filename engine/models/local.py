"""Loading a checked model folder into memory, on its device and in its number format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from engine.errors import ModelUnsupported, OutOfMemory
from engine.models.cache import IsCancelled, Progress, stop_if
from engine.models.devices import Placement
from engine.models.folder import Folder, architecture_of, one_line, refuse_gaps
from engine.models.weight_reader import WeightReader


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder. Raises ModelUnsupported in transformers' words."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        # The tokenizers library raises plain Exception.
        raise ModelUnsupported(f"the tokenizer in {folder} cannot be loaded: {one_line(error)}") from error


class WeightLoading:
    """The weights of a model on their way into memory.

    On the way to the CPU threads read them from the beginning of the ``with`` block on, while the caller does
    other things; leaving the block ends that.

    Args:
        folder: a checked one.
    """

    def __init__(self, folder: Folder, placement: Placement) -> None:
        self._folder, self._placement = folder, placement
        on_cpu = placement.device.type == "cpu" and "quantization_config" not in folder.config
        self._reader = WeightReader(folder, placement.dtype) if on_cpu else None

    def __enter__(self) -> Self:
        """Raises ModelUnsupported, OutOfMemory."""
        if self._reader is not None:
            with _load_errors(self._folder, self._placement):
                self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()

    def finish(self, config: Any, on_progress: Progress, cancelled: IsCancelled) -> Any:
        """The model, in eval mode and without gradients.

        Args:
            config: what ``load_config`` made of the folder.

        Raises ModelUnsupported where the files do not make up the model, OutOfMemory, Cancelled.
        """
        stop_if(cancelled)
        with _load_errors(self._folder, self._placement):
            if self._reader is None:
                model = _read_to_device(self._folder, config, self._placement, on_progress)
            else:
                model = self._read_to_cpu(self._reader, config, on_progress, cancelled)
        model.requires_grad_(False)
        return model.eval()

    def _read_to_cpu(
        self, reader: WeightReader, config: Any, on_progress: Progress, cancelled: IsCancelled
    ) -> Any:
        """The model around tensors of our own.

        transformers' own way of reading peaks at the file plus the weights when the number format differs,
        and leaves a mapped file behind when it does not. Here the peak is the weights.
        """
        dtype = self._placement.dtype
        skeleton = _skeleton(config, dtype)
        _warm_renaming(config.model_type)
        if skeleton._keep_in_fp32_modules or skeleton._keep_in_fp32_modules_strict:
            # Rare. transformers knows these parts and converts the rest: everything anew, as it is stored.
            reader.close()
            reader = self._reader = WeightReader(self._folder, None)
            reader.start()
        weights = reader.tensors(on_progress, cancelled)
        model, report = type(skeleton).from_pretrained(
            None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True
        )
        refuse_gaps(report)
        return model


@contextmanager
def _load_errors(folder: Folder, placement: Placement) -> Iterator[None]:
    """Turn what torch, transformers and the system raise about a model into errors of ours."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(f"{placement.device} ran out of memory while loading {folder.path}") from error
    except MemoryError as error:
        raise OutOfMemory(f"memory ran out while loading {folder.path}") from error
    except (OSError, ValueError, ImportError, RuntimeError, KeyError) as error:
        # The CPU's allocator has no error class of its own.
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):
            raise OutOfMemory(f"memory ran out while loading {folder.path}") from error
        raise ModelUnsupported(f"{folder.path} cannot be loaded: {one_line(error)}") from error


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


def _skeleton(config: Any, dtype: torch.dtype) -> Any:
    """The model without memory for its weights."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype)


def _warm_renaming(model_type: str) -> None:
    """Have transformers make its table of renamed weights, of every model it knows.

    It does so once a process, at the first load: 60 ms that here fit into the time of reading.
    """
    with suppress(ImportError):  # another version than the tested one may keep it elsewhere
        from transformers.conversion_mapping import get_checkpoint_conversion_mapping

        get_checkpoint_conversion_mapping(model_type)
