"""The folder of saved conversations: one private JSON file each, written as a whole after every edit."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.context import SIZE_LIMIT, dump_context, load_context, messages_from, messages_to
from engine.errors import ContextError, DiskError
from engine.user_text import read_text
from tui.atomic_file import PRIVATE, write_atomic
from tui.conversation import Conversation

FORMAT = "naive-speculate conversation"
VERSION = 1
_ID = re.compile(r"[0-9a-f]{12}")
_LAST = "last"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KEPT = "The file is left as it is; other conversations are not affected."


@dataclass(frozen=True, slots=True)
class Saved:
    """One file of the store, for a list."""

    id: str
    title: str
    """For a damaged file: its file name."""
    messages: int
    modified: float
    """Seconds since the epoch."""
    problem: str | None = None
    """Why it cannot be opened; None if it can."""


class ConversationStore:
    """Saves and finds conversations.

    A file that another program changed since it was read here is never written over: the conversation goes on
    in a file of its own.

    Args:
        folder: where the files are (default: the user's data folder); created when something is saved.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        self._known: dict[str, tuple[int, int]] = {}  # id -> (mtime in ns, size) as last read or written
        self._written: dict[str, str] = {}
        self._last: str | None = None

    def list(self) -> list[Saved]:
        """All saved conversations, the last changed first; damaged ones too, with what is wrong."""
        found = []
        for path in self.folder.glob("*.json"):
            with suppress(OSError):  # it was deleted meanwhile
                if _ID.fullmatch(path.stem):
                    found.append(self._saved(path))
        return sorted(found, key=lambda saved: saved.modified, reverse=True)

    def load(self, id_: str) -> Conversation:
        """A saved conversation, without its undo steps. Raises ContextError for a missing or damaged file."""
        path = self._path(id_)
        text = read_text(str(path), SIZE_LIMIT, ContextError, _KEPT)
        conversation = _parse(text, id_, str(path))
        with suppress(OSError):
            self._known[id_] = _stamp(path)
        self._written[id_] = text
        return conversation

    def save(self, conversation: Conversation) -> Conversation:
        """Write it, and return it with the id of its file. Nothing is written if nothing changed.

        Raises DiskError.
        """
        id_ = conversation.id
        if id_ is None or self._changed_elsewhere(id_):
            id_ = secrets.token_hex(6)
            conversation = replace(conversation, id=id_)
        text = _dump(conversation)
        if self._written.get(id_) != text:
            self._make_folder()
            path = self._path(id_)
            write_atomic(path, text, mode=PRIVATE)
            self._written[id_] = text
            with suppress(OSError):
                self._known[id_] = _stamp(path)
        self._remember(id_)
        return conversation

    def rename(self, id_: str, name: str) -> Conversation:
        """Call a saved conversation something else. Raises ContextError, DiskError."""
        return self.save(self.load(id_).renamed(name))

    def delete(self, id_: str) -> None:
        """Remove a saved conversation for good. Raises DiskError."""
        path = self._path(id_)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"cannot delete {path}: {error.strerror}") from error
        self._known.pop(id_, None)
        self._written.pop(id_, None)

    def restore(self) -> tuple[Conversation, str | None]:
        """The conversation that was open last, and what is wrong with it if it cannot be opened.

        Then, and on a first start, the conversation is a new one.
        """
        try:
            id_ = (self.folder / _LAST).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            id_ = ""
        if not _ID.fullmatch(id_) or not self._path(id_).exists():
            sound = [saved.id for saved in self.list() if saved.problem is None]
            if not sound:
                return Conversation(), None
            id_ = sound[0]
        try:
            return self.load(id_), None
        except ContextError as error:
            return Conversation(), f"{error.message}. {_KEPT}"

    def _remember(self, id_: str) -> None:
        if self._last != id_:
            write_atomic(self.folder / _LAST, id_, mode=PRIVATE)
            self._last = id_

    def _path(self, id_: str) -> Path:
        assert _ID.fullmatch(id_), f"{id_!r} is no id of a conversation"
        return self.folder / f"{id_}.json"

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DiskError(f"cannot create the folder {self.folder}: {error.strerror}") from error

    def _changed_elsewhere(self, id_: str) -> bool:
        try:
            return self._known.get(id_) != _stamp(self._path(id_))
        except OSError:  # it is gone; writing it again loses nothing
            return False

    def _saved(self, path: Path) -> Saved:
        modified = path.stat().st_mtime
        try:
            conversation = _parse(read_text(str(path), SIZE_LIMIT, ContextError, _KEPT), path.stem, path.name)
        except ContextError as error:
            return Saved(path.stem, path.name, 0, modified, error.message)
        return Saved(path.stem, conversation.title, len(conversation), modified)


def default_folder() -> Path:
    """Where conversations are saved: below the user's data folder."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("naive-speculate", appauthor=False)) / "conversations"


def import_context(path: str) -> Conversation:
    """A new conversation from a context file. Raises ContextError."""
    return Conversation(load_context(path), name=Path(path).stem[:60])


def export_context(conversation: Conversation, path: Path) -> None:
    """Write the messages as a context file, for ``spec CONFIG CONTEXT``. Raises ContextError, DiskError."""
    if not conversation.messages:
        raise ContextError("the conversation has no message to export", "Write one first.")
    write_atomic(path, _sound(dump_context(conversation.messages)))


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


def _dump(conversation: Conversation) -> str:
    value = {
        "format": FORMAT,
        "version": VERSION,
        "name": conversation.name,
        "messages": messages_to(conversation.messages),
    }
    return _sound(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _sound(text: str) -> str:
    """Half characters cannot be written as UTF-8; the file must not fail for one of them."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def _parse(text: str, id_: str, name: str) -> Conversation:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ContextError(f"{name}: is damaged: no valid JSON", _KEPT) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ContextError(f"{name}: is no saved conversation", _KEPT)
    if value.get("version") != VERSION:
        raise ContextError(f"{name}: was saved by a newer program", "Update this one to open it.")
    title, messages = value.get("name"), value.get("messages")
    if not isinstance(title, str):
        raise ContextError(f"{name}: is damaged: it has no name", _KEPT)
    return Conversation(messages_from(messages, name) if messages != [] else (), title, id_)
