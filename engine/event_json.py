"""Events as JSON values and back, driven by their type annotations.

Bytes are text where they are UTF-8, else a list of byte values; enums their value; tuples lists. Floats come
back bit for bit, and there are no NaN or infinities. Reading ignores unknown fields, fills missing ones that
have a default, and raises ValueError for everything else that does not fit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from engine import events
from engine.context import ROLES
from engine.errors import InvariantError
from engine.events import Event

T = TypeVar("T")
_LARGEST = 2**64
"""What a field can hold; with more, measures could not be computed."""
Decoder = Callable[[Any], Any]

KINDS: dict[str, type[Event]] = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


def dump_line(value: Mapping[str, Any]) -> bytes:
    """One JSON line in ASCII. Raises InvariantError for what JSON cannot hold, such as NaN."""
    try:
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvariantError(f"a recording cannot hold this: {error}") from error
    return text.encode("ascii") + b"\n"


def parse_line(line: bytes) -> dict[str, Any]:
    """The object of one JSON line. Raises ValueError where it is none."""
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON (column {error.colno})") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"it holds {name}, which is no number here")


def to_json(event: Event) -> dict[str, Any]:
    """An event as JSON values, its kind first."""
    return {"event": type(event).__name__, **plain(event)}


def plain(value: Any) -> Any:
    """A dataclass, and whatever its fields hold, as JSON values."""
    if is_dataclass(value):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return list(value)
    if isinstance(value, Enum):
        return value.value
    return value


def from_json(kind: type[T], value: Any) -> T:
    """The inverse of ``plain``. Raises ValueError, naming the field."""
    decode: Callable[[Any], T] = _decoder(kind)
    return decode(value)


def event_from(kind: type[Event], value: Any) -> Event:
    """An event of a recording, in itself consistent. Raises ValueError, naming what does not fit."""
    event = from_json(kind, value)
    for holds, text in _conditions(event):
        if not holds:
            raise ValueError(text)
    return event


def _conditions(event: Event) -> Iterator[tuple[bool, str]]:
    """What every reader takes for granted: parallel lists are of one length, and counts are possible."""
    if isinstance(event, events.RunStarted):
        yield len(event.prompt) == len(event.prompt_pieces), "prompt and prompt_pieces differ in length"
        yield len(event.given) == len(event.given_pieces), "given and given_pieces differ in length"
        yield all(message.role in ROLES for message in event.messages), "a message has a role that is none"
    elif isinstance(event, events.Round):
        yield event.number >= 1, "the number of a round is 1 or more"
        yield 0 <= event.n_accepted <= len(event.drafts), "n_accepted is more than was drafted"
        yield len(event.p_top) > event.n_accepted, "p_top lacks the position of the target's token"
        yield len(event.tokens) <= event.n_accepted + 1, "more tokens than stand"
        yield event.taken_back >= 0, "taken_back is negative"
        yield not event.taken_back or event.cut is not None, "tokens are taken back without an end"
        own = {events.Origin.CORRECTION, events.Origin.BONUS}
        yield event.target.origin in own, "the target's token is neither correction nor bonus"
    elif isinstance(event, events.Calibrated):
        yield event.costs.is_usable, "the costs cannot be any"
    elif isinstance(event, events.PlainStep):
        yield event.number >= 1, "the number of a step is 1 or more"
        yield event.taken_back >= 0, "taken_back is negative"
        yield not event.taken_back or event.cut is not None, "tokens are taken back without an end"


def _decoder(kind: Any) -> Decoder:
    """What turns a JSON value into a ``kind``: a type annotation of the events."""
    if kind not in _DECODERS:
        _DECODERS[kind] = _build(kind)
    return _DECODERS[kind]


def _build(kind: Any) -> Decoder:
    if is_dataclass(kind):
        return _object(kind)
    if get_origin(kind) is UnionType:
        (inner,) = (item for item in get_args(kind) if item is not NoneType)
        decode = _decoder(inner)
        return lambda value: None if value is None else decode(value)
    if get_origin(kind) is tuple:
        item, dots = get_args(kind)
        assert dots is ..., f"{kind}: only tuples of one type are recorded"
        return _sequence(_decoder(item))
    if get_origin(kind) is list:
        items = _sequence(_decoder(get_args(kind)[0]))
        return lambda value: list(items(value))
    if issubclass(kind, Enum):
        decode_enum: Decoder = kind
        return decode_enum
    return _SCALARS[kind]


def _object(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    decoders = {entry.name: _decoder(hints[entry.name]) for entry in fields(kind)}
    required = {
        entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING
    }

    in_order = tuple(decoders.items())

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{kind.__name__} must be an object")
        try:  # the usual line has every field, and each fits: a recording has a hundred of them a round
            return kind(*[decoder(value[name]) for name, decoder in in_order])
        except (KeyError, ValueError, OverflowError):
            return slowly(value)

    def slowly(value: dict[str, Any]) -> Any:
        """With what is missing filled in; names the field that does not fit."""
        found = {}
        for name, decoder in decoders.items():
            if name not in value:
                if name in required:
                    raise ValueError(f"{kind.__name__} lacks the field {name}")
                continue
            try:
                found[name] = decoder(value[name])
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{kind.__name__}.{name}: {error}") from error
        return kind(**found)

    return decode


def _sequence(decoder: Decoder) -> Decoder:
    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("must be a list")
        return tuple(map(decoder, value))

    return decode


def _exactly(kind: type) -> Decoder:
    def decode(value: Any) -> Any:
        # type() rather than isinstance: true is not the integer 1 here.
        if type(value) is not kind:
            raise ValueError(f"must be {kind.__name__}, not {type(value).__name__}")
        return value

    return decode


def _int(value: Any) -> int:
    if type(value) is not int:  # true is not the integer 1 here
        raise ValueError(f"must be int, not {type(value).__name__}")
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError("is too large")
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"must be float, not {type(value).__name__}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("is not finite")
    if not -_LARGEST <= number <= _LARGEST:
        raise ValueError("is too large")
    return number


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, list) and all(type(item) is int for item in value):
        return bytes(value)
    raise ValueError("must be text or a list of byte values")


_DECODERS: dict[Any, Decoder] = {}
_SCALARS: dict[type, Decoder] = {
    int: _int,
    bool: _exactly(bool),
    str: _exactly(str),
    float: _float,
    bytes: _bytes,
}
