"""GGUF files: converted once to a safetensors folder in the user's cache, keyed by the file's sha256.

The conversion runs in a child process: it can be cancelled at any moment, and the memory it needs (about
twice the float32 weights) goes back to the machine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import engine
from engine import errors
from engine.errors import ModelNotFound, ModelUnsupported
from engine.models.cache import IsCancelled, Progress, cache_dir, disk_errors, remembered_sha256
from engine.models.child import last_words, run_child
from engine.models.locked import locked, scratch_beside

NOTE = "naive_speculate.json"
"""What is known of the GGUF file, kept in the converted folder."""

_MAGIC = b"GGUF"
_SIGKILL = 9


def ensure_converted(path: Path, on_progress: Progress, cancelled: IsCancelled) -> tuple[Path, str]:
    """The folder with the float32 safetensors of a GGUF file, and the file's sha256.

    Raises ModelNotFound, ModelUnsupported with the reason, DoesNotFit, DiskError, Cancelled.
    """
    if not path.is_file():
        raise ModelNotFound(f"there is no file {path}")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ModelUnsupported(f"{path} is no GGUF file", "copy or download it again")
    sha256 = remembered_sha256(path, on_progress, cancelled)
    folder = converted_folder(sha256)
    if not folder.is_dir():
        with locked(folder, cancelled):
            if not folder.is_dir():
                _convert(path, folder, on_progress, cancelled)
    return folder, sha256


def converted_folder(sha256: str) -> Path:
    """Where the conversion of a GGUF file is kept; it need not be there yet."""
    return cache_dir() / "gguf" / sha256


def licence_of(folder: Path) -> str | None:
    """The licence that the GGUF file's metadata name."""
    try:
        licence = json.loads((folder / NOTE).read_text(encoding="utf-8")).get("licence")
    except (OSError, ValueError, AttributeError):
        return None
    return licence if isinstance(licence, str) else None


def _convert(path: Path, folder: Path, on_progress: Progress, cancelled: IsCancelled) -> None:
    with scratch_beside(folder) as scratch:
        made, log, progress = scratch / "model", scratch / "log", scratch / "progress"
        on_progress("convert", 0, None)

        def on_tick() -> None:
            if (counts := _read_counts(progress)) is not None:
                on_progress("convert", *counts)

        root = str(Path(engine.__file__).parents[1])
        search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        status = run_child(
            # Warnings of other libraries are no reason to stop, whatever this process makes of them.
            [sys.executable, "-W", "ignore", "-m", "engine.models.gguf_convert", str(path), str(scratch)],
            env={**os.environ, "PYTHONPATH": search, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"},
            log=log,
            on_tick=on_tick,
            cancelled=cancelled,
        )
        if status != 0:
            raise _reported(scratch / "error", path, status, log)
        with disk_errors(f"move the converted model to {folder}"):
            made.replace(folder)
    on_progress("convert", 1, 1)


def _read_counts(progress: Path) -> tuple[int, int] | None:
    try:
        done, total = progress.read_text(encoding="ascii").split()
        return int(done), int(total)
    except (OSError, ValueError):
        # Not written yet, or just being written.
        return None


def _reported(report: Path, path: Path, status: int, log: Path) -> errors.SpeculateError:
    """The error that the child wrote down, or what its end without one means."""
    try:
        name, message, hint = json.loads(report.read_text(encoding="utf-8"))
        kind: type[errors.SpeculateError] = getattr(errors, name)
    except (OSError, ValueError, AttributeError):
        if status == -_SIGKILL:
            # Nobody but the system's memory guard ends it like that.
            return errors.OutOfMemory(f"memory ran out while converting {path}", "use a smaller model")
        return errors.EngineError(f"converting {path} failed with status {status}: {last_words(log)}")
    return kind(message, hint)
