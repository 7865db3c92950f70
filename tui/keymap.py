"""The user's own keys: a TOML file of action ids and keys."""

from __future__ import annotations

from pathlib import Path

import tomli

from engine.errors import ConfigError
from engine.user_text import nearest, read_text, shown_name
from tui.failures import APP_NAME

_SIZE_LIMIT = 2**16
_HOW = 'One line for each action, such as: "run.start" = "f5". F1 in the app and the documentation list them.'


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
    from tui.keys import known_ids

    known = known_ids()
    for key, value in data.items():
        if key not in known:
            near = nearest(key, known)
            raise ConfigError(
                f"{name}: {key}: there is no such action", f"did you mean {near}?" if near else _HOW
            )
        if not isinstance(value, str):
            raise ConfigError(f"{name}: {key}: is no text", _HOW)
    return dict(data)
