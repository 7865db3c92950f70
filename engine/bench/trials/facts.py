"""What the numbers of a bench depend on: printed with them, and part of what a stopped bench is known by."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine
from engine.bench.journal import code_hash, default_path, key_of, now
from engine.bench.trials.plan import Plan

if TYPE_CHECKING:
    from engine.session import Session

_PACKAGES = ("torch", "transformers", "tokenizers")


def plan_key(plan: Plan) -> str:
    """A short name for the plan, the code and the machine: units of another one are not used."""
    arms = [
        (arm.name, arm.kind, arm.peer, arm.plain, arm.config.model_dump(mode="json")) for arm in plan.arms
    ]
    questions = [(each.id, each.category, each.turns, each.before) for each in plan.questions]
    what = {
        "arms": arms,
        "questions": questions,
        "tokens": plan.tokens,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "code": code_hash(engine),
        "machine": platform.uname(),
        "versions": _versions(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }
    return key_of(what)


def state_path(key: str) -> Path:
    """Where a bench keeps its units if it is not told: a file of its own in the user's cache folder."""
    return default_path(f"trials-{key}")


def load_average() -> float | None:
    """Of the last minute; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def facts_of(
    plan: Plan, sessions: Sequence[Session], command: str, seconds: float, load_before: float | None
) -> dict[str, Any]:
    """Everything that is printed with the results.

    Args:
        sessions: the loaded ones, one at least.
        command: as it was typed.
        seconds: of measuring, that of stopped runs included.
    """
    headers = [session.header() for session in sessions]
    machine = headers[0]["machine"]
    return {
        "command": command,
        "date": now(),
        "processor": machine["processor"],
        "cores": _cores(),
        "memory_gb": _memory_gb(),
        "threads": machine["threads"],
        "versions": {
            "naive-speculate": engine.__version__,
            "python": platform.python_version(),
            **_versions(),
        },
        "models": [_models(header) for header in headers],
        "load_average_before": load_before,
        "load_average_after": load_average(),
        "peak_memory_mb": _peak_memory_mb(),
        "questions": len(plan.questions),
        "tokens": plan.tokens,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "seconds": round(seconds, 1),
    }


def fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The facts as names and values, for people."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    load = ", ".join(
        f"{value:.2f} {when}"
        for when in ("before", "after")
        if (value := facts[f"load_average_{when}"]) is not None
    )
    peak = facts["peak_memory_mb"]
    rows = [
        ("command", facts["command"]),
        ("date", facts["date"]),
        ("machine", f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB"),
        ("threads", str(facts["threads"])),
        ("versions", versions),
        *(("models", words) for words in facts["models"]),
        ("load average", load or "not known"),
        ("peak memory", "not known" if peak is None else f"{peak} MB"),
        ("prompts", f"{facts['questions']}, at most {facts['tokens']} tokens each"),
        ("runs", f"A B B A x {facts['repeats']}, seed {facts['seed']}, {facts['seconds']:.0f} s"),
    ]
    return list(dict.fromkeys(rows))


def _models(header: dict[str, Any]) -> str:
    target, drafter = header["target"], header["drafter"]
    words = f"{target['name']} in {_held_in(target)} on {target['device']}"
    return words if drafter is None else f"{words}, drafter {drafter['name']} in {_held_in(drafter)}"


def _held_in(model: dict[str, Any]) -> str:
    bits = f", layers in {model['quantized']}" if model["quantized"] else ""
    return f"{model['dtype']}{bits} ({model['passes']} passes)"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in _PACKAGES}


def _cores() -> int | None:
    import psutil

    cores: int | None = psutil.cpu_count(logical=False)
    return cores


def _memory_gb() -> float:
    import psutil

    return round(float(psutil.virtual_memory().total) / 1e9, 1)


def _peak_memory_mb() -> int | None:
    """Most memory this process ever held; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6)
