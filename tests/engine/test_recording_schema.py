"""The documented format is the one that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from engine.event_json import KINDS
from engine.recording_schema import format_tables, recording_schema
from tui.playable import PATH

DOCS = Path(__file__).parents[2] / "docs"
HOW = "run: python -m engine.recording_schema docs"


def validator() -> Any:
    schema = recording_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_documents_are_today_s() -> None:
    assert json.loads((DOCS / "recording-schema.json").read_text("utf-8")) == recording_schema(), HOW
    assert format_tables().strip() in (DOCS / "recording.md").read_text("utf-8"), HOW


def test_every_line_of_the_shipped_recording_is_valid() -> None:
    valid = validator()
    kinds = set()
    for line in PATH.read_text("utf-8").splitlines():
        value = json.loads(line)
        kinds.add(value.get("event", "header"))
        assert not list(valid.iter_errors(value)), line[:200]
    assert {"header", "RunStarted", "Round", "RunFinished", "BaselineFinished"} <= kinds


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", "1"), ("drafts", {}), ("cut", "soon"), ("host_ms", None), ("tokens", [1.5])],
)
def test_a_line_that_does_not_fit_is_not_valid(field: str, value: object) -> None:
    line = next(line for line in PATH.read_text("utf-8").splitlines() if line.startswith('{"event":"Round"'))
    round_ = json.loads(line)
    assert validator().is_valid(round_)
    assert not validator().is_valid({**round_, field: value})
    del round_[field]
    assert not validator().is_valid(round_)


def test_every_kind_and_field_is_in_the_tables() -> None:
    text = format_tables()
    for name in [*KINDS, "keyframe"]:
        assert f"### `{name}`" in text
    for name, definition in recording_schema()["$defs"].items():
        if name != "header":
            assert all(f"`{field}`" in text for field in definition["properties"] if field != "event")
