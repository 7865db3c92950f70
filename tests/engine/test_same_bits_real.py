"""The built-in model in bfloat16: where the processor allows it, rounds are plain decoding bit by bit."""

from __future__ import annotations

from typing import Any

import pytest
from support.sessions import configured, loaded, of

from engine.bench.prompts import CHAT, COPY, Prompt
from engine.events import BaselineFinished, Round
from engine.models.devices import fast_bfloat16
from engine.session import Session

TOKENS = 32
FOLLOWING = {"verify": {"verify_strategy": "seed_exact"}, "sampling": {"temperature": 0.8, "seed": 3}}


@pytest.fixture(scope="module")
def session() -> Session:
    run = {"dtype": "bfloat16", "max_new_tokens": TOKENS}
    return loaded(configured("builtin:smollm2-135m", draft={"num_draft_tokens": 8}, run=run))


@pytest.mark.parametrize("tables", [{}, FOLLOWING], ids=["greedy", "seed_exact"])
@pytest.mark.parametrize("prompt", [COPY[0], CHAT[0]], ids=lambda prompt: prompt.name)
def test_the_text_is_that_of_plain_decoding(session: Session, prompt: Prompt, tables: dict[str, Any]) -> None:
    run = {"dtype": "bfloat16", "max_new_tokens": TOKENS}
    draft = {"num_draft_tokens": 8}
    session.change(configured("builtin:smollm2-135m", draft=draft, run=run, **tables))
    rounds = [event for event in session.generate(prompt.messages) if isinstance(event, Round)]
    assert any(len(event.drafts) > 1 for event in rounds), "passes of several rows"
    finished = of(BaselineFinished, list(session.baseline()))
    if session.pair.same_bits:
        assert finished.identical is True
    assert finished.identical or (finished.divergence is not None and finished.divergence.is_tie)


def test_amx_gives_the_same_bits(session: Session) -> None:
    assert session.pair.same_bits is not None
    assert session.pair.same_bits or fast_bfloat16() != "AMX"
