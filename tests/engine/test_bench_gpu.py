"""The bench of a CUDA device, on the processor with tiny models: the same code, no time is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from engine.bench import arms, gpu
from engine.bench.arms import Arm
from engine.bench.clock import Timed
from engine.bench.gpu import PROMPT, Budget, K, main
from engine.bench.shapes import PAIRS, QWEN3_06B, QWEN3_8B, TINY_DRAFTER, TINY_TARGET, numbers, random_lm
from engine.models.causal_lm import CausalLM

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pair() -> tuple[CausalLM, CausalLM]:
    return random_lm(TINY_DRAFTER, CPU, torch.bfloat16), random_lm(TINY_TARGET, CPU, torch.bfloat16)


def test_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--shape", "tiny", "--budget", "0", "--tokens", "24"]
    assert main(options) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    told = json.loads(last)
    names = [row["name"] for row in told["rows"]]
    assert len(names) == len(set(names)) == 13
    assert all(sum(line.split("  ")[0] == name for line in lines) == 1 for name in names)
    assert told["device"] == "cpu"
    assert told["shapes"] == ["tiny drafter", "tiny target"]
    assert {"python", "torch", "transformers"} == told["versions"].keys()
    assert all(row["value"] > 0 for row in told["rows"])
    by_name = {row["name"]: row for row in told["rows"]}
    assert by_name["draft pass / target pass, tiny drafter for tiny target"]["at_most"] == 0.15
    hosts = [row for name, row in by_name.items() if name.startswith("host share")]
    assert [row["at_most"] for row in hosts] == [10, 10, 10]


def test_the_limits_are_of_the_real_shapes() -> None:
    names = {shape.name for shape in PAIRS["qwen3"]}
    assert gpu.AT_LEAST.keys() == names
    assert gpu.AT_LEAST == {"Qwen3-0.6B": (3.0, None), "Qwen3-8B": (1.5, 0.7)}


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [(QWEN3_06B, 596_049_920), (QWEN3_8B, 8_190_735_360)],
    ids=lambda value: str(value)[:20],
)
def test_real_shapes_have_as_many_weights_as_the_models(shape: object, parameters: int) -> None:
    from engine.bench import peers
    from engine.bench.shapes import Shape

    assert isinstance(shape, Shape)
    network = peers.random_network(shape.config, torch.device("meta"), torch.bfloat16)
    assert sum(weight.numel() for weight in network.parameters()) == parameters
    assert {weight.dtype for weight in network.parameters()} == {torch.bfloat16}


def test_the_text_is_the_same_whatever_the_width(pair: tuple[CausalLM, CausalLM]) -> None:
    for model in pair:
        plain = arms.plain(model).decode(PROMPT, 60 + K + 1).ids
        assert plain == (PROMPT[-1],) * (60 + K + 1), "the newest token over and over"
        timed = arms.synthetic(model, K, [*PROMPT, *plain]).decode(PROMPT, 60)
        assert timed.ids == plain[:60]
        assert {len(round_.drafts) for round_ in timed.rounds[:-4]} == {K}, "it never left what is known"
        accepted = {round_.n_accepted for round_ in timed.rounds}
        assert len(accepted) > 2, "some drafts are wrong"


def test_a_drafter_of_random_weights_drafts(pair: tuple[CausalLM, CausalLM]) -> None:
    drafter, target = pair
    timed = arms.drafted(target, drafter, K).decode(PROMPT, 24)
    assert all(round_.draft_ms > 0 for round_ in timed.rounds)
    assert {round_.n_accepted for round_ in timed.rounds} == {K, 24 % (K + 1) or K} | {
        round_.n_accepted for round_ in timed.rounds[-1:]
    }


def test_tokens_are_spelled_as_their_numbers() -> None:
    text = numbers(300)
    assert text.vocab_size == 300
    assert text.piece(17) == b"17 "
    assert text.special_ids == frozenset()


def test_the_budget_saves_on_repeats() -> None:
    def arm(seconds: float) -> Arm:
        def decode(prompt: Sequence[int], tokens: int) -> Timed:
            time.sleep(seconds)
            return Timed((), 1.0)

        return Arm("arm", decode)

    assert len(Budget(0, 1).blocks([arm(0.01)], 8)) == 1, "once at least"
    assert len(Budget(60, 1).blocks([arm(0)], 8)) == gpu.MOST_BLOCKS
    budget = Budget(0.6, 2)
    began = time.monotonic()
    found = budget.blocks([arm(0.05)], 8)
    assert len(found) < gpu.MOST_BLOCKS, "half of the budget is for what comes after"
    assert time.monotonic() - began < 0.5


def test_without_a_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([]) == 0
    assert capsys.readouterr().out == "no CUDA device\n"


def test_it_imports_the_engine_only() -> None:
    code = "import engine.bench.gpu, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    loaded = set(done.stdout.split())
    assert {"engine", "torch", "transformers"} <= loaded
    assert not loaded & {"tui", "textual", "rich"}
