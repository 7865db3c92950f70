"""The whole grid of proof D on the built-in model: 10 prompts x 200 tokens x each drafter x each K.

``WRITE_DOCS=1`` writes docs/equality.md. Each prompt is a test of its own and keeps its results in
build/equality, so a grid that was interrupted goes on where it was, with ``-k "story or rain"`` and the like.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.real import DRAFTERS, KS, Answered, RealRuns

from engine.bench import peers
from engine.bench.prompts import ALL, Prompt
from engine.models.causal_lm import CausalLM

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "equality"
DOCUMENT = ROOT / "docs" / "equality.md"
PROMPTS = ALL[:10]
TOKENS = 200
TITLES = {
    "lookup": "lookup",
    "perfect": "the target itself",
    "cut": "8 of the target's 30 layers",
}
HEAD = """\
# Greedy answers, token for token those of transformers

Written by `WRITE_DOCS=1 make soak`. The built-in model in float32, {prompts} prompts of
`engine/bench/prompts.py`, {tokens} tokens each, EOS off; compared with transformers' `generate`.

- **{same} of {runs} answers are identical.** {tied} part at a tie of two tokens that rounding decides,
  {differ} anywhere else.
- Seen on the way: {accepted} drafts accepted, {rejections} rounds that ended in a rejection,
  {full_accepts} rounds with every draft accepted.
- {versions}; weights {sha256}.

The numbers are tokens a round.
"""

assert len(PROMPTS) == 10


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    """Not here: this model is large enough for all processors."""


@pytest.fixture(scope="module")
def runs(builtin_lm: CausalLM, cut_lm: CausalLM) -> RealRuns:
    return RealRuns(builtin_lm, cut_lm, TOKENS)


@pytest.mark.soak
@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_the_grid(prompt: Prompt, runs: RealRuns) -> None:
    found = {(drafter, k): runs.run(drafter, k, prompt) for drafter in DRAFTERS for k in KS}
    if os.environ.get("WRITE_DOCS") == "1":
        RESULTS.mkdir(parents=True, exist_ok=True)
        told = {
            "versions": f"torch {torch.__version__}, transformers {peers.VERSION}, {platform.machine()}",
            "sha256": runs.target.info.sha256,
            "runs": [result(drafter, k, each) for (drafter, k), each in found.items()],
        }
        (RESULTS / f"{prompt.name}.json").write_text(json.dumps(told), encoding="utf-8")
        write_document()
    for each in found.values():
        each.check()


def result(drafter: str, k: int, run: Answered) -> dict[str, Any]:
    """A run as the table has it."""
    return {
        "drafter": drafter,
        "k": k,
        "tau": run.tau,
        "accepted": run.accepted,
        "rejections": run.rejections,
        "full_accepts": run.full_accepts,
        "first_difference": run.agreement.first_difference,
        "tied": run.agreement.tied,
    }


def write_document() -> None:
    """docs/equality.md from the prompts that were run so far."""
    files = {prompt.name: RESULTS / f"{prompt.name}.json" for prompt in PROMPTS}
    told = {name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.is_file()}
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(document(told), encoding="utf-8")


def document(told: Mapping[str, Mapping[str, Any]]) -> str:
    """The text: a summary, then a table for each drafter."""
    runs = [run for each in told.values() for run in each["runs"]]
    same, tied = sum(run["first_difference"] is None for run in runs), sum(run["tied"] for run in runs)
    some = next(iter(told.values()))
    head = HEAD.format(
        prompts=len(told),
        tokens=TOKENS,
        same=same,
        runs=len(runs),
        tied=tied,
        differ=len(runs) - same - tied,
        versions=some["versions"],
        sha256=f"{some['sha256'][:16]}...",
        **{name: _sum(runs, name) for name in ("accepted", "rejections", "full_accepts")},
    )
    lines = []
    for drafter in DRAFTERS:
        lines += ["", f"## Drafter: {TITLES[drafter]}", ""]
        lines += ["| prompt | " + " | ".join(f"K = {k}" for k in KS) + " |", "|---|" + "---:|" * len(KS)]
        for name, each in told.items():
            cells = [_cell(run) for run in each["runs"] if run["drafter"] == drafter]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return head + "\n".join(lines) + "\n"


def _sum(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    return f"{sum(run[name] for run in runs):,}"


def _cell(run: Mapping[str, Any]) -> str:
    if run["first_difference"] is None:
        return f"{run['tau']:.2f}"
    return f"{run['tau']:.2f}, {'tie' if run['tied'] else 'DIFFERS'} at {run['first_difference']}"


def test_the_document() -> None:
    """What it says of runs that agree, part at a tie, and part."""
    counts = {"tau": 1.5, "accepted": 7, "rejections": 3, "full_accepts": 1}
    agreed = {"first_difference": None, "tied": False}
    runs = [{"drafter": drafter, "k": k, **counts, **agreed} for drafter in DRAFTERS for k in KS]
    told = {"story": {"versions": "torch 2", "sha256": "f" * 64, "runs": runs}}
    assert "**12 of 12 answers are identical.**" in document(told)
    runs[1] |= {"first_difference": 40, "tied": True}
    runs[2] |= {"first_difference": 41}
    text = document(told)
    assert "**10 of 12 answers are identical.** 1 part at a tie of two tokens" in text
    assert "  1 anywhere else." in text
    assert "84 drafts accepted" in text
    assert "| story | 1.50 | 1.50, tie at 40 | 1.50, DIFFERS at 41 | 1.50 |" in text
    assert text.count("| K = 1 | K = 2 | K = 4 | K = 8 |") == len(DRAFTERS)
