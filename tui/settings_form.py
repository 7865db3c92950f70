"""The configuration as a form: its fields, their texts, and what is wrong with what was typed. No widgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import tomli
import tomlkit
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from engine.config import Config, config_schema, known_keys
from engine.config_errors import translate
from engine.registry import DRAFTERS


class Reach(StrEnum):
    """From when on a change counts."""

    ROUND = "next round"
    RUN = "next run"
    RELOAD = "reload"
    """The models are loaded again, or others are."""
    START = "next start"


class Kind(StrEnum):
    """How a field is filled in."""

    SWITCH = "switch"
    CHOICE = "choice"
    TEXT = "text"


_RELOADED = {
    *("draft.method", "draft.model_name", "draft.sample_strategy", "verify.model_name"),
    *("draft.min_match", "draft.history", "draft.acceptance", "draft.cost"),
    *("run.device", "run.dtype", "run.optimize", "run.threads", "draft.quantize", "verify.quantize"),
}
_OPTIONS = frozenset(name for entry in DRAFTERS.values() for name in entry.options)
"""Keys of [draft] that only some methods have."""
_NEXT_ROUND = {"draft.num_draft_tokens", "verify.verify_strategy"}
NUMBERS = "number or array"
"""One number, or a list of them."""
COUNT_OR_WORD = "integer or string"
"""A whole number, or "auto"."""
_UNSET = ""
"""What a text or a choice says when it leaves the key out."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the configuration."""

    key: str
    """Dotted."""
    kind: Kind
    sentence: str
    type: str
    """Of the schema: "string", "integer", "number", "boolean", "array", ``NUMBERS`` or ``COUNT_OR_WORD``."""
    default: Any
    """None where there is none, or where it depends on the model."""
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    """Label and value text of a choice."""

    @property
    def table(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    @property
    def reach(self) -> Reach:
        """From when on a change counts."""
        if self.key in _RELOADED:
            return Reach.RELOAD
        if self.key in _NEXT_ROUND or self.table == "sampling":
            return Reach.ROUND
        return Reach.START if self.table == "ui" else Reach.RUN

    @property
    def placeholder(self) -> str:
        """What an empty text field says."""
        if self.required:
            return "required"
        return "default" if self.default is None else f"default: {self.text(self.default)}"

    def text(self, value: Any) -> str:
        """A value as the form shows it; "" for none."""
        if value is None:
            return _UNSET
        if self.type == "boolean":
            return "true" if value else "false"
        if self.type == "array":
            return tomlkit.item(list(value)).as_string() if value else _UNSET
        if self.type == NUMBERS and not isinstance(value, int | float):
            return str(value[0]) if len(value) == 1 else tomlkit.item(list(value)).as_string()
        return str(value).removesuffix(".0") if isinstance(value, float) else str(value)

    def value(self, text: str) -> Any:
        """The value for a text of the form, None for the default; what cannot be read stays text."""
        if text.strip() == _UNSET:
            return None
        if self.type == "boolean":
            return text == "true"
        if self.type == "array":
            return _list(text)
        if self.type == NUMBERS and text.strip().startswith("["):
            return _list(text)
        if self.type in {"integer", "number", NUMBERS, COUNT_OR_WORD}:
            try:
                number = int(text) if "integer" in self.type else float(text)
            except ValueError:
                return text.strip()
            return number
        return text.strip()


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of the texts of a form."""

    config: Config | None
    """None while something is wrong."""
    problems: Mapping[str, str]
    """By dotted key: what is wrong, and what to do."""


def tables() -> dict[str, str]:
    """The tables of the configuration with what each is about."""
    return {name: str(field.description) for name, field in Config.model_fields.items()}


def fields() -> tuple[Field, ...]:
    """Every key, in the order of the documentation; made from the schema."""
    definitions = config_schema()["$defs"]
    made = []
    for table, field in Config.model_fields.items():
        assert isinstance(field.annotation, type), f"{table} is not a table"
        schema = definitions[field.annotation.__name__]
        for name, about in schema["properties"].items():
            made.append(_field(f"{table}.{name}", about, name in schema.get("required", ())))
    return tuple(made)


def _field(key: str, about: Mapping[str, Any], required: bool) -> Field:
    default, kind = about.get("default"), Kind.TEXT
    choices: tuple[tuple[str, str], ...] = ()
    if about["type"] == "boolean":
        kind = Kind.SWITCH if default is not None else Kind.CHOICE
        choices = () if kind is Kind.SWITCH else (("default", _UNSET), ("on", "true"), ("off", "false"))
    elif "enum" in about:
        kind = Kind.CHOICE
        choices = tuple(
            (f"{value} (default)" if value == default else value, value) for value in about["enum"]
        )
    type_ = about["type"] if isinstance(about["type"], str) else " or ".join(about["type"])
    return Field(key, kind, str(about["description"]), type_, default, required, choices)


def texts_of(config: Config) -> dict[str, str]:
    """What the form shows for a configuration, by dotted key."""
    return {field.key: field.text(_value_of(config, field.key)) for field in fields()}


def _value_of(config: Config, key: str) -> Any:
    table, _, name = key.partition(".")
    return getattr(getattr(config, table), name)


def takes_model(method: str) -> bool:
    """Whether a drafting method loads a model, so that its name is asked for."""
    return method not in DRAFTERS or DRAFTERS[method].loads_model


def in_use(key: str, method: str) -> bool:
    """Whether a key means anything to a drafting method; every other key does.

    A model's name and its bits do where one is loaded, an option where the method has it.
    """
    table, _, name = key.partition(".")
    if table != "draft" or method not in DRAFTERS:
        return True
    if name in ("model_name", "quantize"):
        return takes_model(method)
    return name not in _OPTIONS or name in DRAFTERS[method].options


def check(texts: Mapping[str, str], form: tuple[Field, ...]) -> Checked:
    """The configuration that the texts mean, or what is wrong with them.

    What means nothing to the drafting method is left out: a model's name, an option of other methods.
    """
    data: dict[str, dict[str, Any]] = {name: {} for name in Config.model_fields}
    for field in form:
        value = field.value(texts[field.key])
        if not in_use(field.key, texts["draft.method"]):
            value = None
        if value is not None:
            data[field.table][field.name] = value
    try:
        return Checked(Config.model_validate(data), {})
    except ValidationError as failure:
        return Checked(None, _problems(failure))


def _problems(failure: ValidationError) -> dict[str, str]:
    """One sentence for each key; the words are those of the command line."""
    problems: dict[str, str] = {}
    for detail in failure.errors(include_url=False):
        context = detail.get("ctx", {})
        kind: str | PydanticCustomError = detail["type"]
        if kind == "trouble":
            kind = PydanticCustomError("trouble", "{text}", context)
        alone = InitErrorDetails(type=kind, loc=detail["loc"], input=detail["input"], ctx=context)
        error = translate(ValidationError.from_exception_data("Config", [alone]), "", {}, known_keys())
        key = context.get("key") or ".".join(str(part) for part in detail["loc"][:2])
        words = error.message.removeprefix(": ").removeprefix(key)
        problems.setdefault(key, f"{words.strip()}. {error.hint or ''}".strip())
    return problems


def changed(before: Mapping[str, str], after: Mapping[str, str], form: tuple[Field, ...]) -> list[Field]:
    """The fields that mean something else than before."""
    return [field for field in form if field.value(before[field.key]) != field.value(after[field.key])]


def matching(form: tuple[Field, ...], words: str) -> set[str]:
    """Keys of the fields in whose key or sentence all the words occur."""
    wanted = words.lower().split()
    return {
        field.key for field in form if all(word in f"{field.key} {field.sentence}".lower() for word in wanted)
    }


def _list(text: str) -> Any:
    """A TOML list as it is; anything else is one text."""
    if not text.strip().startswith("["):
        return [text]
    try:
        return tomli.loads(f"v = {text}")["v"]
    except ValueError:
        return text
