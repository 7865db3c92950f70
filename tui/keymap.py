"""The user's own keys: a TOML file of action ids and keys."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import tomli

from engine.errors import ConfigError
from engine.user_text import nearest, read_text, shown_name
from tui.failures import APP_NAME

_SIZE_LIMIT = 2**16
_HOW = 'One line for each action, such as: "run.start" = "f5". F1 in the app and the documentation list them.'
_KEYS = 'Keys are named as F1 shows them: "f5", "x", "ctrl+k", "space", "full_stop"; a comma parts several.'
_MODIFIERS = {"alt", "ctrl", "hyper", "meta", "shift", "super"}


def keymap_path() -> Path:
    """Where the file is looked for; it need not exist."""
    from platformdirs import user_config_path

    return user_config_path(APP_NAME, appauthor=False) / "keys.toml"


def load_keymap(path: Path | None = None) -> dict[str, str]:
    """Keys by the id of their action; none without a file. Raises ConfigError, naming file and key."""
    path = path or keymap_path()
    if not path.is_file():
        return {}
    name = shown_name(str(path))
    try:
        data = tomli.loads(read_text(str(path), _SIZE_LIMIT, ConfigError))
    except tomli.TOMLDecodeError as failure:
        raise ConfigError(f"{name}, line {failure.lineno}, column {failure.colno}: {failure.msg}") from None
    except (ValueError, RecursionError) as failure:  # a number of thousands of digits, thousands of brackets
        raise ConfigError(f"{name}: cannot be read: {failure}", _HOW) from None
    from tui.keys import known_ids

    known = known_ids()
    for key, value in data.items():
        if isinstance(value, dict):
            raise ConfigError(f"{name}: {key}: is a table; an id with a dot stands in quotes", _HOW)
        if key not in known:
            near = nearest(key, known)
            raise ConfigError(
                f"{name}: {key}: there is no such action", f"did you mean {near}?" if near else _HOW
            )
        if not isinstance(value, str):
            raise ConfigError(f"{name}: {key}: is no text", _HOW)
        for pressed in value.split(","):
            if not _is_key(pressed.strip()):
                raise ConfigError(f"{name}: {key}: there is no key {pressed.strip()!r}", _KEYS)
    return {key: ",".join(part.strip() for part in value.split(",")) for key, value in data.items()}


def _is_key(name: str) -> bool:
    """Whether a terminal can send it, as Textual names it: "f5", "x", "ctrl+k", "full_stop"."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys

    *modifiers, base = name.split("+") if name != "+" else [name]
    if not set(modifiers) <= _MODIFIERS:
        return False
    if len(base) == 1:
        return base.isprintable() and not base.isspace()
    named = {key.value for key in Keys} | set(KEY_NAME_REPLACEMENTS.values())
    return base in named or name in named or _is_character(base)


def _is_character(name: str) -> bool:
    """Whether it is the name of a character: "full_stop" of FULL STOP."""
    try:
        unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return False
    return True
