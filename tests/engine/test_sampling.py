"""One function for p and q, and it is what transformers' ``generate`` does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.runs import context, run_rounds
from support.tables import reference_law, settings
from support.tiny import noisy_copy, tiny_lm, tiny_model
from transformers import GenerationConfig

from engine.answer import Limits
from engine.drafters.model import ModelDrafter
from engine.events import Settings
from engine.registry import RULES, load
from engine.sampling import Law

V = 384
LAWS = {
    "plain": settings(),
    "temperature": settings(temperature=0.6),
    "hot": settings(temperature=1.7),
    "top-k": settings(top_k=7),
    "top-k above V": settings(top_k=1000),
    "top-p": settings(top_p=0.9),
    "low top-p": settings(top_p=0.01),
    "min-p": settings(min_p=0.05),
    "penalty": settings(repetition_penalty=1.3),
    "reward": settings(repetition_penalty=0.8),
    "all": settings(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02, repetition_penalty=1.1),
}
TOKENS = [5, 9, 5, 100, 383, 0, 7]
DRAFTS = torch.tensor([200, 5, 201, 202])


def by_transformers(given: Settings) -> Any:
    """The processors that ``generate`` would build for the same settings."""
    config = GenerationConfig(
        do_sample=given.temperature > 0,
        temperature=given.temperature or None,
        top_k=given.top_k,
        top_p=given.top_p,
        min_p=given.min_p or None,
        repetition_penalty=given.repetition_penalty,
    )
    model = tiny_model("llama")
    model._prepare_special_tokens(config, kwargs_has_attention_mask=True)
    return model._get_logits_processor(config, input_ids_seq_length=len(TOKENS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAWS)
def test_every_row_is_what_transformers_gives(name: str, dtype: torch.dtype) -> None:
    """K+1 rows at once are K+1 calls of ``generate``'s processors, each row with its own prefix."""
    law = Law(LAWS[name], dtype)
    logits = torch.randn(len(DRAFTS) + 1, V, generator=torch.Generator().manual_seed(1), dtype=dtype) * 3
    scores = law.process(logits, TOKENS, DRAFTS)
    assert scores.dtype == dtype
    for i, row in enumerate(scores):
        history = torch.tensor([[*TOKENS, *DRAFTS[:i].tolist()]])
        expected = by_transformers(LAWS[name])(history, logits[i : i + 1])
        assert torch.equal(row, expected[0]), f"row {i}"
        alone = law.process(logits[i : i + 1], history[0].tolist())
        assert torch.equal(row, alone[0]), "the plain step sees the same"
    assert torch.equal(law.probabilities(scores), scores.softmax(-1))


@pytest.mark.parametrize("name", LAWS)
def test_the_reference_of_the_proofs_is_the_same_law(name: str) -> None:
    law = Law(LAWS[name], torch.float64)
    logits = torch.randn(1, V, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 3
    ours = law.probabilities(law.process(logits, TOKENS))[0]
    reference = torch.tensor(reference_law(logits[0].tolist(), TOKENS, LAWS[name]), dtype=torch.float64)
    assert torch.allclose(ours, reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_generate_itself(name: str) -> None:
    """The scores that ``generate`` reports, sampled token by sampled token."""
    model, given = tiny_model("llama"), LAWS[name]
    torch.manual_seed(0)
    output = model.generate(
        torch.tensor([TOKENS]),
        attention_mask=torch.ones(1, len(TOKENS), dtype=torch.long),
        do_sample=True,
        max_new_tokens=6,
        temperature=given.temperature,
        top_k=given.top_k,
        top_p=given.top_p,
        min_p=given.min_p or None,
        repetition_penalty=given.repetition_penalty,
        eos_token_id=None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        output_logits=True,
    )
    written = output.sequences[0, len(TOKENS) :]
    scores = Law(given).process(torch.cat(output.logits), TOKENS, written[:-1])
    assert torch.equal(scores, torch.cat(output.scores))


@pytest.mark.parametrize("rule", ["speculative_sampling", "block", "match"])
@pytest.mark.parametrize("name", ["temperature", "penalty", "all"])
def test_the_p_of_a_round_is_that_of_transformers(name: str, rule: str) -> None:
    """Draft by draft, each with its own prefix; and the target's own token has it too."""
    model, given = tiny_model("llama"), LAWS[name]
    target = tiny_lm("llama", model=model)
    drafter = ModelDrafter(context(target, tiny_lm("llama", model=noisy_copy(model, 0.1))))
    shipped = load(RULES[rule])()
    run = run_rounds(
        target, drafter, TOKENS, Limits(24, 512), k=3, given=given, rule=shipped, dtype=torch.float32
    )
    judged = 0
    for happened in run.rounds:
        ids = [draft.id for draft in happened.drafts]
        before = run.answer.tokens[: happened.context_length]
        told = [(place, draft.id, draft.p) for place, draft in enumerate(happened.drafts)]
        told.append((happened.n_accepted, happened.target.id, happened.target.p))
        for place, id_, p in told:
            history = torch.tensor([[*before, *ids[:place]]])
            with torch.inference_mode():
                logits = model(history).logits[:, -1].float()
            expected = by_transformers(given)(history, logits).softmax(-1)[0, id_]
            assert p == pytest.approx(float(expected), abs=2e-5)
            judged += 1
    assert judged > 12


def test_greedy_ignores_the_warpers_but_not_the_penalty() -> None:
    given = settings(temperature=0.0, top_k=3, top_p=0.5, min_p=0.1, repetition_penalty=2.0)
    law = Law(given)
    assert law.greedy
    logits = torch.zeros(2, 6)
    logits[:, 3], logits[:, 4] = 2.0, 1.5
    scores = law.process(logits, [3], torch.tensor([4]))
    assert scores[0].tolist() == [0, 0, 0, 1.0, 1.5, 0]
    assert scores[1].tolist() == [0, 0, 0, 1.0, 0.75, 0]
    assert law.probabilities(scores).argmax(-1).tolist() == [4, 3]
    assert law.probabilities(scores).sum(-1).tolist() == [1, 1]


def test_a_tie_is_one_token() -> None:
    """A point mass stays one where two tokens are equally likely, and it is the one that argmax takes."""
    scores = torch.tensor([[1.0, 2.0, 2.0]])
    law = Law(settings(temperature=0.0))
    assert law.probabilities(scores).tolist() == [[0, 1, 0]]
    assert int(scores.argmax(-1)) == 1


def test_the_logits_are_left_alone() -> None:
    for chosen in (*LAWS.values(), settings(temperature=0.0, repetition_penalty=1.3)):
        logits = torch.randn(3, V, generator=torch.Generator().manual_seed(3))
        kept = logits.clone()
        Law(chosen).process(logits, TOKENS, DRAFTS)
        assert torch.equal(logits, kept)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_first(dtype: torch.dtype) -> None:
    logits = (torch.randn(1, V, generator=torch.Generator().manual_seed(4)) * 3).to(dtype)
    law = Law(LAWS["all"])
    scores = law.process(logits, TOKENS)
    assert scores.dtype == torch.float32
    assert torch.equal(scores, law.process(logits.float(), TOKENS))


def test_a_narrower_vocabulary() -> None:
    """The drafter's rows may be cut to the ids that both models know."""
    logits = torch.randn(1, 8, generator=torch.Generator().manual_seed(5))
    law = Law(settings(top_k=50, repetition_penalty=1.5))
    scores = law.process(logits, [1, 7], torch.tensor([3, 5]))
    changed = (scores != logits).nonzero()[:, 1].tolist()
    assert changed == [1, 3, 5, 7], "a single row follows all the drafts"


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 9), max_size=6),
    st.sampled_from([0.7, 1.4]),
)
def test_the_penalty_of_each_row_is_by_its_own_prefix(
    tokens: list[int], drafts: list[int], penalty: float
) -> None:
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(len(drafts) + 1, 10, generator=generator, dtype=torch.float64)
    fed = torch.tensor(drafts, dtype=torch.long)
    law = Law(settings(repetition_penalty=penalty), torch.float64)
    scores = law.process(logits, tokens, fed)
    for i in range(len(drafts) + 1):
        # The drafter has one row at a time, the target all of them.
        assert torch.equal(law.process(logits[i : i + 1], tokens, fed[:i])[0], scores[i])
        seen = {*tokens, *drafts[:i]}
        for id_ in range(10):
            logit = float(logits[i, id_])
            expected = (logit * penalty if logit < 0 else logit / penalty) if id_ in seen else logit
            assert float(scores[i, id_]) == pytest.approx(expected, abs=1e-15)
