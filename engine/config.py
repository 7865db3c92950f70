"""The configuration: TOML in, validated once, frozen; JSON Schema out.

Nothing is changed after it was read: whoever needs what is "auto" or unset resolves it into a new value.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tomli
from pydantic import BaseModel, ValidationError

from engine import presets
from engine.config_errors import translate
from engine.config_tables import (
    Config,
    DraftConfig,
    RecordConfig,
    RunConfig,
    SamplingConfig,
    UIConfig,
    VerifyConfig,
)
from engine.errors import ConfigError
from engine.user_text import nearest, read_text, shown_name

__all__ = [
    "Config",
    "DraftConfig",
    "Override",
    "RecordConfig",
    "RunConfig",
    "SamplingConfig",
    "UIConfig",
    "VerifyConfig",
    "config_schema",
    "known_keys",
    "load_config",
    "parse_config",
    "parse_override",
    "schema_text",
]

SIZE_LIMIT = 2**20
"""Largest configuration file, in bytes."""


@dataclass(frozen=True, slots=True)
class Override:
    """One value that replaces the file's."""

    key: str
    """Dotted: "run.rounds"."""
    value: object
    """As TOML would give it; None takes the key out, so that its default holds."""
    label: str
    """What the user typed, for messages: "--rounds 0"."""


def parse_override(text: str) -> Override:
    """``a.b=v`` of ``--set``: v is a TOML value, else a string; an empty v takes the key out.

    Raises ConfigError if there is no key or no equals sign.
    """
    label = f"--set {shown_name(text, 60)}"
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{label}: is not KEY=VALUE", "For example: --set run.rounds=20")
    if not raw.strip():
        return Override(key.strip(), None, label)
    value: object = raw
    try:
        table = tomli.loads(f"v = {raw}")
        if table.keys() == {"v"}:
            value = table["v"]
    except (ValueError, RecursionError):  # no TOML value, so it is the text itself
        pass
    return Override(key.strip(), value, label)


def load_config(source: str, overrides: Sequence[str | Override] = ()) -> Config:
    """Read a configuration file or a preset; an existing file wins over a preset of its name.

    Overrides are applied in order; a string is what ``--set`` takes. Raises ConfigError in one line, which
    names the file (with line and column for a syntax error) or the override, the dotted key and the value.
    """
    if presets.is_preset(source):
        return parse_config(presets.config_text(source), f"preset {source}", overrides)
    if not os.path.lexists(source):
        near = nearest(source, tuple(presets.PRESETS))
        hint = f"Presets are {', '.join(presets.PRESETS)}" + (f"; did you mean {near}?" if near else ".")
        raise ConfigError(f"{shown_name(source)}: no such file or preset", hint)
    return parse_config(read_text(source, SIZE_LIMIT, ConfigError), shown_name(source), overrides)


def parse_config(text: str, name: str, overrides: Sequence[str | Override] = ()) -> Config:
    """Validate TOML text; ``name`` stands for the file in messages. Raises ConfigError."""
    try:
        data: dict[str, Any] = tomli.loads(text)
    except tomli.TOMLDecodeError as failure:
        raise ConfigError(f"{name}, line {failure.lineno}, column {failure.colno}: {failure.msg}") from None
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply") from None
    except ValueError:  # an integer of more than 4300 digits
        raise ConfigError(f"{name}: holds a number that is too long") from None
    applied = [parse_override(item) if isinstance(item, str) else item for item in overrides]
    for override in applied:
        _apply(data, override)
    for required in ("draft", "verify"):  # so that what is missing is named in full: draft.model_name
        data.setdefault(required, {})
    try:
        return Config.model_validate(data)
    except ValidationError as failure:
        labels = {override.key: override.label for override in applied}
        raise translate(failure, name, labels, known_keys()) from None


def _apply(data: dict[str, Any], override: Override) -> None:
    section, dot, name = override.key.partition(".")
    table: Any = data
    if dot and section in Config.model_fields:
        table = data.setdefault(section, {})
        if not isinstance(table, dict):  # "draft = 5" in the file: reported as such
            return
    else:
        name = override.key
    if override.value is not None:
        table[name] = override.value
    elif override.key in known_keys():
        table.pop(name, None)
    else:
        table[name] = ""  # so that an unknown key does not pass unseen


def known_keys() -> tuple[str, ...]:
    """Every key, dotted, in the order of the documentation."""
    return tuple(
        f"{section}.{key}"
        for section, field in Config.model_fields.items()
        for key in _fields_of(field.annotation)
    )


def _fields_of(table: object) -> tuple[str, ...]:
    assert isinstance(table, type) and issubclass(table, BaseModel), f"{table} is not a table"
    return tuple(table.model_fields)


def config_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a configuration file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "Naive Speculate",
    }
    for table in schema["$defs"].values():
        for field in table["properties"].values():
            _drop_null(field)
    return schema


def _drop_null(field: dict[str, Any]) -> None:
    """TOML has no null: an optional key is one that may be left out."""
    kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del field["anyOf"]
        field.update(kinds[0])
    if field.get("default", ...) is None:
        del field["default"]


def schema_text() -> str:
    """``config-schema.json``, ending in a newline."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"
