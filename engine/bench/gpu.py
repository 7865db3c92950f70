"""``python -m engine.bench.gpu``: speed on a CUDA device, on random weights of real shapes.

Plain decoding, rounds of the synthetic drafter, and one model that drafts for the other, against
``generate`` of transformers on the same objects and against the device's memory. A table on stdout, then one
JSON line. It ends within its budget: repeats are what it saves on. The exit status says whether it ran.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

import torch

from engine.bench import arms, peers
from engine.bench.arms import Arm
from engine.bench.bandwidth import reading
from engine.bench.report import Row, json_line, line, ratio_row, table
from engine.bench.shapes import PAIRS, random_lm
from engine.bench.timing import (
    Block,
    Estimate,
    host_share,
    median_ratio,
    one_block,
    rounds_of,
    tokens_a_round,
    warm_up,
)
from engine.memory_bandwidth import MemoryReader, bytes_a_token
from engine.models.causal_lm import CausalLM
from engine.models.quiet import quiet

BUDGET_S = 320.0
"""Building the models and capturing their passes included, so that all ends in six minutes."""
PROMPT = tuple(range(100, 228))
TOKENS = 128
K = 5
"""Draft tokens a round."""
MOST_BLOCKS = 5
"""Times A B B A of each comparison, if the budget allows."""
AT_LEAST = {"Qwen3-0.6B": (3.0, None), "Qwen3-8B": (1.5, 0.7)}
"""By the shape: of plain decoding over ``generate``, and of the share of the memory's speed."""


class Budget:
    """Seconds, handed out in equal parts to what is still to be done."""

    def __init__(self, seconds: float, parts: int) -> None:
        self._end = time.monotonic() + seconds
        self._parts = parts

    def blocks(self, arms_: Sequence[Arm], tokens: int) -> list[Block]:
        """The arms in turn, at least once, until the next part of the budget is used up."""
        now = time.monotonic()
        end = now + max(0.0, self._end - now) / self._parts
        self._parts -= 1
        warm_up(arms_, PROMPT)
        blocks: list[Block] = []
        took = 0.0
        while not blocks or (len(blocks) < MOST_BLOCKS and time.monotonic() + took <= end):
            began = time.monotonic()
            blocks.append(one_block(arms_, PROMPT, tokens))
            took = time.monotonic() - began
        return blocks


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print. Returns the exit status."""
    options = _parser().parse_args(argv)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        sys.stdout.write("no CUDA device\n")
        return 0
    quiet()
    began = time.monotonic()
    device = torch.device(options.device)
    rows: list[Row] = []
    for row in measure(options.shape, device, Budget(options.budget, 3), options.tokens):
        rows.append(row)
        sys.stderr.write(f"[{time.monotonic() - began:4.0f} s] {line(row)}\n")
    context = _context(options.shape, device) | {"seconds": round(time.monotonic() - began, 1)}
    versions = ", ".join(f"{name} {number}" for name, number in context["versions"].items())
    head = f"{context['device']}; {versions}; bfloat16, {context['seconds']:.0f} s"
    sys.stdout.write(f"{head}\n\n{table(rows)}\n{json_line(rows, context)}\n")
    return 0


def measure(pair: str, device: torch.device, budget: Budget, tokens: int) -> Iterator[Row]:
    """Each model by itself, then the smaller one as the drafter of the larger one."""
    drafter, target = (random_lm(shape, device, torch.bfloat16) for shape in PAIRS[pair])
    for model in (drafter, target):
        yield from model_rows(model, budget, tokens)
    yield from pair_rows(target, drafter, budget, tokens)


def model_rows(model: CausalLM, budget: Budget, tokens: int) -> Iterator[Row]:
    """One model: plain, by rounds of known acceptance, by transformers, against its memory."""
    name, size = model.info.name, bytes_a_token(model)
    reader = MemoryReader(size, model.device)
    plain, generate, limit = arms.plain(model), arms.transformers_plain(model), reading(reader, size)
    known = plain.decode(PROMPT, tokens + K + 1).ids
    rounds = arms.synthetic(model, K, [*PROMPT, *known])
    blocks = budget.blocks([plain, rounds, generate, limit], tokens)
    speeds = reader.speeds
    del reader, limit  # a buffer as large as the weights
    over_generate, of_memory = AT_LEAST.get(name, (None, None))
    told = f"{_ms(blocks, 'plain'):.2f} ms a token against {_ms(blocks, generate.name):.2f}"
    yield ratio_row(
        f"plain decoding / transformers generate, {name}",
        _ratio(blocks, "plain", generate.name),
        over_generate,
        told,
    )
    yield ratio_row(
        f"plain decoding / limit of memory bandwidth, {name}",
        _ratio(blocks, "plain", "memory"),
        of_memory,
        f"{size / 1e6:.0f} MB a token; read at {speeds} GB/s; {model.info.passes} passes",
    )
    yield Row(f"plain decoding, {name}", 1e3 / _ms(blocks, "plain"), "tok/s")
    share, a_round = host_share(blocks, rounds.name)
    yield Row(
        *(f"rounds, {name}", 1e3 / _ms(blocks, rounds.name), "tok/s"),
        note=f"K = {K}; tau {tokens_a_round(blocks, rounds.name):.2f}; "
        f"{_ratio(blocks, rounds.name, 'plain').value:.2f} x plain decoding; drafts cost nothing",
        k=K,
    )
    yield Row(
        *(f"host share of a round, {name}", 100 * share, "%"),
        at_most=10,
        note=f"{a_round:.2f} ms a round",
        k=K,
    )


def pair_rows(target: CausalLM, drafter: CausalLM, budget: Budget, tokens: int) -> Iterator[Row]:
    """Rounds in which the one drafts for the other: what its passes cost beside the target's."""
    arm = arms.drafted(target, drafter, K)
    blocks = budget.blocks([arm], tokens)
    names = f"{drafter.info.name} for {target.info.name}"
    rounds = rounds_of(blocks, arm.name)
    ratios = [round_.draft_ms / len(round_.drafts) / round_.verify_ms for round_ in rounds if round_.drafts]
    estimate = median_ratio(ratios)
    draft = median(round_.draft_ms / len(round_.drafts) for round_ in rounds if round_.drafts)
    yield Row(
        *(f"draft pass / target pass, {names}", estimate.value, "x"),
        at_most=0.15,
        low=estimate.low,
        high=estimate.high,
        note=f"{draft:.2f} ms against {median(round_.verify_ms for round_ in rounds):.2f} of {K + 1} rows",
        k=K,
    )
    share, a_round = host_share(blocks, arm.name)
    yield Row(
        *(f"host share of a round, {names}", 100 * share, "%"),
        at_most=10,
        note=f"{a_round:.2f} ms a round",
        k=K,
    )
    yield Row(
        *(f"rounds, {names}", 1e3 / _ms(blocks, arm.name), "tok/s"),
        note=f"tau {tokens_a_round(blocks, arm.name):.2f}: these weights agree on every token",
        k=K,
    )


def _ms(blocks: Sequence[Block], name: str) -> float:
    return fmean(block.ms(name) for block in blocks)


def _ratio(blocks: Sequence[Block], name: str, other: str) -> Estimate:
    return median_ratio([block.ratio(name, other) for block in blocks])


def _context(pair: str, device: torch.device) -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": peers.VERSION,
        },
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "shapes": [shape.name for shape in PAIRS[pair]],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.bench.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu (default: cuda)")
    parser.add_argument(
        "--shape", choices=[*PAIRS], default="qwen3", help="which pair of models (default: qwen3)"
    )
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, metavar="S", help=f"seconds in all (default: {BUDGET_S:g})"
    )
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, metavar="N", help=f"of one run (default: {TOKENS})"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
