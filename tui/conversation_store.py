"""The folder of saved conversations: one private JSON file each, written as a whole after every edit."""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.context import LONE_SURROGATE, SIZE_LIMIT, dump_context, load_context, messages_from, messages_to
from engine.errors import ContextError, DiskError
from engine.user_text import read_text
from tui.atomic_file import PRIVATE, write_atomic
from tui.conversation import Conversation

FORMAT = "naive-speculate conversation"
VERSION = 1
_ID = re.compile(r"[0-9a-f]{12}")
_LAST = "last"
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
    preset: str = ""
    """The preset it began with; "" for none."""


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
        stamp = None
        with suppress(OSError):  # reading says what is wrong
            # Before it is read: what another program writes meanwhile is then seen as a change.
            stamp = _stamp(path)
        text = read_text(str(path), SIZE_LIMIT, ContextError, _KEPT)
        conversation = _parse(text, id_, str(path))
        if stamp is not None:
            self._known[id_] = stamp
        self._written[id_] = text
        return conversation

    def save(self, conversation: Conversation) -> Conversation:
        """Write the open conversation, and return it with the id of its file. Nothing is written if nothing
        changed.

        Raises:
            DiskError: the folder cannot be created, or a file in it cannot be written.
        """
        conversation = self._write(conversation)
        assert conversation.id is not None, "what was written has a file"
        self._remember(conversation.id)
        return conversation

    def opened(self, conversation: Conversation) -> None:
        """It is the one that ``restore`` brings back. A disk that refuses is no reason not to open it."""
        if conversation.id is not None:
            with suppress(DiskError):
                self._remember(conversation.id)

    def _write(self, conversation: Conversation) -> Conversation:
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
        return conversation

    def rename(self, id_: str, name: str) -> Conversation:
        """Call a saved conversation that is not open something else. Raises ContextError, DiskError."""
        return self._write(self.load(id_).renamed(name))

    def delete(self, id_: str) -> None:
        """Remove a saved conversation for good. Raises DiskError."""
        path = self._path(id_)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"cannot delete {path}: {error.strerror}") from error
        self._known.pop(id_, None)
        self._written.pop(id_, None)

    def restore(self, preset: str = "") -> tuple[Conversation, str | None]:
        """The conversation that was open last, and what is wrong with it if it cannot be opened.

        Where that is not known any more, it is the one that was changed last. One that cannot be opened, and
        one where there is none yet, is a new one.

        Args:
            preset: only those that began with this preset count; "" for all.
        """
        try:
            id_ = (self.folder / _LAST).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            id_ = ""
        known = bool(_ID.fullmatch(id_)) and self._path(id_).exists()
        if preset or not known:
            fitting = (saved for saved in self.list() if preset in {"", saved.preset})
            sound = [saved.id for saved in fitting if saved.problem is None]
            if not sound:
                return Conversation(), None
            id_ = id_ if id_ in sound else sound[0]
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
        return Saved(path.stem, conversation.title, len(conversation), modified, preset=conversation.preset)


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
        "preset": conversation.preset,
        "messages": messages_to(conversation.messages),
    }
    return _sound(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _sound(text: str) -> str:
    """Half characters cannot be written as UTF-8; the file must not fail for one of them."""
    return LONE_SURROGATE.sub("\ufffd", text)


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
    preset = value.get("preset")
    found = messages_from(messages, name) if messages != [] else ()
    return Conversation(found, title, id_, preset if isinstance(preset, str) else "")
