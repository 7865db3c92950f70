"""A folder of recordings, sound ones and others."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from support.scripted import TARGET, make_round
from support.story import baseline, finished, opening, started

from engine.event_json import plain
from engine.events import Event, Round
from engine.recording import Recorder
from tui.recording_folder import RecordingFolder
from tui.state import Told

HEADER: dict[str, object] = {
    "target": {"name": "org/target"},
    "seed": 1,
    "config": {"draft": {"method": "lookup"}, "verify": {"model_name": "org/target"}},
    "context": [{"role": "user", "content": "Who is there?"}],
}


def answer(pieces: Sequence[bytes], run: int = 1) -> list[Event]:
    """A run that writes these tokens, two a round, and is timed; an odd last one has a round of its own."""
    events: list[Told] = [started(run), *opening()[1:]]
    for at in range(0, len(pieces), 2):
        more = pieces[at : at + 2]
        made = make_round(at // 2 + 1, len(more) - 1, len(more) - 1, pieces=more)
        events.append(_numbered_by_piece(made))
    tokens = sum(len(event.tokens) for event in events if isinstance(event, Round))
    events += [finished(tokens), baseline(tokens, 100.0 * tokens)]
    return [event for event in events if isinstance(event, Event)]


def _numbered_by_piece(made: Round) -> Round:
    """A round whose tokens have the same id where they have the same piece."""
    drafts = tuple(replace(draft, id=_id(draft.piece)) for draft in made.drafts)
    target = replace(made.target, id=_id(made.target.piece))
    return replace(made, drafts=drafts, target=target, tokens=(*(draft.id for draft in drafts), target.id))


def _id(piece: bytes) -> int:
    return zlib.crc32(piece) % 50_000


def record(path: Path, events: Iterable[Event], header: dict[str, object] | None = None) -> Path:
    """Write a recording."""
    recorder = Recorder(path)
    recorder.write_header(HEADER | (header or {}))
    for event in events:
        recorder.write(event)
    recorder.close()
    return path


class Shelf:
    """A recordings folder in a test's own folder; what is put there later is newer."""

    def __init__(self, folder: Path) -> None:
        self.recordings = RecordingFolder(folder / "recordings")
        self.recordings.prepare()
        self._clock = 1_700_000_000

    def path(self, name: str) -> Path:
        return self.recordings.folder / name

    def put(
        self,
        name: str,
        pieces: Sequence[bytes] | None = None,
        *,
        content: bytes | None = None,
        target: str = "org/target",
    ) -> Path:
        """A recording with an answer, or a file with any content."""
        path = self.path(name)
        if content is not None:
            path.write_bytes(content)
        else:
            model = plain(replace(TARGET, name=target))
            record(path, answer(pieces or [b" a", b" b", b" c", b" d"]), {"target": model})
        self._clock += 60
        os.utime(path, (self._clock, self._clock))
        return path

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.recordings.folder.iterdir())


def bad_files(shelf: Shelf) -> dict[str, str]:
    """Files that cannot be read, or not to their end, and what the list says of each."""
    whole = shelf.put("whole.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    newer = json.loads(lines[0]) | {"version": 99}
    contents = {
        "empty.jsonl": (b"", "is empty, not a recording"),
        "foreign.txt": (b"hello\n", "is not a recording"),
        "binary.bin": (bytes(range(256)) * 64, "is not a recording"),
        "newer.jsonl": (json.dumps(newer).encode() + b"\n", "is a recording of version 99"),
        "torn.jsonl": (whole[:-30], "the last line is cut short"),
        "broken.jsonl": (
            b"".join([*lines[:5], b'{"event":"Round", oh\n', *lines[6:]]),
            "line 6: it is no JSON",
        ),
        "escape.jsonl": (b'\x1b]52;c;aGk=\x07{"format":"naive-speculate-recording"}\n', "is not a recording"),
        "cut-header.jsonl": (lines[0][:60], "was cut in its first line"),
    }
    for name, (content, _) in contents.items():
        shelf.put(name, content=content)
    return {name.removesuffix(".jsonl"): told for name, (_, told) in contents.items()}
