"""The results of a bench as one JSON object, in the machine-readable names that all outputs share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engine.bench.trials.bootstrap import Interval
from engine.bench.trials.cells import Cell, Results


def json_results(results: Results, facts: Mapping[str, Any]) -> str:
    """One line. Rates are fractions 0..1; what is not measured is null."""
    told = {
        "bench": "trials",
        **facts,
        "cells": [_cell(cell) for cell in results.cells],
        "by_category": [_cell(cell) for cell in results.by_category],
        "choices": [
            {**asdict(choice), **_interval("adaptive_over_static", choice.adaptive_over_static)}
            for choice in results.choices
        ],
    }
    return json.dumps(told, allow_nan=False)


def _cell(cell: Cell) -> dict[str, Any]:
    """``identical`` is true or false, as in a run's measures; its share stands beside it."""
    same = None if cell.identical is None else cell.identical == 1
    told = asdict(cell)
    return {
        "num_draft_tokens": told.pop("k"),
        "verify_strategy": told.pop("rule") or None,
        **told,
        **_interval("speedup", cell.speedup),
        "identical": same,
        "identical_share": cell.identical,
    }


def _interval(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
