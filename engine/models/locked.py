"""Making a file or folder of the cache once, however many processes want it at the same time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import DiskError
from engine.models.cache import CACHE_HINT, IsCancelled, disk_errors, make_dir, stop_if

_RETRY_SECONDS = 0.2


@contextmanager
def locked(path: Path, cancelled: IsCancelled) -> Iterator[None]:
    """Hold the lock that belongs to ``path``. Raises Cancelled while waiting for it, DiskError."""
    from filelock import FileLock, Timeout

    make_dir(path.parent)
    lock = FileLock(path.with_name(path.name + ".lock"))
    while True:
        stop_if(cancelled)
        try:
            lock.acquire(timeout=_RETRY_SECONDS)
            break
        except Timeout:
            continue
        except OSError as error:
            raise DiskError(f"cannot lock {path}: {error.strerror or error}", CACHE_HINT) from error
        except NotImplementedError as error:
            raise DiskError(f"the disk of {path.parent} has no file locks") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """An empty folder on the same disk as ``path``, gone afterwards. Call it under the lock of ``path``.

    What an earlier process left there when it was killed is removed first.
    """
    scratch = path.with_name(path.name + ".part")
    with disk_errors(f"clear {scratch}"):
        if scratch.exists():
            shutil.rmtree(scratch)
        scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
