"""The format of recordings as a JSON Schema and as tables for people, both made from the events.

``python -m engine.recording_schema docs`` writes both into the documentation.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from engine import events
from engine.event_json import KINDS
from engine.keyframes import Keyframe
from engine.recording import FORMAT, VERSION

_SCALARS: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    float: {"type": "number"},
    bytes: {
        "description": "text where the bytes are UTF-8, else a list of byte values",
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
        ],
    },
}


def recording_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of one line of a recording.

    It describes what this version writes. A reader takes more: unknown fields and kinds of event are ignored,
    so nothing forbids them.
    """
    definitions: dict[str, Any] = {}
    lines = [{"$ref": "#/$defs/header"}]
    definitions["header"] = {
        "type": "object",
        "description": "The first line.",
        "properties": {"format": {"const": FORMAT}, "version": {"const": VERSION}},
        "required": ["format", "version"],
    }
    for name, kind in {**KINDS, "keyframe": Keyframe}.items():
        definition = _object(kind, definitions)
        definition["properties"] = {"event": {"const": name}, **definition["properties"]}
        definition["required"] = ["event", *definition["required"]]
        definitions[name] = definition
        lines.append({"$ref": f"#/$defs/{name}"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of a recording of Naive Speculate",
        "oneOf": lines,
        "$defs": dict(sorted(definitions.items())),
    }


def _object(kind: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    hints, told = get_type_hints(kind), field_texts(kind)
    properties: dict[str, Any] = {}
    for entry in fields(kind):
        schema = _type(hints[entry.name], definitions)
        text = told.get(entry.name)
        properties[entry.name] = {**schema, "description": text} if text else schema
    required = [
        entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING
    ]
    return {
        "type": "object",
        "description": _text_of(kind),
        "properties": properties,
        "required": required,
    }


def _text_of(kind: type[Any]) -> str:
    """The first line of its docstring; dataclasses without one say their signature, which is none."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    return "" if text.startswith(f"{kind.__name__}(") else text


def _type(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if get_origin(kind) is UnionType:
        (inner,) = (item for item in get_args(kind) if item is not NoneType)
        return {"anyOf": [_type(inner, definitions), {"type": "null"}]}
    if get_origin(kind) in {tuple, list}:
        return {"type": "array", "items": _type(get_args(kind)[0], definitions)}
    if is_dataclass(kind):
        assert isinstance(kind, type)
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    assert issubclass(kind, Enum), f"no schema for {kind}"
    return {"enum": [entry.value for entry in kind]}


def field_texts(kind: type[Any]) -> dict[str, str]:
    """What the source says of each field: the string below it. Inherited fields too."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            texts |= _texts_of(base)
    return texts


@cache
def _texts_of(kind: type[Any]) -> dict[str, str]:
    module = ast.parse(inspect.getsource(inspect.getmodule(kind) or events))
    body = next(
        node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    texts = {}
    for field, below in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            texts[field.target.id] = " ".join(inspect.cleandoc(below.value.value).split())
    return texts


def format_tables() -> str:
    """Markdown: a table of fields for each kind of line, and for what is nested in them."""
    return "\n\n".join(_tables()) + "\n"


def _tables() -> Iterator[str]:
    schema = recording_schema()
    order = [*KINDS, "keyframe"]
    nested = [name for name in schema["$defs"] if name not in {*order, "header"}]
    for name in [*order, *nested]:
        definition = schema["$defs"][name]
        rows = [
            f"| `{field}` | {_words(value)} | {value.get('description', '')} |"
            for field, value in definition["properties"].items()
            if field != "event"
        ]
        title = f"### `{name}`" if name in order else f"### {name} (nested)"
        head = [title, "", definition["description"], "", "| field | type | |", "|---|---|---|"]
        yield "\n".join([*head, *rows])


def _words(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        if any(option.get("type") == "null" for option in schema["anyOf"]):
            (inner,) = (option for option in schema["anyOf"] if option.get("type") != "null")
            return f"{_words(inner)} or null"
        return "bytes"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(f'"{value}"' for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_words(schema['items'])}"
    return str(schema["type"])


def write_documents(folder: Path) -> None:
    """Write the schema and the tables into the folder of the documentation."""
    schema = json.dumps(recording_schema(), indent=2, ensure_ascii=False) + "\n"
    (folder / "recording-schema.json").write_text(schema, encoding="utf-8")
    manual = folder / "recording.md"
    begin, end = "<!-- fields: begin -->", "<!-- fields: end -->"
    before, _, rest = manual.read_text("utf-8").partition(begin)
    _, _, after = rest.partition(end)
    manual.write_text(f"{before}{begin}\n{format_tables()}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    write_documents(Path(sys.argv[1]))
