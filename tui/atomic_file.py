"""A file is replaced as a whole or not at all, so that a crash or a full disk never leaves half of one."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from engine.errors import DiskError

PRIVATE = 0o600
"""Read and written by the user alone."""


def write_atomic(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace the content of a file, through a temporary file beside it.

    A link stays a link: the file it leads to is replaced. ``mode`` are the permissions; None keeps those the
    file has, and makes a new one private. Raises DiskError, and then the old content is untouched.
    """
    temporary: str | None = None
    try:
        target = path.resolve()
        if mode is None:
            mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else PRIVATE
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or half a character in the text
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        why = getattr(error, "strerror", None) or str(error)
        raise DiskError(f"cannot write {path}: {why}", "Choose a folder that can be written.") from error
