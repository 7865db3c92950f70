"""From a model's name in the configuration to a loaded model. torch is imported inside functions only."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelNotFound, ModelUnsupported
from engine.models import builtin, gguf, hub
from engine.models.cache import (
    IsCancelled,
    Progress,
    never,
    no_progress,
    noted_sha256,
    remembered_sha256,
    stop_if,
)
from engine.models.folder import Folder, eos_ids, read_folder
from engine.models.generation_config import generation_defaults
from engine.models.quiet import paused_collection, quiet

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM
    from engine.models.coding import Quantize
    from engine.models.memory import Estimate

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_FORMS = (
    'a model is named by a folder, a .gguf file, a Hub id such as "Qwen/Qwen3-0.6B", '
    'or "builtin:smollm2-135m"'
)


class Kind(StrEnum):
    """Where a model comes from."""

    BUILTIN = "builtin"
    GGUF = "gguf"
    FOLDER = "folder"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class Source:
    """A model that is on this machine, checked, but not loaded."""

    name: str
    """As the configuration names it."""
    kind: Kind
    folder: Folder
    """For a GGUF file: the folder it was converted to."""
    revision: str | None = None
    """Commit of a Hub model."""
    sha256: str | None = None
    """Of the GGUF file, where there is one."""
    licence: str | None = None


def kind_of(name: str) -> Kind:
    """Which kind of name this is. Raises ModelNotFound, with the forms a name may have, if it is none."""
    if name.startswith(builtin.PREFIX):
        return Kind.BUILTIN
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:
        raise ModelNotFound(f"there is no model {name!r}: no such user", _FORMS) from error
    if path.suffix.lower() == ".gguf":
        return Kind.GGUF
    if name and path.is_dir():
        return Kind.FOLDER
    if path.is_file():
        raise ModelNotFound(f"{name!r} is a file, but no .gguf one", _FORMS)
    if _HUB_ID.fullmatch(name) and not name.startswith("."):
        return Kind.HUB
    raise ModelNotFound(f"there is no model {name!r}", _FORMS)


def describe(name: str, on_progress: Progress = no_progress, cancelled: IsCancelled = never) -> Source:
    """Find a model, fetch or convert it if it is not here yet, and check it; no weights are loaded.

    Args:
        on_progress: called with a stage ("download", "hash", "convert"), done and total.

    Raises ModelError, DownloadError, DiskError, DoesNotFit (converting), Cancelled.
    """
    quiet()
    kind = kind_of(name)
    stop_if(cancelled)
    if kind is Kind.FOLDER:
        return Source(name, kind, read_folder(Path(name).expanduser()))
    if kind is Kind.HUB:
        snapshot = hub.ensure_snapshot(name, on_progress, cancelled)
        return Source(name, kind, read_folder(snapshot), revision=snapshot.name)
    if kind is Kind.BUILTIN:
        file = builtin.ensure_gguf(name, on_progress, cancelled)
        licence: str | None = builtin.find_builtin(name).licence
        folder, sha256 = gguf.ensure_converted(file, on_progress, cancelled)
    else:
        folder, sha256 = gguf.ensure_converted(Path(name).expanduser(), on_progress, cancelled)
        licence = gguf.licence_of(folder)
    return Source(name, kind, read_folder(folder), sha256=sha256, licence=licence)


def at_hand(name: str) -> Source | None:
    """A model that loading would not have to fetch, convert or hash first; None for any other.

    Raises ModelError for one that cannot be used.
    """
    quiet()
    kind = kind_of(name)
    if kind is Kind.FOLDER:
        return describe(name)
    if kind is Kind.HUB:
        snapshot = hub.cached_snapshot(name)
        if snapshot is None:
            return None
        return Source(name, kind, read_folder(snapshot), revision=snapshot.name)
    if kind is Kind.BUILTIN:
        model = builtin.find_builtin(name)
        sha256, licence = (model.sha256 if builtin.is_cached(name) else None), model.licence
    else:
        file = Path(name).expanduser()
        if not file.is_file():
            raise ModelNotFound(f"there is no file {file}")
        sha256, licence = noted_sha256(file), None
    folder = None if sha256 is None else gguf.converted_folder(sha256)
    if folder is None or not folder.is_dir():
        return None
    licence = licence or gguf.licence_of(folder)
    return Source(name, kind, read_folder(folder), sha256=sha256, licence=licence)


def estimate(
    source: Source, *, device: str, dtype: str, tokens: int, quantize: Quantize = "none"
) -> Estimate:
    """What a model will need with a cache of ``tokens`` positions, or of all it has if those are fewer."""
    from engine.models.describe import context_length
    from engine.models.devices import place
    from engine.models.local import load_config
    from engine.models.memory import estimate as estimate_memory

    dtype_held = place(device, dtype).dtype
    config = load_config(source.folder)
    positions = min(tokens, context_length(config))
    return estimate_memory(source.name, source.folder, config, dtype_held, positions, quantize)


def load_model(
    model: str | Source,
    *,
    device: str,
    dtype: str,
    quantize: Quantize = "none",
    on_progress: Progress = no_progress,
    cancelled: IsCancelled = never,
) -> CausalLM:
    """Load a model, ready to decode with.

    Args:
        model: its name, or what ``describe`` made of it.
        device: "auto", "cpu", "cuda", "cuda:N", "mps" or "balanced".
        dtype: "auto", "float32", "bfloat16" or "float16".
        quantize: what the layers' matrices are held in.
        on_progress: called with a stage ("download", "hash", "convert", "read", "quantize"), done and total.

    Raises ConfigError, ModelError, ResourceError, Cancelled.
    """
    source = describe(model, on_progress, cancelled) if isinstance(model, str) else model
    quiet()
    from engine.models.causal_lm import CausalLM
    from engine.models.describe import context_length, model_info
    from engine.models.devices import place
    from engine.models.local import WeightLoading, load_config, load_tokenizer
    from engine.models.quantized import quantize as quantize_layers
    from engine.models.token_text import TokenText

    folder = source.folder
    placement = place(device, dtype)
    with paused_collection(), WeightLoading(folder, placement) as loading:
        config = load_config(folder)
        text = TokenText(load_tokenizer(folder.path))
        if not text.vocab_size:  # listing the vocabulary takes a while, which here costs nothing
            raise ModelUnsupported(f"the tokenizer in {folder.path} has no tokens")
        sha256 = source.sha256 or _weights_sha256(folder, on_progress, cancelled)
        network = loading.finish(config, on_progress, cancelled)
    if quantize != "none":
        quantize_layers(network, quantize, source.name, on_progress, cancelled)
    return CausalLM(
        model=network,
        text=text,
        info=model_info(
            network,
            text,
            name=source.name,
            revision=source.revision,
            sha256=sha256,
            licence=source.licence,
            quantized="" if quantize == "none" else quantize,
        ),
        eos_ids=eos_ids(folder, text.tokenizer.eos_token_id),
        generation_defaults=generation_defaults(folder),
        context_length=context_length(network.config),
    )


def _weights_sha256(folder: Folder, on_progress: Progress, cancelled: IsCancelled) -> str:
    """Of the weight file, or of the listing of the weight files and their hashes where there are several."""
    hashes = {file.name: remembered_sha256(file, on_progress, cancelled) for file in folder.files}
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    listing = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(listing.encode()).hexdigest()
