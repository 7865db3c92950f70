"""The child process that turns a GGUF file into a safetensors folder: ``python -m ... FILE SCRATCH``.

Writes the folder SCRATCH/model, the counts "done total" (tensors) to SCRATCH/progress, and, on failure, the
error's class, message and hint as JSON to SCRATCH/error.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from engine.errors import DiskError, DoesNotFit, ModelUnsupported, OutOfMemory, SpeculateError
from engine.models.cache import CACHE_HINT
from engine.models.folder import one_line, refuse_gaps
from engine.models.gguf import NOTE
from engine.models.quiet import quiet

_FLOAT32_BYTES = 4
_PEAK = 2
"""Peak memory of a conversion, in float32 weights; 1.75 were measured."""
_EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def main(file: Path, scratch: Path) -> int:
    """Convert; returns the exit status."""
    quiet()
    try:
        convert(file, scratch / "model", scratch / "progress")
    except SpeculateError as error:
        report = [type(error).__name__, error.message, error.hint]
        (scratch / "error").write_text(json.dumps(report), encoding="utf-8")
        return 1
    return 0


def convert(file: Path, folder: Path, progress: Path) -> None:
    """Read, check, de-quantise and save as float32."""
    fields, sizes = _inspect(file)
    _check_room(file, sizes, folder.parent)
    _count_tensors(progress)
    model, tokenizer = _load(file)
    try:
        _save(model, tokenizer, fields, folder)
    except (OSError, SafetensorError) as error:
        raise DiskError(f"cannot write the converted model: {one_line(error)}", CACHE_HINT) from error


def _inspect(file: Path) -> tuple[dict[str, Any], list[int]]:
    """The metadata without its long lists, and the numbers in each tensor. Raises ModelUnsupported."""
    from gguf import GGUFReader, GGUFValueType

    try:
        reader = GGUFReader(file)
        fields = {
            name: field.contents()
            for name, field in reader.fields.items()
            if field.types and field.types[0] != GGUFValueType.ARRAY
        }
    except (ValueError, KeyError, IndexError, OSError, OverflowError, TypeError) as error:
        raise ModelUnsupported(
            f"{file} is a damaged GGUF file: {one_line(error)}", "copy it again"
        ) from error
    if fields.get("general.type", "model") != "model" or "tokenizer.ggml.model" not in fields:
        raise ModelUnsupported(f"{file} is no whole language model (general.type, tokenizer)")
    if fields.get("split.count", 0) > 1:
        raise ModelUnsupported(f"{file} is one part of several", "merge them with llama-gguf-split --merge")
    _check_architecture(file, str(fields.get("general.architecture")))
    _check_formats(file, {tensor.tensor_type for tensor in reader.tensors})
    return fields, [int(tensor.n_elements) for tensor in reader.tensors]


def _check_architecture(file: Path, architecture: str) -> None:
    from transformers import modeling_gguf_pytorch_utils as legacy

    if "t5" in architecture:
        raise ModelUnsupported(f"{file} is an encoder-decoder model ({architecture})")
    known = {str(name).replace("_", "").replace("-", "") for name in legacy.GGUF_SUPPORTED_ARCHITECTURES}
    try:
        from transformers.integrations.gguf.utils import is_gguf_arch_supported
    except ImportError:
        newer = False
    else:
        newer = is_gguf_arch_supported(architecture)
    if not newer and architecture.replace("_", "").replace("-", "") not in known:
        raise ModelUnsupported(
            f"{file} has the architecture {architecture!r}, which transformers cannot read from GGUF",
            "use the model's safetensors instead",
        )


def _check_formats(file: Path, formats: Iterable[Any]) -> None:
    import numpy
    from gguf import GGML_QUANT_SIZES, dequantize

    for kind in formats:
        try:
            dequantize(numpy.zeros((1, GGML_QUANT_SIZES[kind][1]), dtype=numpy.uint8), kind)
        except (NotImplementedError, KeyError) as error:
            raise ModelUnsupported(
                f"{file} has tensors of the format {kind.name}, which cannot be de-quantised",
                "use another quantisation of it, such as Q8_0",
            ) from error


def _check_room(file: Path, sizes: list[int], scratch: Path) -> None:
    """Refuse what memory or disk cannot hold; ``sizes`` are the numbers in each tensor."""
    from engine.models.memory import free_memory, shown

    written = _FLOAT32_BYTES * sum(sizes)
    free = free_memory()
    if _PEAK * written > free:
        raise DoesNotFit(
            f"converting {file} needs about {shown(_PEAK * written)} of memory, {shown(free)} are free",
            "use a smaller model, or its safetensors",
        )
    room = shutil.disk_usage(scratch).free
    if written > room:
        raise DiskError(
            f"converting {file} writes {shown(written)}, {shown(room)} are free in {scratch.parent}",
            CACHE_HINT,
        )


def _count_tensors(progress: Path) -> None:
    """transformers shows a bar over the tensors; write its counts to the file instead."""
    from transformers import modeling_gguf_pytorch_utils as legacy

    def counted(tensors: Iterable[Any], **_options: Any) -> Iterator[Any]:
        rows = list(tensors)
        for done, row in enumerate(rows):
            progress.write_text(f"{done} {len(rows)}", encoding="ascii")
            yield row

    if hasattr(legacy, "tqdm"):
        legacy.tqdm = counted


def _load(file: Path) -> tuple[Any, Any]:
    import torch
    import transformers

    # Newer readers keep the blocks packed, and fetch kernels for them, unless told otherwise.
    packed = getattr(transformers, "GgufConfig", None)
    options = {"quantization_config": packed(dequantize=True)} if packed else {}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True, **options
        )
        refuse_gaps(report)
    except MemoryError as error:
        raise OutOfMemory(f"memory ran out while converting {file}") from error
    except (
        ValueError,
        KeyError,
        RuntimeError,
        TypeError,
        NotImplementedError,
        ImportError,
        OSError,
    ) as error:
        raise ModelUnsupported(f"transformers cannot convert {file}: {one_line(error)}") from error
    return model, tokenizer


def _save(model: Any, tokenizer: Any, fields: dict[str, Any], folder: Path) -> None:
    # What transformers leaves behind to say "quantised" would keep it from saving plain weights.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    stops = {fields[key] for name in _EOS_KEYS if (key := f"tokenizer.ggml.{name}") in fields}
    if stops:
        ids = sorted(int(id_) for id_ in stops)
        model.generation_config.eos_token_id = ids[0] if len(ids) == 1 else ids
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    note = {"licence": fields.get("general.license"), "name": fields.get("general.name")}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
