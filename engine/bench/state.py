"""What a bench has measured so far, in a file, so that a run that was stopped can be gone on with.

One line of JSON a measure. Its key says what it depends on: code, versions, machine, setup. Lines of another
key are no part of the run and are not used, and a run that reaches its end removes the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.bench.report import Row
from engine.models.cache import cache_dir, disk_errors, make_dir


@dataclass(frozen=True, slots=True)
class Done:
    """A measure that was finished."""

    measure: str
    rows: tuple[Row, ...]
    seconds: float
    """What it took."""
    ended: str
    """When, in local time."""


def now() -> str:
    """The time of day for ``Done.ended``."""
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
    """Where a bench keeps its state if it is not told: in the user's cache folder."""
    return cache_dir() / "bench" / f"{bench}.jsonl"


class State:
    """The finished measures of one run.

    Args:
        path: of the file, which need not exist; None: nothing is kept.
        key: of this run, by ``key_of``.
        measures: names of those this run consists of.
    """

    def __init__(self, path: Path | None, key: str, measures: Sequence[str]) -> None:
        self.path = path
        self._key = key
        lines = list(_lines(path)) if path else []
        self.finished: dict[str, Done] = {
            line["measure"]: _done(line)
            for line in lines
            if line["key"] == key and line["measure"] in measures
        }
        names = {line["measure"] for line in lines if line["key"] != key} & set(measures)
        self.outdated = len(names - self.finished.keys())
        """Measures that are there for other code, versions, machine or setup only."""

    def add(self, done: Done) -> None:
        """Keep a measure. Raises DiskError."""
        self.finished[done.measure] = done
        if self.path is None:
            return
        make_dir(self.path.parent)
        line = {"key": self._key, **asdict(done)}
        with disk_errors(f"write {self.path}"), self.path.open("a", encoding="utf-8") as file:
            # A line that a kill left without its end stands alone.
            file.write(("" if _ends_line(self.path) else "\n") + json.dumps(line, allow_nan=False) + "\n")

    def drop(self) -> None:
        """The run is over, or begins anew: forget everything. Raises DiskError."""
        self.finished.clear()
        self.outdated = 0
        if self.path:
            with disk_errors(f"remove {self.path}"):
                self.path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines that are whole."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by a kill
        if isinstance(entry, dict) and entry.keys() >= {"key", *Done.__dataclass_fields__}:
            yield entry


def _ends_line(path: Path) -> bool:
    data = path.read_bytes()
    return not data or data.endswith(b"\n")


def _done(line: Mapping[str, Any]) -> Done:
    rows = tuple(Row(**{**row, "points": tuple(row["points"])}) for row in line["rows"])
    return Done(line["measure"], rows, line["seconds"], line["ended"])
