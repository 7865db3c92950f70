"""A model folder as the Hub has them: checked before anything of it is loaded. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelNotFound, ModelUnsupported
from engine.models.safetensors_files import TensorEntry, read_headers, weight_files

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json",
    "sentencepiece.bpe.model", "tiktoken.model",
)  # fmt: skip
_JSON_LIMIT = 64 << 20
_OTHER_SENSES = ("vision_config", "audio_config", "image_token_id", "audio_token_id", "vision_tower")
_NO_CODE = "this program never runs code that comes with a model"
_LINE = 300
_TEXT_MODELS = "use a model that continues text (a causal language model)"


@dataclass(frozen=True, slots=True)
class Folder:
    """What a checked model folder holds."""

    path: Path
    config: Mapping[str, Any]
    """config.json."""
    generation: Mapping[str, Any]
    """generation_config.json, empty where there is none."""
    files: tuple[Path, ...]
    """The weight files."""
    entries: Mapping[str, TensorEntry]
    """The tensors of all weight files by name."""

    @property
    def text_config(self) -> Mapping[str, Any]:
        """The part of the configuration that describes the language model."""
        nested = self.config.get("text_config")
        return nested if isinstance(nested, dict) else self.config


def read_folder(path: Path) -> Folder:
    """Check a model folder and read its descriptions.

    Raises ModelNotFound where a file is missing, ModelUnsupported for what will not be run: pickled weights,
    remote code, adapters, models that are not causal language models, damaged files.
    """
    if not (path / CONFIG).is_file():
        if (path / "adapter_config.json").is_file():
            raise ModelUnsupported(
                f"{path} is an adapter, not a whole model", "merge it into its base model first"
            )
        inside = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"name the file itself: {path / inside[0]}" if inside else "give the folder that holds it"
        raise ModelNotFound(f"{path} is no model folder: it has no {CONFIG}", hint)
    config = read_json(path / CONFIG)
    _refuse_code(path, config)
    _refuse_other_kinds(path, config)
    if (path / "adapter_config.json").is_file():
        raise ModelUnsupported(
            f"{path} has an adapter beside the model", "merge it, or remove adapter_config.json"
        )
    if not any((path / name).is_file() for name in TOKENIZER_FILES):
        raise ModelNotFound(
            f"{path} has no tokenizer, such as tokenizer.json", "copy the tokenizer files there too"
        )
    generation_file = path / GENERATION_CONFIG
    generation = read_json(generation_file) if generation_file.is_file() else {}
    files = weight_files(path)
    return Folder(path, config, generation, tuple(files), read_headers(files))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises ModelUnsupported if it is none."""
    try:
        if path.stat().st_size > _JSON_LIMIT:
            raise ValueError("too large")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelUnsupported(f"{path} is not valid JSON", "copy or download the file again") from error
    except OSError as error:
        raise ModelNotFound(f"cannot read {path}: {error.strerror}") from error
    if not isinstance(value, dict):
        raise ModelUnsupported(f"{path} is not a JSON object", "copy or download the file again")
    return value


def _refuse_code(path: Path, config: Mapping[str, Any]) -> None:
    tokenizer_file = path / "tokenizer_config.json"
    tokenizer = read_json(tokenizer_file) if tokenizer_file.is_file() else {}
    for name, values in ((CONFIG, config), (tokenizer_file.name, tokenizer)):
        if values.get("auto_map"):
            raise ModelUnsupported(f"{path} needs its own Python code (auto_map in {name})", _NO_CODE)
    for key, value in config.items():
        # transformers would fetch an attention kernel named "org/name" from the Hub and run it.
        if key.endswith("_implementation") and "/" in str(value):
            raise ModelUnsupported(f"{path} asks for code from elsewhere ({key}: {value!r})", _NO_CODE)


def _refuse_other_kinds(path: Path, config: Mapping[str, Any]) -> None:
    architecture = architecture_of(config)
    if config.get("is_encoder_decoder"):
        raise ModelUnsupported(f"{path} is an encoder-decoder model ({architecture})", _TEXT_MODELS)
    if any(config.get(key) is not None for key in _OTHER_SENSES):
        raise ModelUnsupported(f"{path} is a model for images or sound too ({architecture})", _TEXT_MODELS)
    if not isinstance(config.get("model_type"), str):
        raise ModelUnsupported(f"{path / CONFIG} names no model_type", "copy or download the file again")


def architecture_of(config: Mapping[str, Any]) -> str:
    """The transformers class that config.json names, else its model type."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return str(config.get("model_type", "unknown architecture"))


def eos_ids(folder: Folder, tokenizer_eos: int | None) -> frozenset[int]:
    """The ids that end an answer: of generation_config, else of config, else the tokenizer's."""
    for value in (
        folder.generation.get("eos_token_id"),
        folder.text_config.get("eos_token_id"),
        tokenizer_eos,
    ):
        ids = value if isinstance(value, list) else [value]
        found = frozenset(id_ for id_ in ids if isinstance(id_, int) and not isinstance(id_, bool))
        if found:
            return found
    return frozenset()


def one_line(error: Exception) -> str:
    """An error of another library as one line, cut at a readable length."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _LINE else line[: _LINE - 3] + "..."


def refuse_gaps(report: Mapping[str, Any]) -> None:
    """transformers fills in random numbers for weights that a file lacks; never pass that for the model.

    Args:
        report: the loading info of ``from_pretrained``.

    Raises ValueError.
    """
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(f"its files lack {len(missing)} tensors, {missing[0]} first")
