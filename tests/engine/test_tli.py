"""Drafting in the tokens that two vocabularies share: q is the law that was drawn from, the text stays."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from support.knowing import PROMPT, SECOND, STORY, TINY, Knowing, drafter, target
from support.runs import double_lm, run_plain, run_rounds
from support.tables import settings
from support.tiny import metaspace_tokenizer, tiny_lm, tiny_model, wordpiece_tokenizer
from tokenizers import Tokenizer, decoders, models
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from engine.answer import Limits
from engine.drafters.base import DrafterContext, Scored
from engine.drafters.tli import TliDrafter
from engine.draws import Draws
from engine.errors import NumericalError, VocabularyMismatch
from engine.events import Settings
from engine.kv_cache import KVCache
from engine.laws import TOP
from engine.models.causal_lm import CausalLM
from engine.models.shared_tokens import shared_tokens
from engine.models.token_text import TokenText
from engine.sampling import Law
from engine.verify import Block, GreedyMatch, Match, Rule, SeedExact, SpeculativeSampling

START = TINY.encode_more(PROMPT)
FOREVER = Limits(48, 512)
TO_THE_END = Limits(300, 512, eos_ids=frozenset({2}))
METASPACE = TokenText(metaspace_tokenizer())
WORDPIECE = TokenText(wordpiece_tokenizer())
LAW = Law(settings(), torch.float64)


def random_lm(text: TokenText, seed: int = 3) -> CausalLM:
    model = tiny_model("llama", seed, vocab_size=text.vocab_size).double()
    return tiny_lm("llama", model=model, tokenizer=text.tokenizer)


def tli(target_lm: CausalLM, model: Any, *, greedy: bool = False) -> TliDrafter:
    return TliDrafter(DrafterContext(target_lm, model, 0, greedy))


class TestShared:
    @pytest.mark.parametrize("own", [SECOND, METASPACE, WORDPIECE], ids=["second", "metaspace", "wordpiece"])
    def test_the_same_bytes_and_nothing_else(self, own: TokenText) -> None:
        shared = shared_tokens(TINY, own)
        assert all(TINY.piece(id_) == own.piece(other) for id_, other in shared.items())
        assert all((id_ in TINY.special_ids) == (other in own.special_ids) for id_, other in shared.items())
        theirs = {own.piece(id_) for id_ in range(own.vocab_size) if id_ not in own.special_ids}
        ours = {TINY.piece(id_) for id_ in range(TINY.vocab_size) if id_ not in TINY.special_ids}
        assert {TINY.piece(id_) for id_ in shared if id_ not in TINY.special_ids} == ours & theirs

    def test_control_tokens_by_name(self) -> None:
        assert [shared_tokens(TINY, SECOND)[id_] for id_ in range(3)] == [0, 1, 2]
        assert not set(range(3)) & set(shared_tokens(TINY, METASPACE))

    def test_a_letter_rather_than_its_byte(self) -> None:
        letter, byte = (METASPACE.tokenizer.convert_tokens_to_ids(token) for token in ("a", "<0x61>"))
        assert METASPACE.piece(letter) == METASPACE.piece(byte) == b"a"
        (ours,) = TINY.encode_more("a")
        assert shared_tokens(TINY, METASPACE)[ours] == letter

    def test_none_at_all(self) -> None:
        backend = Tokenizer(models.BPE({"\u0120never": 0, "\u0120there": 1}, []))
        backend.decoder = decoders.ByteLevel()
        apart = TokenText(PreTrainedTokenizerFast(tokenizer_object=backend))
        assert shared_tokens(TINY, apart) == {}
        with pytest.raises(VocabularyMismatch, match="no token in common") as raised:
            tli(target(), random_lm(apart))
        assert raised.value.hint is not None and "slem" in raised.value.hint


@pytest.mark.parametrize("rule", [GreedyMatch, SpeculativeSampling, Block])
@pytest.mark.parametrize("own", [SECOND, METASPACE, WORDPIECE], ids=["second", "metaspace", "wordpiece"])
def test_greedy_text_is_that_of_plain_decoding(own: TokenText, rule: type[Rule]) -> None:
    lm = double_lm("llama")
    run = run_rounds(lm, tli(lm, random_lm(own)), START, FOREVER, k=4, rule=rule())
    assert run.outcome == run_plain(lm, START, FOREVER).outcome
    assert sum(len(r.drafts) for r in run.rounds) > 0


@pytest.mark.parametrize("rule", [Match, SeedExact])
def test_sampled_text_is_that_of_plain_decoding(rule: type[Match]) -> None:
    given, lm = settings(repetition_penalty=1.3), target(sure=0.5)
    made = tli(lm, drafter())
    run = run_rounds(lm, made, START, FOREVER, k=4, given=given, rule=rule(), draws=rule.draws(1))
    assert run.outcome == run_plain(lm, START, FOREVER, given=given, draws=rule.draws(1)).outcome
    assert sum(r.accepted for r in run.rounds) > 0


@pytest.mark.parametrize("rule", [GreedyMatch, SpeculativeSampling, Block, Match])
def test_a_drafter_that_knows_the_text_is_believed(rule: type[Rule]) -> None:
    """As far as both spell it alike: letters, mostly, and the end of the text, which has one name."""
    lm = target()
    run = run_rounds(lm, tli(lm, drafter()), START, TO_THE_END, k=4, rule=rule())
    assert PROMPT + run.text == STORY
    assert sum(r.accepted for r in run.rounds) > 20
    assert len(run.rounds) < len(run.ids) - 20
    assert "the text ends within a character" in {r.k_reason for r in run.rounds}


@pytest.mark.parametrize(
    "given",
    [settings(), settings(temperature=0.5, top_k=7, top_p=0.9, min_p=0.01, repetition_penalty=1.5)],
    ids=["plain", "processed"],
)
def test_q_is_the_law_over_the_shared_tokens(given: Settings) -> None:
    """Each row, after the tokens and the drafts before it, is what the draft was drawn from."""
    law, model, draws, lm = Law(given, torch.float64), random_lm(SECOND), Draws(8), double_lm("llama")
    tried = tli(lm, model)
    draft = tried.propose(START, 4, law, draws)
    assert draft.q is not None and draft.top is not None
    shared, ids = shared_tokens(TINY, SECOND), draft.ids.tolist()
    for index, q in enumerate(draft.q):
        read = [*SECOND.encode_more(PROMPT), *(shared[id_] for id_ in ids[:index])]
        own = model.forward(read, model.new_cache(), keep=1)[0]
        logits = torch.full((1, TINY.vocab_size), -torch.inf, dtype=torch.float64)
        for id_, other in shared.items():
            logits[0, id_] = own[other]
        scores = law.process(logits, [*START, *ids[:index]])
        assert float((q - law.probabilities(scores)[0]).abs().max()) < 1e-12
        assert ids[index] == int(draws.draft(q, len(START), index))
        assert not any(float(q[id_]) for id_ in range(TINY.vocab_size) if id_ not in shared)
    assert draft.top.shape == (4, 2 * TOP)


def test_what_it_has_just_drafted_counts_as_text() -> None:
    """A little likelier than the others, until the penalty for having been written once."""
    law = Law(settings(temperature=0.0, repetition_penalty=1.7), torch.float64)
    (favourite,), (own,) = TINY.encode_more("q"), SECOND.encode_more("q")
    draft = tli(target(), Knowing(SECOND, lambda _: own, sure=0.02)).propose(START, 4, law, Draws(0))
    assert draft.ids.tolist().count(favourite) == 1


def test_the_greedy_strategy_is_certain() -> None:
    draft = tli(target(), drafter(), greedy=True).propose(START, 4, LAW, Draws(1))
    assert draft.q is None and draft.top is not None
    assert draft.top[:, 0].tolist() == draft.ids.tolist()


def test_broken_logits_are_the_drafters_fault() -> None:
    model, lm = drafter(), target()
    sound = model.forward

    def broken(ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        return sound(ids, cache, keep) * torch.nan

    model.forward = broken  # type: ignore[method-assign]
    with pytest.raises(NumericalError, match="the drafter's logits are not finite"):
        run_rounds(lm, tli(lm, model), START, FOREVER, k=2, rule=Match(), given=settings())


@hypothesis.given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, 383), max_size=5), st.integers(1, 4)),
        max_size=4,
    )
)
@hypothesis.settings(max_examples=30)
def test_the_past_does_not_matter(changes: list[tuple[int, list[int], int]]) -> None:
    """Whatever was drafted and observed before, the cache is that of the own ids it now reads."""
    model = random_lm(SECOND)
    tried, tokens = tli(double_lm("llama"), model), [*START]
    for keep, more, k in changes:
        tokens = [*tokens[: max(1, keep)], *more]
        ids = tried.propose(tokens, k, LAW, Draws(5)).ids.tolist()
        tried.observe(Scored(ids, 0))
        assert len(tried._held) == len(tried._cache)
        tokens += ids[: len(more) % 3]
        own = tried._sync(tokens)
        assert tried._held == own[: len(tried._cache)]
        if own:
            from_cache = model.forward(own[len(tried._held) :], tried._cache, keep=1)
            fresh = model.forward(own, model.new_cache(), keep=1)
            assert float((from_cache - fresh).abs().max()) < 1e-10
            tried._cache.truncate(len(tried._held))


def test_accepted_drafts_are_not_read_twice() -> None:
    tried = tli(target(), drafter(), greedy=True)
    tokens = [*START]
    first = tried.propose(tokens, 4, LAW, Draws(0)).ids.tolist()
    tried.observe(Scored(first, 4))
    tried._sync([*tokens, *first])
    assert len(tried._held) >= len(SECOND.encode_more(PROMPT)) + 2
