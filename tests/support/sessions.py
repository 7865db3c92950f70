"""Sessions of tiny models, and reading what they tell."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from engine.config import Config
from engine.context import Message
from engine.events import Event, Round, RunFinished
from engine.recording import Recorder
from engine.session import Session

ASK = (Message("user", "Why did the knight stop?"),)
LENGTH = 24


def configured(target: str, drafter: str | None = None, **changes: Mapping[str, Any]) -> Config:
    """A greedy run of LENGTH tokens; ``changes`` are tables of a configuration."""
    draft = {"method": "lookup"} if drafter is None else {"method": "model", "model_name": drafter}
    tables: dict[str, dict[str, Any]] = {
        "draft": {**draft, "num_draft_tokens": 3},
        "verify": {"model_name": target},
        "sampling": {"temperature": 0},
        "run": {"device": "cpu", "dtype": "float32", "max_new_tokens": LENGTH, "ignore_eos": True},
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return Config.model_validate(tables)


def loaded(config: Config, recorder: Recorder | None = None) -> Session:
    session = Session(config, recorder)
    session.load()
    return session


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Round | RunFinished))


def ids_of(events: Sequence[Event]) -> list[int]:
    """The answer by its events: what each round committed, less what later ones took back."""
    ids: list[int] = []
    for event in events:
        if isinstance(event, Round):
            ids = ids[: len(ids) - event.taken_back] + list(event.tokens)
    return ids


def of(kind: type[Any], events: Sequence[Event]) -> Any:
    """The one event of a kind."""
    (found,) = (event for event in events if isinstance(event, kind))
    return found


def kinds(events: Sequence[Event]) -> list[str]:
    """The kinds of event in their order, repetitions once."""
    return [name for name, _ in itertools.groupby(type(event).__name__ for event in events)]
