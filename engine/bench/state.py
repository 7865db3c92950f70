"""What a bench of rows has measured so far: a journal whose entries are finished measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.bench.journal import NAME, Journal, code_hash, default_path, key_of, now, read_lines
from engine.bench.report import Row

__all__ = ["Done", "State", "code_hash", "default_path", "key_of", "now", "read_all"]


@dataclass(frozen=True, slots=True)
class Done:
    """A measure that was finished."""

    measure: str
    rows: tuple[Row, ...]
    seconds: float
    """What it took."""
    ended: str
    """When, in local time."""


class State:
    """The finished measures of one run.

    Args:
        path: of the file, which need not exist; None: nothing is kept.
        key: of this run, by ``key_of``.
        measures: names of those this run consists of.
    """

    def __init__(self, path: Path | None, key: str, measures: Sequence[str]) -> None:
        self._journal = Journal(path, key, measures, _FIELDS)
        self.finished: dict[str, Done] = {name: _done(entry) for name, entry in self._journal.entries.items()}

    @property
    def path(self) -> Path | None:
        return self._journal.path

    @property
    def outdated(self) -> int:
        """Measures that are there for other code, versions, machine or setup only."""
        return self._journal.outdated

    def add(self, done: Done) -> None:
        """Keep a measure. Raises DiskError."""
        self.finished[done.measure] = done
        self._journal.add(done.measure, asdict(done))

    def drop(self) -> None:
        """The run is over, or begins anew: forget everything. Raises DiskError."""
        self.finished.clear()
        self._journal.drop()


def read_all(path: Path) -> list[Done]:
    """Every measure in a file, whatever run it is of: the newest of each name, in their order."""
    newest = {line[NAME]: line for line in read_lines(path) if line.keys() >= _FIELDS}
    return [_done(line) for line in newest.values()]


_FIELDS = frozenset(Done.__dataclass_fields__)


def _done(line: Mapping[str, Any]) -> Done:
    rows = tuple(Row(**{**row, "points": tuple(row["points"])}) for row in line["rows"])
    return Done(line["measure"], rows, line["seconds"], line["ended"])
