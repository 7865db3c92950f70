"""Short names of arms: only what tells them apart; torch-free."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bench.trials.cells import Cell


def labels_of(cells: Sequence[Cell]) -> dict[str, str]:
    """By the arm's name: "K = 4", with configuration, rule or temperature where these differ."""
    several = {
        "configuration": len({cell.configuration for cell in cells}) > 1,
        "rule": len({cell.rule for cell in cells if cell.rule}) > 1,
        "temperature": len({cell.temperature for cell in cells}) > 1,
    }
    return {cell.arm: _label(cell, several) for cell in cells}


def _label(cell: Cell, several: dict[str, bool]) -> str:
    if cell.kind == "peer":
        return cell.arm if several["configuration"] else cell.arm.partition(" (")[0]
    words = ["plain" if cell.kind == "plain" else f"K = {cell.k}"]
    if several["configuration"]:
        words.insert(0, cell.configuration)
    if several["rule"] and cell.rule:
        words.append(cell.rule)
    if several["temperature"] and cell.temperature is not None:
        words.append(f"T = {cell.temperature:g}")
    return ", ".join(words)
