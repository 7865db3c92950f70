"""A configuration back into its TOML file: only what changed is touched, comments and order stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import tomli
import tomlkit
from tomlkit.exceptions import TOMLKitError

from engine.config import SIZE_LIMIT, Config, config_schema, parse_config
from engine.errors import ConfigError
from engine.user_text import read_text, shown_name
from tui.atomic_file import write_atomic

_HEADER = re.compile(r"\s*\[\s*([\w-]+)\s*\]\s*(#.*)?")
_MODE = 0o644
"""A new configuration holds no secrets."""


def save_config(config: Config, path: Path) -> None:
    """Write a configuration so that reading ``path`` gives it back.

    An existing file keeps its comments, its order and what it says already; a new one gets the sentence of
    each key as a comment. Raises ConfigError for an existing file that is no TOML or that cannot take these
    settings, DiskError.
    """
    name = shown_name(str(path))
    text = read_text(str(path), SIZE_LIMIT, ConfigError) if path.exists() else ""
    mode = None if path.exists() else _MODE
    write_atomic(path, updated(text, config, name) if text.strip() else fresh(config), mode=mode)


def updated(text: str, config: Config, name: str = "the file") -> str:
    """``text`` with the values of ``config``. Raises ConfigError if it is no TOML or cannot take them."""
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as failure:
        raise ConfigError(f"{name}: {failure}", "Repair the file, or save under another name.") from None
    new: list[tuple[str, str, Any]] = []
    for section, key, value, default in _values(config):
        table: Any = document.get(section)
        if isinstance(table, MutableMapping) and key in table:
            given = document.unwrap()[section][key]
            if value is None:
                del table[key]
            elif not _same(given, value):
                table[key] = value
        elif value != default:
            new.append((section, key, value))
    result = tomlkit.dumps(document)
    for section, key, value in new:
        result = _with_key(result, section, key, value)
    _check(result, config, name)
    return result


def fresh(config: Config) -> str:
    """The text of a new file: what differs from the defaults, each key under its sentence."""
    sentences = sentences_of()
    lines = ["# Configuration of Naive Speculate. What is left out has its default."]
    shown_section = None
    for section, key, value, default in _values(config):
        if value == default and f"{section}.{key}" not in ("draft.model_name", "verify.model_name"):
            continue
        if value is None:
            continue
        if section != shown_section:
            lines += ["", f"[{section}]"]
            shown_section = section
        lines += [f"# {sentences[f'{section}.{key}']}", _line(key, value)]
    text = "\n".join(lines) + "\n"
    _check(text, config, "the new file")
    return text


def sentences_of() -> dict[str, str]:
    """The sentence under each field, by its dotted key."""
    definitions = config_schema()["$defs"]
    return {
        f"{section}.{key}": str(definitions[_table_name(section)]["properties"][key]["description"])
        for section in Config.model_fields
        for key in definitions[_table_name(section)]["properties"]
    }


def _table_name(section: str) -> str:
    annotation = Config.model_fields[section].annotation
    assert isinstance(annotation, type), f"{section} is not a table"
    return annotation.__name__


def _values(config: Config) -> Iterator[tuple[str, str, Any, Any]]:
    """Table, key, value and default of every key; a tuple as a list, as TOML has it."""
    for section in Config.model_fields:
        table = getattr(config, section)
        for key, field in type(table).model_fields.items():
            value = getattr(table, key)
            default = None if field.is_required() else field.get_default()
            yield section, key, _plain(value), _plain(default)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _same(given: Any, value: Any) -> bool:
    return bool(given == value) and isinstance(given, bool) == isinstance(value, bool)


def _with_key(text: str, section: str, key: str, value: Any) -> str:
    """The text with one key more: in place of its commented line, else at the end of its table."""
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if _names_table(line, section)), None)
    if start is not None:
        end = next((i for i in range(start + 1, len(lines)) if lines[i].lstrip().startswith("[")), len(lines))
        line_end = "\r\n" if lines[start].endswith("\r\n") else "\n"
        new = _line(key, value) + line_end
        for at in range(start + 1, end):
            shown = _uncommented(lines[at], key, value)
            if shown is not None:
                candidate = [*lines[:at], shown + line_end, *lines[at + 1 :]]
                break
        else:
            while end > start + 1 and not lines[end - 1].strip():
                end -= 1
            if not lines[end - 1].endswith("\n"):
                lines[end - 1] += "\n"
            candidate = [*lines[:end], new, *lines[end:]]
        result = "".join(candidate)
        if _reads_as(result, section, key, value):
            return result
    # The table is written in a way that the lines do not show: inline, dotted, in a longer string.
    document = tomlkit.parse(text)
    if section not in document:
        document[section] = tomlkit.table()
    table: Any = document[section]
    table[key] = value
    return tomlkit.dumps(document)


def _uncommented(line: str, key: str, value: Any) -> str | None:
    """A line such as "# rounds = 10  # why" with the value in place of its own; None for any other comment:
    "# rounds = 10 is enough" is prose, and nobody but its writer may delete it.
    """
    text = line.strip()
    if not text.startswith("#"):
        return None
    try:
        document = tomlkit.parse(text[1:].strip())
    except TOMLKitError:
        return None
    if list(document) != [key] or isinstance(document[key], MutableMapping):
        return None
    document[key] = value
    return tomlkit.dumps(document)


def _names_table(line: str, section: str) -> bool:
    header = _HEADER.fullmatch(line.rstrip("\r\n"))
    return header is not None and header[1] == section


def _reads_as(text: str, section: str, key: str, value: Any) -> bool:
    try:
        return _same(tomli.loads(text)[section][key], value)
    except (ValueError, KeyError, TypeError):
        return False


def _line(key: str, value: Any) -> str:
    return f"{key} = {tomlkit.item(value).as_string()}"


def _check(text: str, config: Config, name: str) -> None:
    """What is written must read back as meant: else a user's file would be spoiled silently."""
    try:
        same = parse_config(text, name) == config
    except ConfigError as error:
        raise ConfigError(f"{name} cannot take these settings: {error.message}", error.hint) from None
    if not same:
        raise ConfigError(f"{name} cannot take these settings", "Save under another name.")
