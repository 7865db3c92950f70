"""Every rule of the doctor: what it says of its fact, and that it is silent without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.doctor import (
    CPU,
    DRAFTER,
    FACTS,
    GPU,
    MEMORY,
    OTHER_VOCABULARY,
    TARGET,
    facts,
)

from engine.doctor import machine_rules as on_machine
from engine.doctor import pair_rules as on_pair
from engine.doctor.advice import RULES, Rule, advise
from engine.doctor.expectation import break_even_alpha, expectation
from engine.doctor.facts import Facts, FormatSpeed, Library

LARGE = replace(DRAFTER, bytes_a_token=120_000_000)
TWIN = replace(DRAFTER, bytes_a_token=TARGET.bytes_a_token)
MISSING = replace(TARGET, here=False, bytes_a_token=None, fetch_bytes=93_000_000)
FULL = replace(MEMORY, free=100_000_000, problem="not enough memory", ways=('verify.quantize = "int8"',))

CASES: list[tuple[Rule, Facts, str, str]] = [
    (
        on_machine.install_again,
        replace(
            FACTS, torch=None, pair=None, speed=None, torch_problem="a library cannot be imported: no torch"
        ),
        "pip install -c constraints.txt",
        "no torch",
    ),
    (
        on_machine.other_versions,
        facts(facts={"libraries": (Library("torch", "2.12.1", "2.13.0"), Library("gguf", None, "0.19.0"))}),
        "pip install -c constraints.txt",
        "torch 2.12.1, not 2.13.0, gguf missing, not 0.19.0",
    ),
    (
        on_pair.other_device,
        facts(pair={"device_asked": "cuda:1", "device": None}, torch={"devices": (CPU, GPU)}),
        'run.device = "auto"',
        'run.device = "cuda:1", and here are: cpu, cuda:0',
    ),
    (
        on_pair.as_the_error_says,
        facts(pair={"models": (TARGET, replace(DRAFTER, problem="it is damaged", hint="copy it again"))}),
        "copy it again",
        "it is damaged",
    ),
    (
        on_pair.as_the_error_says,
        facts(pair={"problem": "it asks for beams", "hint": "set sampling.generation_config = false"}),
        "generation_config = false",
        "it asks for beams",
    ),
    (
        on_pair.use_the_gpu,
        facts(pair={"device_asked": "cpu"}, torch={"devices": (CPU, GPU)}),
        'run.device = "auto"',
        "A GPU, compute capability 9.0",
    ),
    (
        on_machine.torch_for_cuda,
        facts(torch={"nvidia_driver": True}),
        "--extra cu128",
        "built without CUDA",
    ),
    (
        on_pair.fetch_models,
        facts(pair={"models": (MISSING, DRAFTER)}),
        "spec models fetch org/target",
        "the target is not on this machine yet, a download of 93 MB",
    ),
    (
        on_pair.room_on_disk,
        facts(pair={"models": (MISSING,)}, facts={"cache_free": 300_000_000}),
        "NAIVE_SPECULATE_CACHE",
        "300 MB free there, about 744 MB needed",
    ),
    (
        on_pair.other_tokenizer,
        facts(pair={"vocabulary": OTHER_VOCABULARY}),
        'draft.method = "slem" or "tli"',
        "number their tokens differently",
    ),
    (
        on_pair.same_tokenizer,
        facts(pair={"method": "slem", "any_tokenizer": True}),
        'draft.method = "model"',
        '"slem" only adds work',
    ),
    (
        on_pair.fit_memory,
        facts(pair={"memory": FULL}),
        'set verify.quantize = "int8"',
        "does not fit: about 337 MB needed on this machine, 100 MB free",
    ),
    (
        on_pair.fit_memory,
        facts(pair={"memory": replace(FULL, ways=())}),
        "use a smaller model",
        "does not fit",
    ),
    (
        on_pair.fit_memory,
        facts(pair={"memory": replace(MEMORY, free=400_000_000)}),
        "max_new_tokens",
        "tight",
    ),
    (
        on_pair.faster_format,
        facts(pair={"dtype": "float32", "dtype_asked": "float32"}),
        'set run.dtype = "bfloat16"',
        "of one row are 2.0x as fast in it here as in float32, of nine rows 4.5x",
    ),
    (
        on_machine.threads,
        facts(torch={"threads": 8}, pair={"threads_asked": 8}),
        "set run.threads = 4",
        "8 threads (run.threads = 8), and 4 cores can be used",
    ),
    (
        on_machine.threads,
        facts(torch={"threads": 1}, machine={"thread_variables": (("OMP_NUM_THREADS", "1"),)}),
        "set run.threads = 4, or unset OMP_NUM_THREADS",
        "1 thread (OMP_NUM_THREADS=1), and 4 cores can be used",
    ),
    (
        on_machine.threads,
        facts(machine={"core_quota": 1.5}),
        "set run.threads = 2",
        "and 2 cores can be used",
    ),
    (on_machine.busy_machine, facts(speed={"others": 0.4}), "before you believe a timing", "used 40%"),
    (on_machine.busy_machine, facts(machine={"busy": 0.6}), "before you believe a timing", "used 60%"),
    (
        on_pair.dear_drafter,
        facts(pair={"models": (TARGET, LARGE)}),
        'draft.method = "lookup"',
        "0.60 of a plain step, so one draft a round pays only where alpha is above 0.60",
    ),
    (on_pair.dear_drafter, facts(pair={"models": (TARGET, TWIN)}), "smaller drafter", "no draft pays"),
    (
        on_pair.long_drafts,
        facts(pair={"dtype": "float32", "num_draft_tokens": 8}),
        "draft.num_draft_tokens",
        "nine rows take 2.5x as long as of one in float32",
    ),
]


@pytest.mark.parametrize(("rule", "found", "do", "why"), CASES)
def test_a_rule_tells_what_follows_from_its_fact(rule: Rule, found: Facts, do: str, why: str) -> None:
    told = rule(found)
    assert told is not None
    assert do in told.do
    assert why in told.why


def test_every_rule_has_its_case_and_is_told() -> None:
    assert {rule for rule, *_ in CASES} == set(RULES)
    for rule, found, *_ in CASES:
        assert rule(found) in advise(found)


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert advise(FACTS) == ()


def test_nothing_is_said_where_nothing_is_known() -> None:
    bare = replace(FACTS, libraries=(), torch=None, speed=None, pair=None, cache_free=None)
    assert advise(bare) == ()


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        # a driver, and a torch that can use it
        (on_machine.torch_for_cuda, facts(torch={"nvidia_driver": True, "cuda_build": "12.8"})),
        # auto takes the GPU by itself
        (on_pair.use_the_gpu, facts(torch={"devices": (CPU, GPU)})),
        # a model that cannot be used is not worth fetching
        (on_pair.fetch_models, facts(pair={"models": (replace(MISSING, problem="damaged"),)})),
        # slem takes this drafter
        (on_pair.other_tokenizer, facts(pair={"vocabulary": OTHER_VOCABULARY, "any_tokenizer": True})),
        # faster by less than a short measurement can tell
        (
            on_pair.faster_format,
            facts(speed={"formats": (FormatSpeed("bfloat16", 4.0, 4.0), FormatSpeed("float16", 3.5, 4.0))}),
        ),
        # faster for a plain step, slower for rounds
        (
            on_pair.faster_format,
            facts(speed={"formats": (FormatSpeed("bfloat16", 4.0, 4.0), FormatSpeed("float16", 2.0, 9.0))}),
        ),
        # measured on another device than the pair's
        (on_pair.faster_format, facts(pair={"dtype": "float32"}, speed={"device": "cuda:0"})),
        # measured while others kept the processor busy
        (on_pair.faster_format, facts(pair={"dtype": "float32"}, machine={"busy": 0.5})),
        (
            on_pair.long_drafts,
            facts(pair={"dtype": "float32", "num_draft_tokens": 8}, machine={"busy": 0.5}),
        ),
        (on_pair.faster_format, facts(pair={"dtype": "float32"}, speed={"others": 0.5})),
        # short drafts, and a K that adapts
        (on_pair.long_drafts, facts(pair={"dtype": "float32", "num_draft_tokens": 4})),
        (on_pair.long_drafts, facts(pair={"dtype": "float32", "num_draft_tokens": "auto"})),
        # threads of the processor say nothing about a GPU
        (on_machine.threads, facts(torch={"threads": 8}, pair={"device": "cuda:0"})),
    ],
)
def test_a_rule_is_silent_where_its_fact_is_missing(rule: Rule, found: Facts) -> None:
    assert rule(found) is None


def test_a_container_sets_the_threads_that_are_useful() -> None:
    machine = FACTS.machine
    assert machine.useful_threads == 4
    assert replace(machine, allowed_cores=2).useful_threads == 2
    assert replace(machine, core_quota=0.5).useful_threads == 1
    assert replace(machine, physical_cores=None).useful_threads == 8


def test_expectation_is_bytes_over_bandwidth() -> None:
    found = expectation(FACTS)
    assert found is not None
    assert found.plain_ms == pytest.approx(10.0)  # 200 MB at 20 GB/s
    assert found.plain_tokens_per_second == pytest.approx(100.0)
    assert found.c_bytes == pytest.approx(0.1)
    assert found.c_layers == pytest.approx(0.2)
    assert found.c == found.c_bytes
    assert found.break_even_alpha == pytest.approx(0.1)


def test_on_a_gpu_the_dearer_ratio_counts() -> None:
    found = expectation(facts(pair={"device": "cuda:0"}))
    assert found is not None
    assert found.c == pytest.approx(0.2)


def test_expectation_without_a_measurement_or_a_model() -> None:
    unmeasured = expectation(replace(FACTS, speed=None))
    assert unmeasured is not None
    assert unmeasured.plain_ms is None and unmeasured.plain_tokens_per_second is None
    assert unmeasured.c == pytest.approx(0.1)
    assert expectation(facts(pair={"models": (MISSING, DRAFTER)})) is None
    lookup = expectation(facts(pair={"models": (TARGET,), "method": "lookup"}))
    synthetic = expectation(facts(pair={"models": (TARGET,), "method": "synthetic"}))
    assert lookup is not None and synthetic is not None
    assert (lookup.c, synthetic.c) == (0.0, None)


def test_break_even_formula() -> None:
    # The row of algorithms where one draft costs 0.2 of a step and a second row 0.03: a* = 0.23.
    assert break_even_alpha(0.2, r2=1.03) == pytest.approx(0.23)
    assert break_even_alpha(0.2, r2=1.03, o=0.1) == pytest.approx(0.33)


def test_problems_are_those_of_the_method() -> None:
    other = facts(pair={"vocabulary": OTHER_VOCABULARY})
    assert other.problems == (OTHER_VOCABULARY.difference,)
    assert facts(pair={"vocabulary": OTHER_VOCABULARY, "any_tokenizer": True}).problems == ()
    assert facts(pair={"memory": FULL}).problems == ("not enough memory",)
    assert FACTS.problems == ()
