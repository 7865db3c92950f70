"""The user's cache folder: converted models, the built-in model, hashes of weight files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import Cancelled, DiskError, UserError
from engine.user_text import shown

ENVIRONMENT = "NAIVE_SPECULATE_CACHE"
"""Environment variable that names another cache folder."""

CACHE_HINT = f"set {ENVIRONMENT} to a folder with room"
"""What to do about a cache that cannot be written."""

Progress = Callable[[str, int, int | None], None]
"""Called with stage, done and total (None: not known)."""
IsCancelled = Callable[[], bool]

_CHUNK = 1 << 22
_NOTED_BYTES = 1 << 22
"""Hashes of smaller files are not kept: computing one takes 5 ms, and notes are never removed."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    """For callers that show nothing."""


def never() -> bool:
    """For callers that cannot cancel."""
    return False


def stop_if(cancelled: IsCancelled) -> None:
    """Raise Cancelled once the user has said stop."""
    if cancelled():
        raise Cancelled("loading was cancelled")


def cache_dir() -> Path:
    """The cache folder; it need not exist yet. Raises UserError where its variable names no home folder."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError:  # "~" of a user that is not known here
            raise UserError(
                f"{ENVIRONMENT} is {shown(named)}, and there is no such home folder",
                f"set {ENVIRONMENT} to a whole path",
            ) from None
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("naive-speculate", appauthor=False))


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn an OSError of ours into a DiskError: "cannot <doing>: <why>"."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise DiskError(f"cannot {doing}: {why}", CACHE_HINT) from error


def make_dir(path: Path) -> Path:
    """Create a folder of the cache. Raises DiskError."""
    with disk_errors(f"create the folder {path}"):
        path.mkdir(parents=True, exist_ok=True)
    return path


def sha256_of(path: Path, on_progress: Progress = no_progress, cancelled: IsCancelled = never) -> str:
    """SHA-256 of a file, read in chunks; stage "hash", in bytes."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            stop_if(cancelled)
            digest.update(chunk)
            done += len(chunk)
            on_progress("hash", done, total)
    return digest.hexdigest()


def remembered_sha256(path: Path, on_progress: Progress = no_progress, cancelled: IsCancelled = never) -> str:
    """SHA-256 of a file, computed once for each path, size and time of change if it is a large one.

    Files of the Hub's cache are named by their hash, so nothing is read at all.
    """
    real = path.resolve()
    noted = _kept_sha256(real)
    if noted is not None:
        return noted
    digest = sha256_of(real, on_progress, cancelled)
    if real.stat().st_size < _NOTED_BYTES:
        return digest
    note = _note(real)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        temporary = note.with_name(f"{note.name}.{os.getpid()}")
        temporary.write_text(digest, encoding="ascii")
        temporary.replace(note)
    except OSError:
        # A cache that cannot be written costs time at the next load, nothing else.
        pass
    return digest


def noted_sha256(path: Path) -> str | None:
    """SHA-256 of a file that is small, or whose hash was computed before; None for any other."""
    real = path.resolve()
    return sha256_of(real) if real.stat().st_size < _NOTED_BYTES else _kept_sha256(real)


def _kept_sha256(real: Path) -> str | None:
    """By the name or the note of a file."""
    if len(real.name) == 64 and set(real.name) <= set("0123456789abcdef") and real.parent.name == "blobs":
        return real.name
    try:
        return _note(real).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _note(real: Path) -> Path:
    """Where the hash of a file is kept."""
    state = real.stat()
    key = hashlib.sha256(f"{real}\0{state.st_size}\0{state.st_mtime_ns}".encode()).hexdigest()
    return cache_dir() / "hashes" / key
