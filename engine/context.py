"""The chat messages an answer is written to: JSON in and out, validated.

The file is a list of objects, each with ``role`` and ``content``, both strings.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from engine import presets
from engine.errors import ContextError
from engine.user_text import decode, nearest, read_text, shown, shown_name

ROLES = ("system", "user", "assistant", "tool")
SIZE_LIMIT = 16 * 2**20
"""Largest context file, in bytes."""
_KEYS = ("role", "content")
_SHAPE = 'A context is a list of messages: [{"role": "user", "content": "..."}]'
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: str
    """One of ``ROLES``."""
    content: str


def load_context(source: str, stdin: BinaryIO | TextIO | None = None) -> tuple[Message, ...]:
    """Read a context file, or ``stdin`` (default: this process's) where the path is "-".

    Raises ContextError in one line that names the file and the message, counted from 1.
    """
    if source != "-":
        return parse_context(read_text(source, SIZE_LIMIT, ContextError, _SHAPE), shown_name(source))
    stream: BinaryIO | TextIO | None = sys.stdin if stdin is None else stdin
    if stream is None:  # the process was started without one
        raise ContextError("standard input: is closed", "Name a context file.")
    try:
        data: bytes | str = getattr(stream, "buffer", stream).read(SIZE_LIMIT + 1)
    except OSError as failure:
        raise ContextError(f"standard input: cannot be read: {failure.strerror or failure}") from None
    if isinstance(data, str):  # a text stream without bytes beneath, such as io.StringIO
        data = data.encode("utf-8", "surrogatepass")
    return parse_context(decode(data, SIZE_LIMIT, "standard input", ContextError), "standard input")


def preset_context(name: str) -> tuple[Message, ...]:
    """The context that belongs to a preset. Raises KeyError for a name that is none."""
    return parse_context(presets.context_text(name), f"preset {name}")


def parse_context(text: str, name: str) -> tuple[Message, ...]:
    """Messages from JSON text; ``name`` stands for the file in messages. Raises ContextError."""
    if not text.strip():
        raise ContextError(f"{name}: is empty", _SHAPE)
    try:
        value: object = json.loads(text, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as failure:
        where = f"line {failure.lineno}, column {failure.colno}"
        raise ContextError(f"{name}, {where}: no valid JSON: {failure.msg}", _SHAPE) from None
    except _KeyTwice as failure:
        raise ContextError(f"{name}: a message has the key {failure} twice", _SHAPE) from None
    except RecursionError:
        raise ContextError(f"{name}: is nested too deeply", _SHAPE) from None
    except ValueError:  # an integer of more than 4300 digits
        raise ContextError(f"{name}: holds a number that is too long", _SHAPE) from None
    return messages_from(value, name)


def messages_from(value: object, name: str) -> tuple[Message, ...]:
    """Messages from decoded JSON, such as the context in a recording's header. Raises ContextError."""
    if not isinstance(value, list):
        raise ContextError(f"{name}: is {_kind(value)}, not a list of messages", _SHAPE)
    if not value:
        raise ContextError(f"{name}: holds no message", _SHAPE)
    return tuple(_message(item, f"{name}: message {number}") for number, item in enumerate(value, start=1))


def messages_to(messages: Sequence[Message]) -> list[dict[str, str]]:
    """What ``messages_from`` reads: a list of objects with role and content."""
    return [{"role": message.role, "content": message.content} for message in messages]


def dump_context(messages: Sequence[Message]) -> str:
    """The JSON text of a context file, ending in a newline; ``parse_context`` gives the messages back."""
    return json.dumps(messages_to(messages), indent=2, ensure_ascii=False) + "\n"


class _KeyTwice(Exception):
    pass


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _KeyTwice(shown(key))
        found[key] = value
    return found


def _message(item: object, where: str) -> Message:
    if not isinstance(item, dict):
        raise ContextError(f"{where} is {_kind(item)}, not an object with role and content", _SHAPE)
    for key in item:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            hint = f"Did you mean {near!r}?" if near else "A message has the keys 'role' and 'content'."
            raise ContextError(f"{where} has an unknown key {shown(key)}", hint)
    role, content = (_text(item, key, where) for key in _KEYS)
    if role not in ROLES:
        near = nearest(role, ROLES)
        hint = f"Roles are {', '.join(ROLES)}" + (f"; did you mean {near!r}?" if near else ".")
        raise ContextError(f"{where} has an unknown role {shown(role)}", hint)
    return Message(role, content)


def _text(item: dict[str, object], key: str, where: str) -> str:
    if key not in item:
        raise ContextError(f"{where} has no {key!r}", _SHAPE)
    text = item[key]
    if not isinstance(text, str):
        raise ContextError(f"{where}: {key!r} is {_kind(text)}, not a string: {shown(text)}", _SHAPE)
    lone = LONE_SURROGATE.search(text)
    if lone:
        raise ContextError(
            f"{where}: {key!r} has half a character, {lone.group()!a}, at position {lone.start() + 1}",
            "A character beyond \\uffff is written as a pair: \\ud83d\\ude00.",
        )
    return text


def _kind(value: object) -> str:
    """The JSON kind of a value, with its article."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
