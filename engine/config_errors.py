"""What is wrong with a configuration, in one line that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from engine.errors import ConfigError
from engine.user_text import nearest, shown, shown_name

_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "tuple_type": "a list of texts",
    "model_type": "a table",
    "finite_number": "a finite number",
    "string_unicode": "valid Unicode",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_TOLD = 4
"""Errors of one configuration that are told; further ones are counted."""


def trouble(message: str, hint: str | None = None, key: str | None = None) -> PydanticCustomError:
    """A validator's refusal; ``message`` reads on from the dotted key: "draft.model_name is missing".

    ``key`` names it where the validator sees more than one field.
    """
    context: dict[str, Any] = {"text": message, "hint": hint, "key": key}
    return PydanticCustomError("trouble", "{text}", context)


def not_allowed(value: str, names: Sequence[str], among: Sequence[str] = ()) -> PydanticCustomError:
    """A refusal of a word that is none of ``names``; ``among``: the words to search for the nearest."""
    near = nearest(value, among or names)
    hint = f"Did you mean {near!r}?" if near else None
    return trouble(f"must be {_either(names)}, not {shown(value)}", hint)


def translate(
    failure: ValidationError, file: str, labels: Mapping[str, str], known: Sequence[str]
) -> ConfigError:
    """One error for all that pydantic found.

    ``file``: what is blamed; ``labels``: dotted keys of overrides and what the user typed for them, which is
    blamed in its place; ``known``: every dotted key.
    """
    told = [_told(detail, known) for detail in failure.errors(include_url=False)]
    line, before = "", None
    for key, message, _ in told[:_TOLD]:
        blamed = _blamed(key, file, labels)
        line += "; " if line else ""
        line += f"{blamed}: " if blamed != before else ""
        line += f"{shown_name(key, 60)} {message}"
        before = blamed
    if len(told) > _TOLD:
        line += f"; and {len(told) - _TOLD} more"
    return ConfigError(line, told[0][2])


def _blamed(key: str, file: str, labels: Mapping[str, str]) -> str:
    for override, label in labels.items():
        if key == override or key.startswith((override + ".", override + "[")):
            return label
    return file


def _told(detail: ErrorDetails, known: Sequence[str]) -> tuple[str, str, str | None]:
    """Dotted key, message that reads on from it, hint."""
    key = _dotted(detail["loc"])
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "trouble":
        return context["key"] or key, context["text"], context["hint"]
    if kind == "extra_forbidden":
        return key, "is not a known key", _nearest_key(key, known)
    if kind == "missing":
        return key, "is missing", _example(key)
    if kind == "literal_error":
        names = [name.strip().strip("'") for name in context["expected"].replace(" or ", ",").split(",")]
        near = nearest(value, names) if isinstance(value, str) else None
        hint = f"Did you mean {near!r}?" if near else None
        return key, f"must be {_either(names)}, not {shown(value)}", hint
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound] if isinstance(context[bound], int) else f"{context[bound]:g}"
        return key, f"must be {words} {limit}, not {shown(value)}", None
    if kind == "string_too_short":
        return key, "must not be empty", None
    if kind == "string_too_long":
        return key, f"must be at most {context['max_length']} characters long, not {len(value)}", None
    if kind == "too_long":
        return key, f"must hold at most {context['max_length']} entries, not {len(value)}", None
    if kind in _KINDS:
        hint = f'For example: {key} = ["END"]' if kind == "tuple_type" else None
        given = str(value).lower() if isinstance(value, bool) else shown(value)
        return key, f"must be {_KINDS[kind]}, not {given}", hint
    return key, f"is refused: {detail['msg']}", None


def _dotted(loc: Sequence[int | str]) -> str:
    key = ""
    for part in loc:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
    return key


def _either(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _example(key: str) -> str | None:
    section, _, name = key.partition(".")
    return f'Add {name} = "..." under [{section}].' if name else None


def _nearest_key(key: str, known: Sequence[str]) -> str:
    section, _, name = key.rpartition(".")
    here = [each for each in known if each.startswith(section + ".")]
    elsewhere = [each for each in known if each.endswith("." + name.lower())]
    sections = list(dict.fromkeys(each.partition(".")[0] for each in known))
    table = nearest(key, sections) if not section else None
    found = (
        nearest(key, elsewhere)  # the right name in a table like the right one
        or (elsewhere[0] if len(elsewhere) == 1 else None)
        or (f"[{table}]" if table else None)
        or nearest(key, here)
        or nearest(key, known)
    )
    if found:
        return f"Did you mean {found}?"
    if here:
        return f"Known keys: {', '.join(here)}."
    return f"Tables are {', '.join(f'[{each}]' for each in sections)}."
