"""Sessions whose drafter has another tokenizer: loading, refusal, text, recorded settings."""

from __future__ import annotations

import pytest
from support.sessions import ASK, configured, ids_of, loaded, of, text_of
from support.tiny import save_folder, second_tokenizer, tiny_lm, tiny_model

from engine.answer import Limits
from engine.bench.equality import compare
from engine.bench.prompts import CHAT
from engine.context import Message
from engine.drafters.base import Drafter, DrafterContext
from engine.drafters.slem import SlemDrafter
from engine.drafters.tli import TliDrafter
from engine.errors import VocabularyMismatch
from engine.events import BaselineFinished, Round, RunFinished, SegmentStarted
from engine.models.causal_lm import CausalLM
from engine.models.check_pair import why_not_a_pair
from engine.session import Session

METHODS = ("slem", "tli")
ROUNDING = 1e-3
"""Passes of different widths differ by less, in logits."""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model with another tokenizer than ``target`` has."""
    model = tiny_model("llama", 3, vocab_size=352)
    return str(save_folder(tmp_path_factory.mktemp("other"), model, second_tokenizer()))


@pytest.fixture(params=METHODS)
def session(request: pytest.FixtureRequest, target: str, other: str) -> Session:
    return loaded(configured(target, other, draft={"method": request.param}))


def test_the_text_is_that_of_plain_decoding(session: Session) -> None:
    events = list(session.generate(ASK))
    plain = of(BaselineFinished, list(session.baseline()))
    assert plain.identical is True
    assert plain.ids == tuple(ids_of(events))
    assert sum(len(event.drafts) for event in events if isinstance(event, Round)) > 0
    assert of(SegmentStarted, events).settings.drafter == session.config.draft.method


def test_each_model_keeps_its_tokenizer(session: Session) -> None:
    drafter = session.pair.drafter
    assert drafter.context.model is not None
    assert drafter.context.model.text.vocab_size == 352
    assert session.pair.target.text.vocab_size == 384
    assert drafter.context.common_ids == 0


def test_another_answer_and_an_edited_one(session: Session) -> None:
    """The caches follow from one conversation to the next."""
    first = list(session.generate(ASK))
    list(session.generate((Message("user", "Who took the bridge?"),)))
    again = list(session.generate(ASK))
    assert ids_of(again) == ids_of(first)
    assert text_of(again) == text_of(first)
    assert of(RunFinished, again).tokens == of(RunFinished, first).tokens


@pytest.mark.parametrize("method", METHODS)
def test_the_same_tokenizer_is_fine_too(method: str, target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, draft={"method": method}))
    events = list(session.generate(ASK))
    assert sum(len(event.drafts) for event in events if isinstance(event, Round)) > 0
    assert of(BaselineFinished, list(session.baseline())).identical is True


def test_a_method_of_one_vocabulary_names_the_other_way(target: str, other: str) -> None:
    with pytest.raises(VocabularyMismatch) as raised:
        loaded(configured(target, other))
    assert raised.value.hint is not None and 'draft.method = "slem"' in raised.value.hint
    reason = why_not_a_pair(target, other)
    assert reason == raised.value.message
    assert why_not_a_pair(target, target) is None


@pytest.mark.parametrize("kind", [SlemDrafter, TliDrafter])
def test_the_built_in_model_with_a_tiny_drafter(kind: type[Drafter], builtin_lm: CausalLM) -> None:
    """Random drafts in another vocabulary: what is accepted and what is refused leaves the text alone."""
    from support.runs import run_plain, run_rounds

    own = tiny_lm("llama", model=tiny_model("llama", 3, vocab_size=352), tokenizer=second_tokenizer())
    prompt = builtin_lm.text.encode_chat(CHAT[0].messages, None)
    made, limits = kind(DrafterContext(builtin_lm, own, 0, greedy=False)), Limits(24, 8192)
    run = run_rounds(builtin_lm, made, prompt, limits, k=4)
    plain = run_plain(builtin_lm, prompt, limits)
    assert sum(r.rejected for r in run.rounds) > 0
    found = compare(builtin_lm, prompt, plain.ids, run.ids, 4)
    assert found.change < ROUNDING
    assert found.same or found.tied, f"{found}: the texts part, and no tie explains it"
