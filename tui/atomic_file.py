"""A file is replaced as a whole or not at all, so that a crash or a full disk never leaves half of one."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from engine.errors import DiskError

PRIVATE = 0o600
"""Read and written by the user alone."""
_HINT = "Choose a folder that can be written."


def user_path(name: str) -> Path:
    """The path that a user typed, ``~`` read as a home folder. Raises DiskError for a user without one."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise DiskError(f"{name}: there is no such home folder", _HINT) from error


def write_atomic(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace the content of a file, through a temporary file beside it.

    A link stays a link: the file it leads to is replaced.

    Args:
        mode: the permissions, less what the umask takes away; None keeps those that the file has, and makes
            a new one private.

    Raises:
        DiskError: the file cannot be written, or the path leads to a device, a pipe or round in a circle.
            The old content is untouched.
    """
    temporary: Path | None = None
    try:
        target = path.resolve()
        kept = _permissions(target)
        beside = target.parent / f".{secrets.token_hex(6)}.tmp"
        wanted = PRIVATE if mode is None else mode
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, wanted)
        temporary = beside
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if mode is None and kept is not None:
            temporary.chmod(kept)
        temporary.replace(target)
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: a NUL in the path, or half a character in the text. RuntimeError: links in a circle.
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        why = getattr(error, "strerror", None) or str(error)
        raise DiskError(f"cannot write {path}: {why}", _HINT) from error


def _permissions(target: Path) -> int | None:
    """Those of a file that exists, else None. Raises DiskError for what is no file, such as a device."""
    try:
        state = target.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(state.st_mode):
        raise DiskError(f"cannot write {target}: it exists and is no regular file", "Choose another name.")
    return stat.S_IMODE(state.st_mode)
