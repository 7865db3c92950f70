"""The folder of recordings: one private file each, named by when it began and with which models."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from engine.errors import DiskError
from engine.recording import Recorder, reason_of
from engine.user_text import shown_name
from tui.failures import state_dir

SUFFIX = ".jsonl"
_LONGEST_NAME = 255
"""Bytes of a file name that file systems take."""
_LONGEST_MODEL = 60
"""Characters that a model's name has in a file name."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of the folder."""

    path: Path
    size: int
    modified_ns: int
    """When it was written to last, in nanoseconds since the epoch."""

    @property
    def title(self) -> str:
        """Its name without what every recording's ends in."""
        return self.path.name.removesuffix(SUFFIX)


def default_folder() -> Path:
    """Where recordings are kept: below the user's state folder. It need not exist yet."""
    return state_dir() / "recordings"


class RecordingFolder:
    """Makes, lists, renames and deletes recordings.

    Args:
        folder: where the files are (default: in the user's state folder); made when it is needed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder or default_folder()

    def prepare(self) -> None:
        """Make the folder, for its owner alone. Raises DiskError where nothing can be written."""
        folder = self.folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DiskError(f"cannot create the folder {folder}: {reason_of(error)}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise DiskError(f"cannot write into the folder {folder}", "Check its permissions.")

    def begin(self, target: str, drafter: str, now: datetime) -> Recorder:
        """A recorder on a new file. Raises DiskError or RecordingError."""
        self.prepare()
        name = f"{now:%Y%m%d-%H%M%S}-{_model(target)}+{_model(drafter)}"
        return Recorder(free_path(self.folder / f"{name}{SUFFIX}"))

    def list(self) -> list[Entry]:
        """The regular files of the folder, the newest first. Hidden ones are none of its business."""
        found: list[Entry] = []
        try:
            paths = [*self.folder.iterdir()]
        except OSError:
            return found
        for path in paths:
            with suppress(OSError):  # it was deleted meanwhile
                status = path.stat()
                # Opening a pipe or a device would wait, or do something.
                if stat.S_ISREG(status.st_mode) and not path.name.startswith("."):
                    found.append(Entry(path, status.st_size, status.st_mtime_ns))
        return sorted(found, key=lambda entry: entry.modified_ns, reverse=True)

    def rename(self, path: Path, title: str) -> Path:
        """Call a recording something else; returns its new path.

        Raises:
            DiskError: the name is taken or not possible, or the disk refuses.
        """
        problem = name_problem(title)
        if problem is not None:
            raise DiskError(f"cannot rename {path.name}: {problem}")
        new = path.with_name(_with_suffix(title))
        if new == path:
            return path
        with claimed(new):
            try:
                path.replace(new)
            except OSError as error:
                raise DiskError(f"cannot rename {path.name}: {reason_of(error)}") from error
        return new

    def delete(self, path: Path) -> None:
        """Remove a recording for good. Raises DiskError."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"cannot delete {path.name}: {reason_of(error)}") from error


def name_problem(title: str) -> str | None:
    """Why a recording cannot be called so; None if it can."""
    if "/" in title or os.sep in title:
        return "A name holds no path."
    if not title or title.startswith("."):
        return "A name does not begin with a dot."
    if _CONTROL.search(title):
        return "A name holds no control characters."
    if len(os.fsencode(_with_suffix(title))) > _LONGEST_NAME:
        return f"A name has {_LONGEST_NAME - len(SUFFIX)} bytes at most."
    return None


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Hold the name of a new file while its content is put there as a whole, so that nothing is overwritten.

    Raises:
        DiskError: there is a file of that name, or none can be made.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError as error:
        raise DiskError(f"{path} exists", "Give another name, or remove that file first.") from error
    except (OSError, ValueError) as error:
        raise DiskError(f"cannot write {path}: {reason_of(error)}") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if not path.stat().st_size:
                path.unlink()
        raise


def with_name_only(message: str, path: Path) -> str:
    """What an error of the engine says of a file, with its name in place of its path."""
    return message.replace(shown_name(str(path)), shown_name(path.name))


def free_path(path: Path) -> Path:
    """The path, or one like it with a number, that no file has."""
    found, number = path, 1
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found


def _with_suffix(title: str) -> str:
    return title if title.endswith(SUFFIX) else title + SUFFIX


def _model(name: str) -> str:
    """A model's name without where it comes from, in letters that every file system takes."""
    last = name.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return _UNSAFE.sub("-", last).strip("-.")[:_LONGEST_MODEL] or "model"
