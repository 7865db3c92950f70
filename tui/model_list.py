"""The models at hand: built in, in the Hub's cache, in folders, GGUF files. Nothing heavy is imported.

A listing reads descriptions and the heads of weight files, never weights. What is found but cannot be used is
listed too, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from engine.errors import ModelNotFound, ModelUnsupported, SpeculateError
from engine.models.builtin import BUILTINS, PREFIX, find_builtin, is_cached
from engine.models.cache import cache_dir
from engine.models.folder import CONFIG, Folder, architecture_of, read_folder
from engine.models.load import Kind as SourceKind
from engine.models.load import kind_of
from engine.models.memory import WORKING_BYTES, cached_numbers, shown
from engine.models.safetensors_files import bytes_in_memory
from tui.gguf_header import gguf_parameters

_MOST_ENTRIES = 400
"""Entries of a folder that are looked at: this is a list for a person."""
_TYPICAL_TOKENS = 2048
_TIGHT = 0.8
_INCOMPLETE = "not complete; loading it fetches the rest"


class Place(StrEnum):
    """Where a model comes from."""

    BUILTIN = "built-in"
    HUB = "Hub cache"
    FOLDER = "folder"
    GGUF = "GGUF file"


class Fit(StrEnum):
    """Whether a model fits into memory."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_BIG = "too big"
    UNKNOWN = "fit unknown"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the list."""

    name: str
    """As the configuration takes it."""
    place: Place
    here: bool
    """Whether loading it fetches nothing."""
    disk_bytes: int
    """Of its weight files; of the download if it is not here. 0: not known."""
    full_bytes: int | None = None
    """Weights in memory as float32; None: not known before it is fetched."""
    half_bytes: int | None = None
    """Weights in memory in a format of two bytes."""
    cached_per_token: int = 0
    """Numbers in the keys and values of a token; 0: not known."""
    architecture: str = ""
    licence: str = ""
    problem: str | None = None
    """Why it cannot be used; None if nothing speaks against it."""

    def needed(self, item_bytes: int, tokens: int = _TYPICAL_TOKENS) -> int | None:
        """Bytes it takes when loaded with numbers of ``item_bytes`` and a cache for ``tokens``."""
        weights = self.full_bytes if item_bytes == 4 else self.half_bytes
        if weights is None:
            return None
        return weights + self.cached_per_token * tokens * item_bytes + WORKING_BYTES

    def fit(self, free: int, item_bytes: int) -> Fit:
        """Whether ``free`` bytes are enough, by estimate."""
        needed = self.needed(item_bytes)
        if needed is None:
            return Fit.UNKNOWN
        if needed > free:
            return Fit.TOO_BIG
        return Fit.TIGHT if needed > _TIGHT * free else Fit.FITS

    @property
    def usable(self) -> bool:
        """Whether it can be loaded, perhaps after fetching something."""
        return self.problem is None or not self.here

    @property
    def source(self) -> str:
        """What would be fetched, from where, in words."""
        if self.place is Place.BUILTIN:
            requirement = BUILTINS[self.name.removeprefix(PREFIX)].requirement
            return f"{shown(self.disk_bytes)} from the package index ({requirement}, {self.licence})"
        return f"From huggingface.co/{self.name}. Its size is shown as soon as the Hub has told it"


def entry_for(name: str, known: Sequence[ModelEntry]) -> ModelEntry:
    """What a name means that may be none of the list. Raises ModelError for one that cannot be used."""
    entry = next((entry for entry in known if entry.name == name), None) or _typed(name)
    if not entry.usable:
        raise ModelUnsupported(f"{name!r} cannot be used: {entry.problem}")
    return entry


def _typed(name: str) -> ModelEntry:
    kind = kind_of(name)
    if kind is SourceKind.BUILTIN:
        find_builtin(name)
    place = {SourceKind.FOLDER: Place.FOLDER, SourceKind.GGUF: Place.GGUF}.get(kind, Place.HUB)
    path = Path(name).expanduser()
    if kind is SourceKind.GGUF and not path.is_file():
        raise ModelNotFound(f"there is no file {name!r}")
    if place is Place.GGUF:
        return replace(_gguf_entry(path), name=name)
    return _folder_entry(path, name, place) if place is Place.FOLDER else ModelEntry(name, place, False, 0)


def item_bytes(dtype: str) -> int:
    """Bytes of a number; "auto" counts as float32, the most it can be."""
    return 2 if dtype in {"bfloat16", "float16"} else 4


def find_models(folders: Sequence[Path] | None = None, hub: Path | None = None) -> tuple[ModelEntry, ...]:
    """Every model at hand, each name once: built in, Hub, folders, GGUF files.

    Args:
        folders: folders that hold model folders or GGUF files (default: the working folder, "models" in it).
        hub: the Hub's cache (default: as the environment says).
    """
    folders = folders_of(()) if folders is None else folders
    found: dict[str, ModelEntry] = {}
    for entry in (*_builtins(), *_in_hub(hub or hub_folder()), *_in_folders(folders)):
        found.setdefault(entry.name, entry)
    return tuple(
        sorted(found.values(), key=lambda entry: (list(Place).index(entry.place), entry.name.lower()))
    )


def folders_of(names: Iterable[str | None]) -> tuple[Path, ...]:
    """Folders beside models that are named by their path, with the usual ones."""
    beside: list[Path] = []
    with suppress(OSError):  # the working folder was deleted
        beside += [Path.cwd(), Path.cwd() / "models"]
    for name in names:
        if name and not name.startswith(PREFIX) and (os.sep in name or name.startswith("~")):
            path = Path(os.path.expanduser(name))  # noqa: PTH111 - keeps a "~user" that does not exist
            beside += [path.parent] if path.exists() else []
    return tuple(dict.fromkeys(beside))


def hub_folder() -> Path:
    """Where the Hub's client keeps its snapshots; the rules are the client's own."""
    environment = os.environ
    named = environment.get("HF_HUB_CACHE") or environment.get("HUGGINGFACE_HUB_CACHE")
    base = environment.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    home = environment.get("HF_HOME") or str(Path(base) / "huggingface")
    return Path(named or str(Path(home) / "hub")).expanduser()


def _builtins() -> Iterator[ModelEntry]:
    for short, model in BUILTINS.items():
        here = is_cached(PREFIX + short)
        parameters = gguf_parameters(cache_dir() / "builtin" / Path(model.member).name) if here else None
        yield ModelEntry(
            PREFIX + short,
            Place.BUILTIN,
            here,
            model.download_bytes,
            **_weights(parameters),
            licence=model.licence,
        )


def _weights(parameters: int | None) -> dict[str, Any]:
    return {} if parameters is None else {"full_bytes": 4 * parameters, "half_bytes": 2 * parameters}


def _in_hub(hub: Path) -> Iterator[ModelEntry]:
    for path in _children(hub, "models--*"):
        name = path.name.removeprefix("models--").replace("--", "/")
        try:
            commit = (path / "refs" / "main").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue  # never fetched by its branch, so the engine would not find it either
        snapshot = path / "snapshots" / Path(commit).name
        if (snapshot / CONFIG).is_file():
            yield _folder_entry(snapshot, name, Place.HUB)
        for file in _children(snapshot, "*.gguf"):
            yield _gguf_entry(file)


def _in_folders(folders: Sequence[Path]) -> Iterator[ModelEntry]:
    for folder in folders:
        for path in (folder, *_children(folder, "*")):
            if (path / CONFIG).is_file():
                yield _folder_entry(path, str(path.absolute()), Place.FOLDER)
            elif path.suffix.lower() == ".gguf" and path.is_file():
                yield _gguf_entry(path)
            elif path != folder and path.is_dir():
                yield from map(_gguf_entry, _children(path, "*.gguf"))


def _children(folder: Path, pattern: str) -> list[Path]:
    """Entries of a folder by name; hidden ones and those behind the limit are left out."""
    try:
        found = [path for path in folder.glob(pattern) if not path.name.startswith(".")]
    except OSError:
        return []
    return sorted(found)[:_MOST_ENTRIES]


def _gguf_entry(path: Path) -> ModelEntry:
    parameters = gguf_parameters(path)
    problem = None if parameters is not None else "no GGUF file, or damaged"
    name = str(path.absolute())
    return ModelEntry(name, Place.GGUF, True, _size([path]), **_weights(parameters), problem=problem)


def _folder_entry(path: Path, name: str, place: Place) -> ModelEntry:
    try:
        folder = read_folder(path)
    except ModelNotFound as error:
        from_hub = place is Place.HUB
        return ModelEntry(name, place, not from_hub, 0, problem=_INCOMPLETE if from_hub else error.message)
    except SpeculateError as error:
        return ModelEntry(name, place, True, 0, problem=error.message)
    except OSError as error:
        return ModelEntry(name, place, True, 0, problem=f"cannot be read: {error.strerror or error}")
    return ModelEntry(
        name,
        place,
        True,
        _size(folder.files),
        full_bytes=bytes_in_memory(folder.entries, 4),
        half_bytes=bytes_in_memory(folder.entries, 2),
        cached_per_token=_cached_per_token(folder),
        architecture=architecture_of(folder.config),
    )


class _TextConfig(SimpleNamespace):
    """What ``cached_numbers`` asks of a transformers configuration."""

    def get_text_config(self, decoder: bool) -> Self:
        return self


def _size(files: Iterable[Path]) -> int:
    total = 0
    for file in files:
        with suppress(OSError):  # it was deleted meanwhile
            total += file.stat().st_size
    return total


def _cached_per_token(folder: Folder) -> int:
    try:
        return cached_numbers(_TextConfig(**folder.text_config))
    except (AttributeError, TypeError, ValueError):  # a configuration with other names
        return 0
