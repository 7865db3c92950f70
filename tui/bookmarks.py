"""The user's bookmarks in recordings, kept beside the program's other state: a recording is never changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import DiskError
from engine.recording import reason_of
from tui.atomic_file import write_atomic
from tui.failures import state_dir

_MOST = 10_000


class Bookmarks:
    """Rounds of one recording, counted from 0 over all its runs.

    Args:
        header: what the recording's first line says; it tells recordings apart, whatever their files' names.
        folder: where bookmarks are kept.
    """

    def __init__(self, header: Mapping[str, Any], folder: Path | None = None) -> None:
        key = json.dumps(header, sort_keys=True, default=str).encode()
        self._path = (folder or state_dir() / "bookmarks") / f"{hashlib.sha256(key).hexdigest()[:32]}.json"
        self.rounds: list[int] = self._read()
        """In their order."""

    def _read(self) -> list[int]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return []  # none were kept, or they cannot be read: the recording is played without them
        if not isinstance(found, list):
            return []
        return sorted({mark for mark in found[:_MOST] if type(mark) is int and mark >= 0})

    def toggle(self, at: int) -> bool:
        """Set a bookmark, or take it away; whether it is set now. Raises DiskError where it is not kept."""
        is_set = at not in self.rounds
        self.rounds = sorted({*self.rounds, at} if is_set else {*self.rounds} - {at})
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DiskError(f"cannot make the folder {self._path.parent}: {reason_of(error)}") from error
        write_atomic(self._path, json.dumps(self.rounds))
        return is_set
