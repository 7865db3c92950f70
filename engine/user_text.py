"""What people write, files and words: read with a size limit, shown safely, the nearest known word."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Sequence
from pathlib import Path

from engine.errors import UserError

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def shown(value: object, limit: int = 60) -> str:
    """A value from outside, short and on one line: control characters are escaped."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, deep nesting
        return "a value too long to show"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def shown_name(name: str, limit: int = 200) -> str:
    """A path or key as the user wrote it, quoted, escaped and cut only where it must be."""
    return name if name.isprintable() and 0 < len(name) <= limit else shown(name, limit)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower()[:200], by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def size_text(size: int) -> str:
    """A limit in bytes as people say it."""
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size // 2**10} KiB"


def read_text(path: str, limit: int, error: type[UserError], hint: str | None = None) -> str:
    """The text of a file of at most ``limit`` bytes.

    Raises ``error`` for a path that is missing, a directory, unreadable or too large, and for bytes that are
    not UTF-8. Nothing beyond the limit is read, so an endless device is no danger.
    """
    name = shown_name(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise error(f"{name}: no such file", hint) from None
    except IsADirectoryError:
        raise error(f"{name}: is a directory, not a file", hint) from None
    except PermissionError:
        raise error(f"{name}: may not be read", "Check the permissions of the file.") from None
    except OSError as failure:
        raise error(f"{name}: cannot be read: {failure.strerror or failure}", hint) from None
    except ValueError:  # a NUL in the path
        raise error(f"{name}: is not a possible file name", hint) from None
    return decode(data, limit, name, error)


def decode(data: bytes, limit: int, name: str, error: type[UserError]) -> str:
    """Bytes as text: UTF-8, a byte order mark is dropped. Raises ``error`` as ``read_text`` does."""
    if len(data) > limit:
        raise error(f"{name}: is larger than {size_text(limit)}", "Is this the right file?")
    if data.startswith(_UTF16_MARKS):
        raise error(f"{name}: is UTF-16, not UTF-8", "Save the file as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise error(
            f"{name}, line {line}: byte 0x{data[failure.start]:02x} is not UTF-8", "Save the file as UTF-8."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise error(
            f"{name}, line {line}: holds a NUL byte, so it is no text file", "Is this the right file?"
        )
    return text
