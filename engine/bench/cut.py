"""A drafter for the measurements: the target with most of its layers left out, saved as a model folder."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.models.folder import read_folder
from engine.models.safetensors_files import SINGLE

LAYERS = (0, 1, 2, 3, 4, 5, 6, 7)

_LAYER = re.compile(r"(.*\blayers\.)(\d+)(\..*)")


def cut_layers(source: Path, target: Path, layers: Sequence[int]) -> Path:
    """Write a copy of a model folder that has only some of its layers, renumbered in their order.

    Args:
        source: a checked model folder whose layers are named ``...layers.<number>...``, as Llama's and Qwen's
        are. target: a folder that does not exist yet.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    folder = read_folder(source)
    number = {old: new for new, old in enumerate(layers)}
    tensors = {}
    for path in folder.files:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                layer = _LAYER.fullmatch(name)
                if layer is None:
                    tensors[name] = file.get_tensor(name)
                elif int(layer[2]) in number:
                    tensors[f"{layer[1]}{number[int(layer[2])]}{layer[3]}"] = file.get_tensor(name)
    config = {**folder.config, "num_hidden_layers": len(layers)}
    if "layer_types" in config:
        config["layer_types"] = [config["layer_types"][layer] for layer in layers]
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file() and path not in folder.files and not path.name.endswith(".index.json"):
            shutil.copy(path, target)
    (target / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    save_file(tensors, target / SINGLE, metadata={"format": "pt"})
    return target
