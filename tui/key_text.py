"""Names of keys for a reader."""

from __future__ import annotations

_NAMES = {
    "slash": "/", "question_mark": "?", "full_stop": ".", "comma": ",", "left_square_bracket": "[",
    "right_square_bracket": "]", "less_than_sign": "<", "greater_than_sign": ">", "escape": "esc",
    "pagedown": "pgdn", "pageup": "pgup", "delete": "del", "plus": "+", "minus": "-", "tilde": "~",
    "colon": ":", "semicolon": ";", "equals_sign": "=", "number_sign": "#", "circumflex_accent": "^",
}  # fmt: skip
_FUNCTIONS = {f"f{number}": f"F{number}" for number in range(1, 25)}


def key_text(keys: str) -> str:
    """Keys for a reader, from their names in Textual: "ctrl+s /" for "ctrl+s,slash"."""
    return " ".join(_one_key(key.strip()) for key in keys.split(","))


def first_key(keys: str) -> str:
    """The first of several keys, for a reader; "" for none."""
    return _one_key(keys.split(",", maxsplit=1)[0].strip()) if keys else ""


def _one_key(key: str) -> str:
    *modifiers, last = key.split("+") if key != "+" else [key]
    name = _FUNCTIONS.get(last) or _NAMES.get(last, last)
    return "+".join([*(each.replace("control", "ctrl") for each in modifiers), name])
