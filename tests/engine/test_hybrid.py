"""Lookup and model in one drafter: who guesses when, and that the model's cache stays true."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from support.runs import (
    GREEDY,
    Run,
    context,
    double_lm,
    in_words,
    noisy_in_other_words,
    run_plain,
    run_rounds,
)
from support.sessions import ASK, configured, ids_of, loaded, of
from support.tables import settings
from support.tiny import ATTENTION_KINDS

from engine.answer import Limits
from engine.config_tables import DraftConfig
from engine.drafters.base import DrafterContext, Scored
from engine.drafters.hybrid import MIN_MATCH, HybridDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.tli import TliDrafter
from engine.draws import Draws
from engine.events import Round, SegmentStarted
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.recheck_models import ModelRecheck
from engine.sampling import Law
from engine.session import Session
from engine.verify import Block, Match, Rule, SeedExact, SpeculativeSampling

PROMPT = [40, 41, 42, 43, 90, 91, 40, 41, 42, 60, 61, 62, 63, 64, 40, 41]
LIMITS = Limits(40, 512)
EXACT = 1e-10
SAMPLED = settings(temperature=1.0, top_k=3)


def hybrid(target: CausalLM, model: CausalLM, **options: object) -> HybridDrafter:
    draft = DraftConfig.model_validate({"method": "hybrid", "model_name": "m", **options})
    return HybridDrafter(DrafterContext(target, model, target.vocab_size, greedy=False, options=draft))


def sources(run: Run) -> list[str]:
    return [round_.source for round_ in run.rounds if round_.drafts]


def check_cache(tried: HybridDrafter, tokens: list[int]) -> None:
    """What the model's cache holds of these tokens is what a fresh pass over them says."""
    inner: ModelDrafter = tried._model
    length = inner._sync(tokens)
    assert inner._held == tokens[:length]
    from_cache = inner._model.forward(tokens[length:], inner._cache, keep=1)
    fresh = inner._model.forward(tokens, inner._model.new_cache(), keep=1)
    assert float((from_cache - fresh).abs().max()) < EXACT
    inner._held = list(tokens)


@pytest.mark.parametrize("k", [1, 4, 8])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_greedy_equality_and_a_true_cache(kind: str, k: int) -> None:
    """Both sources guess, in turn, and are right and wrong; after an edit the cache is still true."""
    target, model = double_lm(kind), double_lm(kind, 0.1)
    tried = hybrid(target, model, min_match=1)
    run = run_rounds(target, tried, PROMPT, LIMITS, k=k)
    assert run.outcome == run_plain(target, PROMPT, LIMITS).outcome
    assert set(sources(run)) == {"lookup", "model"}
    assert all(draft.q == 1 for r in run.rounds if r.source == "lookup" for draft in r.drafts)
    tokens = run.answer.tokens
    for text in (tokens, [*tokens[:25], 77, 78], tokens[:9], tokens):
        check_cache(tried, text)


def test_a_draft_does_not_depend_on_who_guessed_before() -> None:
    """Whatever was accepted, and however the text went on: the draft and its laws are a new drafter's."""
    target, model = double_lm("llama"), double_lm("llama", 0.1)
    law, draws, seen = Law(SAMPLED, torch.float64), Draws(0), list[str]()
    tried, tokens = hybrid(target, model, min_match=3), [*PROMPT, *PROMPT[:5]]
    list(tried.prefill(tokens))
    for number in range(16):
        draft = tried.propose(tokens, 4, law, draws)
        fresh = hybrid(target, model, min_match=3).propose(tokens, 4, law, draws)
        assert (draft.ids.tolist(), draft.source, draft.reason) == (
            fresh.ids.tolist(),
            fresh.source,
            fresh.reason,
        )
        if draft.q is not None and fresh.q is not None:
            assert float((draft.q - fresh.q).abs().max()) < EXACT
        assert (draft.q is None) == (fresh.q is None) == (draft.source == "lookup")
        seen.append(draft.source)
        drafts = draft.ids.tolist()
        n_accepted = number % (len(drafts) + 1)
        tried.observe(Scored(drafts, n_accepted))
        # Now and then the text goes on as it did before: then there is a match.
        tokens = [*tokens, *drafts[:n_accepted], 300 + number, *(PROMPT[:4] if number % 3 == 0 else ())]
    assert {("lookup", "model"), ("model", "lookup"), ("model", "model")} <= set(pairwise(seen))


@pytest.mark.parametrize(
    "rule", [SpeculativeSampling(), Block(), Match(), SeedExact()], ids=lambda r: type(r).__name__
)
def test_sampling_by_both_sources(rule: Rule) -> None:
    """The model reports the laws it drew from, a copy is certain; by a seed, the text is plain decoding's."""
    target, model = double_lm("qwen3"), double_lm("qwen3", 0.1)
    tried = hybrid(target, model, min_match=1)
    draws = rule.draws(5)
    run = run_rounds(target, tried, PROMPT, LIMITS, k=4, given=SAMPLED, rule=rule, draws=draws)
    by_source = {
        source: [draft for r in run.rounds if r.source == source for draft in r.drafts]
        for source in ("lookup", "model")
    }
    assert by_source["lookup"]
    assert all(draft.q == 1 and not draft.q_top for draft in by_source["lookup"])
    assert any(draft.q < 1 for draft in by_source["model"])
    assert all(draft.q_top for draft in by_source["model"])
    if isinstance(rule, Match | SeedExact):
        plain = run_plain(target, PROMPT, LIMITS, given=SAMPLED, draws=rule.draws(5))
        assert run.ids == plain.ids


def test_a_short_match_is_left_to_the_model() -> None:
    target = double_lm("llama")
    law, draws = Law(GREEDY, torch.float64), Draws(0)
    tried = hybrid(target, double_lm("llama", 0.1))
    assert tried.settings() == {"min_match": MIN_MATCH, "history": False}
    text = list(range(50, 70))
    for length in range(1, MIN_MATCH + 2):
        draft = tried.propose([*text, *text[:length]], 2, law, draws)
        assert draft.source == ("model" if length < MIN_MATCH else "lookup")
        assert (draft.ids.tolist() == text[length : length + 2]) == (length >= MIN_MATCH)


class Widths:
    """Notes how many tokens each pass of a model is fed."""

    def __init__(self, model: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: list[int] = []
        forward, extend = model.forward, model.extend

        def noting_forward(ids: list[int] | torch.Tensor, cache: KVCache, keep: int) -> torch.Tensor:
            self.noted.append(len(ids))
            return forward(ids, cache, keep)

        def noting_extend(ids: list[int], cache: KVCache) -> None:
            self.noted.append(len(ids))
            extend(ids, cache)

        monkeypatch.setattr(model, "forward", noting_forward)
        monkeypatch.setattr(model, "extend", noting_extend)

    def take(self) -> list[int]:
        taken, self.noted[:] = list(self.noted), []
        return taken


def test_what_the_model_is_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token after a rejection, two after a full accept, and all that was copied meanwhile."""
    target, model = double_lm("llama"), double_lm("llama", 0.1)
    tried, widths = hybrid(target, model, min_match=3), Widths(model, monkeypatch)
    law, draws, text = Law(GREEDY, torch.float64), Draws(0), [*range(50, 70)]
    list(tried.prefill(text))
    assert widths.take() == [19]

    def drafted(source: str, n_accepted: int, *more: int) -> list[int]:
        draft = tried.propose(text, 3, law, draws)
        drafts = draft.ids.tolist()
        assert (len(drafts), draft.source) == (3, source)
        tried.observe(Scored(drafts, n_accepted))
        text.extend([*drafts[:n_accepted], *more])
        return widths.take()

    assert drafted("model", 3, 301) == [1, 1, 1]
    assert drafted("model", 1, 302) == [2, 1, 1]
    assert drafted("model", 0, 50, 51, 52) == [1, 1, 1]
    assert drafted("lookup", 3, 303) == []
    assert drafted("model", 0, 304) == [3 + 4, 1, 1]


@pytest.mark.parametrize(("more", "fed"), [(6, [7, 1]), (30, [8, 8, 8, 6, 1, 1])])
def test_it_catches_up_after_a_long_copy(more: int, fed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """In passes no wider than a prompt is read in; a short gap goes into the pass that guesses."""
    monkeypatch.setattr("engine.prefill.CHUNK", 8)
    target, model = double_lm("gpt2"), double_lm("gpt2", 0.1)
    tried, widths = hybrid(target, model), Widths(model, monkeypatch)
    list(tried.prefill(PROMPT))
    widths.take()
    draft = tried.propose([*PROMPT, *range(100, 100 + more)], 2, Law(GREEDY, torch.float64), Draws(0))
    assert draft.source == "model"
    assert widths.take() == fed


@pytest.mark.parametrize("drafter_class", [ModelDrafter, TliDrafter])
def test_so_does_every_drafter_with_a_model(
    drafter_class: type[ModelDrafter | TliDrafter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was not asked for a while, as drafting did not pay: it guesses what it would have anyway."""
    monkeypatch.setattr("engine.prefill.CHUNK", 8)
    target, model = in_words(double_lm("gpt2")), noisy_in_other_words("gpt2")
    model = double_lm("gpt2", 0.1) if drafter_class is ModelDrafter else model
    tokens, law = [*PROMPT, *range(100, 130)], Law(GREEDY, torch.float64)
    late, early = (drafter_class(context(target, model)) for _ in range(2))
    list(late.prefill(PROMPT))
    list(early.prefill(tokens))
    widths = Widths(model, monkeypatch)
    draft = late.propose(tokens, 2, law, Draws(0))
    assert max(widths.take()) == 8
    assert draft.ids.tolist() == early.propose(tokens, 2, law, Draws(0)).ids.tolist() != []


def test_the_end_of_the_model_s_context_is_not_the_end_of_drafting() -> None:
    target, model = double_lm("llama"), double_lm("llama", 0.1)
    tried = hybrid(target, model)
    law, draws = Law(GREEDY, torch.float64), Draws(0)
    tokens = [*range(100, 200)] * 6
    assert len(tokens) > model.context_length
    assert list(tried.prefill(tokens)) == []
    assert tried.propose(tokens, 3, law, draws).source == "lookup"
    draft = tried.propose([*tokens, 7], 3, law, draws)
    assert (len(draft.ids), draft.source, draft.reason) == (0, "", "no match; drafter context full")


def test_it_is_timed_and_named_as_its_model() -> None:
    target, model = double_lm("llama"), double_lm("llama", 0.1)
    tried = hybrid(target, model)
    assert tried.model_info == model.info
    assert tried.prefill_cost(PROMPT) == len(PROMPT) - 1
    tried.reserve(300)
    assert tried._model._cache.reserved == 300
    list(tried.prefill(PROMPT))
    tried.take_ms()
    tried._lookup._ns, model.clock._elapsed_ns = 2_000_000, 3_000_000
    assert tried.take_ms() == 5.0
    tried.forget()
    assert (len(tried._model._cache), tried._model._held) == (0, [])
    assert tried.prefill_cost(PROMPT) == len(PROMPT) - 1


@pytest.mark.usefixtures("one_thread", "own_cache")
def test_a_session(target: str, drafter: str) -> None:
    """What it says of itself, its text, earlier answers, and a recording repeated."""
    draft = {"method": "hybrid", "history": True, "min_match": 2}
    session = loaded(configured(target, drafter, draft=draft))
    events = list(session.generate(ASK))
    told = of(SegmentStarted, events).settings
    assert (told.drafter, told.min_match, told.history) == ("hybrid", 2, True)
    assert ids_of(events) == ids_of(list(loaded(configured(target)).generate(ASK)))
    assert "model" in {event.source for event in events if isinstance(event, Round)}
    again = list(session.generate(ASK))
    known = max(event.context_length for event in events if isinstance(event, Round) and event.drafts)
    copied = [event for event in again if isinstance(event, Round) and event.context_length < known]
    assert {event.source for event in copied} == {"lookup"}, "as far as the first answer was drafted for"
    with session.pair.drafter.aside():
        aside = [event for event in session.generate(ASK) if isinstance(event, Round)]
    assert len(aside) == sum(isinstance(event, Round) for event in events)
    recheck = ModelRecheck(session.header(), Session)
    session.close()
    recheck.load()
    assert list(recheck.run([*events, *again])) == []
    assert recheck.result.identical == recheck.result.rounds > 0
    recheck.close()
