"""The drafter with another tokenizer: the text stays that of plain decoding, and drafts do stand."""

from __future__ import annotations

from typing import Any, cast

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from support.knowing import PROMPT, SECOND, STORY, TINY, Knowing, drafter, spelled, target
from support.runs import double_lm, run_plain, run_rounds
from support.tables import settings
from support.tiny import metaspace_tokenizer, tiny_lm, tiny_model, wordpiece_tokenizer
from torch import Tensor

from engine.answer import Limits
from engine.drafters.base import DrafterContext, Scored
from engine.drafters.slem import SlemDrafter
from engine.draws import Draws
from engine.errors import NumericalError
from engine.events import Settings
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.sampling import Law
from engine.verify import Block, GreedyMatch, Match, Rule, SeedExact, SpeculativeSampling

START = TINY.encode_more(PROMPT)
FOREVER = Limits(48, 512)
TO_THE_END = Limits(300, 512, eos_ids=frozenset({2}))
OTHERS = {"second": SECOND.tokenizer, "metaspace": metaspace_tokenizer(), "wordpiece": wordpiece_tokenizer()}
LAW = Law(settings(temperature=0.0), torch.float64)


def other(name: str) -> CausalLM:
    """A random model in float64 with a tokenizer of its own."""
    tokenizer = OTHERS[name]
    return tiny_lm(
        "llama", model=tiny_model("llama", 3, vocab_size=len(tokenizer)).double(), tokenizer=tokenizer
    )


def slem(target_lm: CausalLM, model: Any, *, greedy: bool = False) -> SlemDrafter:
    return SlemDrafter(DrafterContext(target_lm, model, 0, greedy))


def knowing(**options: Any) -> SlemDrafter:
    return slem(target(), drafter(**options))


# -- the text


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("name", OTHERS)
def test_greedy_text_is_that_of_plain_decoding(name: str, k: int) -> None:
    """Random models: what they write makes no words, nor even whole characters."""
    lm = double_lm("llama")
    run = run_rounds(lm, slem(lm, other(name)), START, FOREVER, k=k, rule=GreedyMatch())
    assert run.outcome == run_plain(lm, START, FOREVER).outcome
    assert sum(len(r.drafts) for r in run.rounds) > 0


@pytest.mark.parametrize("penalty", [1.0, 1.5])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rule", [Match, SeedExact])
def test_sampled_text_is_that_of_plain_decoding(rule: type[Match], seed: int, penalty: float) -> None:
    given, draws = settings(repetition_penalty=penalty), rule.draws(seed)
    lm = target(sure=0.5)
    run = run_rounds(lm, slem(lm, drafter()), START, FOREVER, k=4, given=given, rule=rule(), draws=draws)
    plain = run_plain(lm, START, FOREVER, given=given, draws=rule.draws(seed))
    assert run.outcome == plain.outcome
    assert sum(r.accepted for r in run.rounds) > 0
    assert sum(r.rejected for r in run.rounds) > 0


@pytest.mark.parametrize("rule", [GreedyMatch, SpeculativeSampling, Block, Match])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_a_drafter_that_knows_the_text_is_believed(rule: type[Rule], k: int) -> None:
    """Both know the story, each in its own tokens; characters of several bytes, in several tokens, too."""
    lm = target()
    run = run_rounds(lm, slem(lm, drafter()), START, TO_THE_END, k=k, rule=rule())
    assert PROMPT + run.text == STORY
    drafted, accepted = (sum(getattr(r, what) for r in run.rounds) for what in ("drafted", "accepted"))
    assert accepted > (0.4 if k == 1 else 0.7) * drafted > 0
    assert all(draft.q == 1 and not draft.q_top for r in run.rounds for draft in r.drafts)


@pytest.mark.parametrize("stop", ["castle", "caf\u00e9", "\U0001f600 and", "knight stop?", "."])
def test_stop_strings(stop: str) -> None:
    limits = Limits(300, 512, stop=(stop, "never there"))
    lm = target()
    run = run_rounds(lm, slem(lm, drafter()), START, limits, k=5)
    assert run.outcome == run_plain(lm, START, limits).outcome


def test_the_end_of_the_drafters_text_is_no_guess() -> None:
    """It stops at its own end-of-text token, whatever the target has under that name."""
    tried = knowing(story=PROMPT + " rode", last=2)
    draft = tried.propose(START, 8, LAW, Draws(0))
    assert spelled(TINY, draft.ids.tolist()) == b" rode"
    tokens = [*START, *draft.ids.tolist()]
    draft = tried.propose(tokens, 8, LAW, Draws(0))
    assert (len(draft.ids), draft.reason) == (0, "no whole token was drafted")


@pytest.mark.parametrize(("looks", "passes"), [(True, 6), (False, 8)])
def test_it_stops_where_a_look_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, looks: bool, passes: int
) -> None:
    """A GPU drafts to the end and is read once; the draft is the same."""
    monkeypatch.setattr("engine.drafters.slem.may_count", lambda device: looks)
    tried = knowing(story=PROMPT + " rode", last=2)
    forward, calls = tried._model.forward, list[int]()

    def counted(ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        calls.append(len(ids))
        return forward(ids, cache, keep)

    monkeypatch.setattr(tried._model, "forward", counted)
    draft = tried.propose(START, 8, LAW, Draws(0))
    assert spelled(TINY, draft.ids.tolist()) == b" rode"
    assert len(calls) == passes
    assert len(tried._held) == len(tried._cache)
    again = tried.propose(START, 8, LAW, Draws(0))
    assert again.ids.tolist() == draft.ids.tolist(), "what the cache holds behind the draft is known"


def test_no_more_than_asked_for() -> None:
    """One token of its own may be several of the target's."""
    lm = target()
    tried = slem(lm, Knowing(SECOND, lambda _: SECOND.tokenizer.convert_tokens_to_ids("WHER")))
    assert len(TINY.encode_more("WHER")) > 1
    assert len(tried.propose(START, 1, LAW, Draws(0)).ids) == 1


def test_ids_that_the_target_has_no_row_for() -> None:
    lm = target()
    lm.vocab_size = min(TINY.encode_more(" rode out"))
    draft = slem(lm, drafter()).propose(START, 8, LAW, Draws(0))
    assert len(draft.ids) == 0


# -- how it draws


def test_random_and_greedy_drafting() -> None:
    """Drawn with the run's own chance, or the likeliest; a certain guess either way."""
    law, model = Law(settings(temperature=3.0), torch.float64), drafter()
    drawn = [slem(target(), model).propose(START, 4, law, Draws(seed)) for seed in (1, 1, 2)]
    assert drawn[0].ids.tolist() == drawn[1].ids.tolist() != drawn[2].ids.tolist()
    likeliest = slem(target(), model, greedy=True).propose(START, 4, law, Draws(1))
    assert spelled(TINY, likeliest.ids.tolist()) in STORY.encode()
    assert drawn[0].q is drawn[0].top is likeliest.q is likeliest.top is None


@pytest.mark.parametrize(
    "given", [settings(temperature=0.0, repetition_penalty=1.7), settings(top_k=5, repetition_penalty=1.7)]
)
def test_processors_read_its_own_ids(given: Settings) -> None:
    """The penalty falls on own ids, the drafts before included: checked by one law after another."""
    law, model, draws = Law(given, torch.float64), other("second"), Draws(4)
    tried = slem(double_lm("llama"), model)
    own = list(tried._sync(START))
    written = tried._write(own, 4, law, draws, len(START))
    for index, id_ in enumerate(written):
        before = [*own, *written[:index]]
        scores = law.process(model.forward(before, model.new_cache(), keep=1), before)
        drawn = (
            scores[0].argmax() if law.greedy else draws.draft(law.probabilities(scores)[0], len(START), index)
        )
        assert id_ == int(drawn)


def test_what_it_has_just_drafted_counts_as_text() -> None:
    """A little likelier than the others, until the penalty for having been written once."""
    law = Law(settings(temperature=0.0, repetition_penalty=1.7), torch.float64)
    (favourite,) = SECOND.encode_more("q")
    tried = slem(target(), Knowing(SECOND, lambda _: favourite, sure=0.02))
    written = tried._write(tried._sync(START), 4, law, Draws(0), len(START))
    assert written.count(favourite) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_logits_are_the_drafters_fault(bad: float) -> None:
    model = drafter()
    tried = slem(target(), model)
    tried.propose(START, 2, LAW, Draws(0))
    sound = model.forward

    def broken(ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        logits = sound(ids, cache, keep)
        logits[0, -1] = bad
        return logits

    model.forward = broken  # type: ignore[method-assign]
    with pytest.raises(NumericalError, match=r"the drafter's logits are not finite .* in float64"):
        tried.propose([*START, 40], 2, LAW, Draws(0))
    model.forward = sound  # type: ignore[method-assign]
    fresh = knowing().propose([*START, 40], 2, LAW, Draws(0))
    assert tried.propose([*START, 40], 2, LAW, Draws(0)).ids.tolist() == fresh.ids.tolist()


# -- its cache


@hypothesis.given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, 383), max_size=5), st.integers(1, 4)),
        max_size=4,
    )
)
@hypothesis.settings(max_examples=30)
def test_the_past_does_not_matter(changes: list[tuple[int, list[int], int]]) -> None:
    """Whatever it drafted before, its cache is that of the own ids it now reads."""
    model = other("second")
    tried, tokens = slem(double_lm("llama"), model), [*START]
    for keep, more, k in changes:
        tokens = [*tokens[: max(1, keep)], *more]
        draft = tried.propose(tokens, k, LAW, Draws(5))
        tried.observe(Scored(draft.ids.tolist(), 0))
        tokens += draft.ids.tolist()[: len(more) % 3]
        own = tried._sync(tokens)
        assert tried._held == own[: len(tried._cache)]
        if own:
            from_cache = model.forward(own[len(tried._held) :], tried._cache, keep=1)
            fresh = model.forward(own, model.new_cache(), keep=1)
            assert float((from_cache - fresh).abs().max()) < 1e-10
            tried._cache.truncate(len(tried._held))


def test_what_it_feeds() -> None:
    """The prompt once; then no more own ids than the target's token and the last draft make."""
    model = drafter()
    tried = slem(target(), model)
    assert tried.prefill_cost(START) == len(SECOND.encode_more(PROMPT)) - 1
    assert list(tried.prefill(START)) == [len(SECOND.encode_more(PROMPT)) - 1]
    ids, tokens, fed = TINY.encode_more(STORY), list(START), []
    while len(tokens) < len(ids) - 9:
        before = len(tried._cache)
        draft = tried.propose(tokens, 3, LAW, Draws(0)).ids.tolist()
        fed.append(len(tried._cache) - before)
        tokens = ids[: len(tokens) + len(draft) + 1]
    assert max(fed) < 3 + 12, "a round feeds its drafts and a few words"


def test_prefill_shows_progress_and_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.prefill.CHUNK", 8)
    tried, tokens = knowing(), TINY.encode_more(STORY)
    cost = tried.prefill_cost(tokens)
    assert next(tried.prefill(tokens)) == 8
    assert tried.prefill_cost(tokens) == cost - 8
    assert list(tried.prefill(tokens))[-1] == cost - 8
    assert tried.prefill_cost(tokens) == 0
    tried.forget()
    assert tried.prefill_cost(tokens) == cost


@pytest.mark.parametrize(("room", "most"), [(-1, 0), (0, 0), (1, 1), (2, 2), (9, 4)])
def test_its_context_ends(room: int, most: int) -> None:
    """Counted in its own tokens."""
    own = len(SECOND.encode_more(PROMPT))
    model = drafter()
    model.context_length = own + room
    tried = slem(target(), model)
    assert tried.prefill_cost(START) == (own - 1 if room > 0 else 0)
    assert list(tried.prefill(START)) == ([own - 1] if room > 0 else [])
    draft = tried.propose(START, 4, LAW, Draws(0))
    assert len(tried._cache) <= own + room
    assert (len(draft.ids) > 0) == (most > 0)
    if room < 1:
        assert draft.reason == "drafter context full"
    run = run_rounds(target(), tried, START, TO_THE_END, k=4)
    assert PROMPT + run.text == STORY


def test_an_id_it_has_no_row_for() -> None:
    model, unknown = drafter(), max(SECOND.encode_more(PROMPT))
    model.vocab_size = unknown
    tried = slem(target(), model)
    draft = tried.propose(START, 3, LAW, Draws(0))
    assert (len(draft.ids), draft.reason) == (0, f"the drafter has no token {unknown}")
    assert tried.prefill_cost(START) == 0
    assert list(tried.prefill(START)) == []


def test_no_text_to_read() -> None:
    """Nothing but control tokens that the drafter has no name for."""
    model = other("metaspace")
    draft = slem(target(), model).propose([0, 1], 3, LAW, Draws(0))
    assert (len(draft.ids), draft.reason) == (0, "no text that could be read")
    assert slem(target(), model).prefill_cost([0, 1]) == 0


def test_the_models_keep_their_tokenizers() -> None:
    lm, model = target(), drafter()
    run_rounds(lm, slem(lm, model), START, FOREVER, k=4)
    assert (lm.text, cast("Any", model).text) == (TINY, SECOND)


def test_it_names_its_model_and_counts_its_time() -> None:
    tried = knowing()
    assert tried.model_info is not None
    assert tried.model_info.name == "table"
    tried._model.clock._elapsed_ns = 3_000_000
    assert tried.take_ms() == 3.0
    assert tried.take_ms() == 0.0
