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
    names = _configurations([cell.configuration for cell in cells])
    return {cell.arm: _label(cell, several, names[cell.configuration]) for cell in cells}


def _configurations(paths: Sequence[str]) -> dict[str, str]:
    """The last parts of paths, as many as tell all of them apart: a table cuts long labels at their end."""
    parts = {path: path.split("/") for path in paths}
    many = 1
    while len({tuple(names[-many:]) for names in parts.values()}) < len(parts):
        many += 1
    return {path: "/".join(names[-many:]) for path, names in parts.items()}


def _label(cell: Cell, several: dict[str, bool], configuration: str) -> str:
    if cell.kind == "peer":
        return cell.arm if several["configuration"] else cell.arm.partition(" (")[0]
    words = ["plain" if cell.kind == "plain" else f"K = {cell.k}"]
    if several["configuration"]:
        words.insert(0, configuration)
    if several["rule"] and cell.rule:
        words.append(cell.rule)
    if several["temperature"] and cell.temperature is not None:
        words.append(f"T = {cell.temperature:g}")
    return ", ".join(words)
