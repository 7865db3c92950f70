"""A file of what was measured so far, so that a run that was stopped can be gone on with.

One line of JSON an entry. Its key says what it depends on: code, versions, machine, what was asked for. Lines
of another key are no part of the run and are not used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.errors import UserError
from engine.models.cache import cache_dir, disk_errors, make_dir
from engine.user_text import shown_name

_HINT = "Name a file of its own: it is removed when the bench is done."
NAME, KEY = "measure", "key"
"""Fields that every line has beside its content."""


def now() -> str:
    """The time of day, as an entry may note it."""
    return datetime.now().astimezone().isoformat(" ", "seconds")


def key_of(what: Mapping[str, Any]) -> str:
    """A short name for all that a measurement depends on; anything that is no JSON counts as its text."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


def code_hash(*packages: ModuleType) -> str:
    """SHA-256 over every source file of these packages, names included."""
    digest = hashlib.sha256()
    for package in packages:
        assert package.__file__, "a package of files"
        root = Path(package.__file__).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def default_path(bench: str) -> Path:
    """Where a bench keeps its entries if it is not told: in the user's cache folder."""
    return cache_dir() / "bench" / f"{bench}.jsonl"


class Journal:
    """The entries of one run, by name: what is in the file, and what is added.

    Args:
        path: of the file, which need not exist; None: nothing is kept.
        key: of this run, by ``key_of``.
        names: of the entries this run consists of; lines with other names are not its own.
        fields: what an entry has to hold; a line that lacks some is not used.

    Raises:
        UserError: the path is a folder, or a file of something else, which ``drop`` would remove.
        DiskError: it cannot be read.
    """

    def __init__(self, path: Path | None, key: str, names: Collection[str], fields: Collection[str]) -> None:
        if path:
            _refuse_foreign(path)
        self.path = path
        self._key = key
        lines = [line for line in (read_lines(path) if path else ()) if line.keys() >= set(fields)]
        known = set(names)
        self.entries: dict[str, dict[str, Any]] = {
            line[NAME]: line for line in lines if line[KEY] == key and line[NAME] in known
        }
        others = {line[NAME] for line in lines if line[KEY] != key} & known
        self.outdated = len(others - self.entries.keys())
        """Entries that are there for other code, versions, machine or setup only."""

    def add(self, name: str, entry: Mapping[str, Any]) -> None:
        """Keep an entry. Raises DiskError."""
        self.entries[name] = {KEY: self._key, NAME: name, **entry}
        if self.path is None:
            return
        make_dir(self.path.parent)
        text = json.dumps(self.entries[name], allow_nan=False)
        with disk_errors(f"write {self.path}"), self.path.open("a", encoding="utf-8") as file:
            # A line that a kill left without its end stands alone.
            file.write(("" if _ends_line(self.path) else "\n") + text + "\n")

    def drop(self) -> None:
        """The run is over, or begins anew: forget everything. Raises DiskError."""
        self.entries.clear()
        self.outdated = 0
        if self.path:
            with disk_errors(f"remove {self.path}"):
                self.path.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are whole; none of a file that is not there."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by a kill
        if isinstance(entry, dict) and isinstance(entry.get(NAME), str) and KEY in entry:
            yield entry


def _refuse_foreign(path: Path) -> None:
    """Raises UserError for what no journal has written."""
    if not os.path.lexists(path):
        return
    name = shown_name(str(path))
    if not path.is_file():
        raise UserError(f"{name}: is no regular file, so nothing is kept there", _HINT)
    with disk_errors(f"read {path}"):
        text = path.read_text("utf-8", "replace")
    if not all(map(_may_be_entry, text.splitlines())):
        raise UserError(f"{name}: holds something else than a stopped bench", _HINT)


def _may_be_entry(line: str) -> bool:
    """Whether it is a line of a journal, whole or cut off by a kill."""
    try:
        entry = json.loads(line)
    except ValueError:
        return not line.strip() or line.startswith("{")
    return isinstance(entry, dict) and entry.keys() >= {NAME, KEY}


def _ends_line(path: Path) -> bool:
    data = path.read_bytes()
    return not data or data.endswith(b"\n")
