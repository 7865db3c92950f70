"""Proof D on the built-in model in float32: sessions write what transformers' ``generate`` writes.

Four prompts of 40 tokens. Each drafter runs each K once, every drafter on every prompt: a Latin square.
"""

from __future__ import annotations

import math
from functools import partial

import pytest
from support.real import DRAFTERS, KS, Answered, RealRuns

from engine.bench.equality import Agreement, compare, next_logits
from engine.bench.prompts import CHAT, COPY
from engine.models.causal_lm import CausalLM

PROMPTS = (COPY[0], CHAT[0], COPY[2], CHAT[3])
TOKENS = 40


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    """Not here: this model is large enough for all processors."""


@pytest.fixture(scope="module")
def runs(builtin_lm: CausalLM, cut_lm: CausalLM) -> RealRuns:
    return RealRuns(builtin_lm, cut_lm, TOKENS)


@pytest.fixture(scope="module")
def answered() -> dict[tuple[str, int], Answered]:
    """The runs so far, for the test that looks at all of them."""
    return {}


def run(runs: RealRuns, answered: dict[tuple[str, int], Answered], drafter: str, k: int) -> Answered:
    if (drafter, k) not in answered:
        prompt = PROMPTS[(DRAFTERS.index(drafter) + KS.index(k)) % len(PROMPTS)]
        answered[drafter, k] = runs.run(drafter, k, prompt)
    return answered[drafter, k]


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_sessions_write_what_transformers_writes(
    drafter: str, k: int, runs: RealRuns, answered: dict[tuple[str, int], Answered]
) -> None:
    found = run(runs, answered, drafter, k)
    found.check()
    assert all(len(round_.drafts) <= k for round_ in found.rounds)
    if drafter == "perfect":
        assert found.rejections <= 1, "the target agrees with itself, near ties apart"
        assert len(found.rounds) <= math.ceil(TOKENS / (k + 1)) + found.rejections
    if k == max(KS):
        baseline = runs.baseline(drafter)
        assert len(baseline.ids) == TOKENS
        assert baseline.identical is True or not found.agreement.same


def test_accepts_rejects_and_full_accepts_were_seen(
    runs: RealRuns, answered: dict[tuple[str, int], Answered]
) -> None:
    """Equality proves little where nothing is ever accepted, or ever refused."""
    by_drafter = {drafter: [run(runs, answered, drafter, k) for k in KS] for drafter in DRAFTERS}
    for drafter in ("lookup", "cut"):
        assert sum(each.accepted for each in by_drafter[drafter]) > 0
        assert sum(each.rejections for each in by_drafter[drafter]) > 0
    assert sum(each.full_accepts for each in by_drafter["perfect"]) > 0
    assert sum(each.full_accepts for each in by_drafter["lookup"]) > 0
    kept = {round_.n_accepted for each in by_drafter["lookup"] for round_ in each.rounds}
    assert len(kept) > 3, "blocks were cut at different places"


def test_the_excuse_is_a_narrow_one(runs: RealRuns, builtin_lm: CausalLM) -> None:
    """A text that parts at an ordinary token fails, even if it goes on with the second likeliest one."""
    ids = builtin_lm.text.encode_chat(PROMPTS[1].messages, None)
    written = list(runs.reference(PROMPTS[1]))[:6]
    second = int(next_logits(builtin_lm, ids, written[:-1], 1).topk(2).indices[1])
    parted = compare(builtin_lm, ids, written, [*written[:-1], second], k=2)
    assert parted.first_difference == 5
    assert not parted.same
    assert not parted.tied
    found = partial(Answered, (), tuple(written))
    with pytest.raises(AssertionError, match="no tie"):
        found(parted).check()
    with pytest.raises(AssertionError, match="more than rounding"):
        found(Agreement(first_difference=5, gap=0.2, change=0.5)).check()
    found(Agreement(first_difference=5, gap=1e-5, change=3e-5)).check()
    found(Agreement()).check()
