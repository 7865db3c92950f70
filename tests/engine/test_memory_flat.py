"""Memory does not grow with the rounds and turns of a session; a single answer costs what its tokens do."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from support.footprint import Footprint
from support.sessions import ASK, configured, loaded
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.context import Message
from engine.events import Round
from engine.session import Session

SAMPLED = {"temperature": 1.0, "seed": 3}
KINDS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "lookup": {"draft": {"method": "lookup"}},
    "model": {"draft": {"method": "model"}, "sampling": SAMPLED},
    "hybrid": {
        "draft": {"method": "hybrid", "min_match": 2},
        "sampling": SAMPLED,
        "verify": {"verify_strategy": "seed_exact"},  # which keeps the noise of positions
    },
}
CYCLE = 5
"""Turns after which the same conversation begins again, so that equal states are compared."""
MB = 1 << 20

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@dataclass
class Chat:
    """A conversation that is held again and again, and edited on the way."""

    session: Session
    turns: int = 0
    rounds: int = 0

    def cycle(self) -> None:
        """CYCLE turns: two exchanges are remembered, the fourth question comes after an edit."""
        messages: list[Message] = []
        for turn in range(CYCLE):
            messages = [Message("user", "Something else."), *messages[1:2]] if turn == 3 else messages[-4:]
            messages.append(Message("user", f"Question {turn}: why did the knight stop?"))
            messages.append(Message("assistant", self._answer(messages)))
        for _ in self.session.baseline():
            pass

    def _answer(self, messages: list[Message]) -> str:
        text = ""
        self.turns += 1
        for event in self.session.generate(messages):
            if isinstance(event, Round):
                self.rounds += 1
                text += event.text
        return text


def chat(kind: str, target: str, drafter: str, length: int) -> Chat:
    tables = {name: dict(table) for name, table in KINDS[kind].items()}
    if kind != "lookup":
        tables["draft"]["model_name"] = drafter
    return Chat(loaded(configured(target, None, **tables, run={"max_new_tokens": length})))


def grown(chat: Chat, rounds: int) -> tuple[Footprint, Footprint, int]:
    """The footprints before and after at least this many rounds, and how many they were."""
    before, start = Footprint.now(), chat.rounds
    while chat.rounds - start < rounds:
        chat.cycle()
    return before, Footprint.now(), chat.rounds - start


@pytest.mark.parametrize("kind", KINDS)
def test_turns_leave_nothing_behind(kind: str, target: str, drafter: str) -> None:
    talk = chat(kind, target, drafter, length=9)
    talk.cycle()
    before, after, rounds = grown(talk, 40)
    assert (after.tensors, after.tensor_bytes) == (before.tensors, before.tensor_bytes)
    # Tables of other libraries still fill: up to 6 a round. One that is kept makes 70 objects and more.
    assert after.blocks - before.blocks < 20 * rounds


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_rounds_of_many_turns(kind: str, target: str, drafter: str) -> None:
    talk = chat(kind, target, drafter, length=64)
    grown(talk, 1500)
    before, after, rounds = grown(talk, 10_000)
    assert talk.turns >= 50
    assert (after.tensors, after.tensor_bytes) == (before.tensors, before.tensor_bytes)
    assert after.blocks - before.blocks < rounds / 20
    assert after.resident - before.resident < 8 * MB


@pytest.mark.soak
def test_ten_thousand_rounds_of_one_answer(tmp_path: Path) -> None:
    """What grows is the cache, and a few numbers for each token; the noise of positions goes again."""
    model = tiny_model("llama", max_position_embeddings=24_000)
    target = str(save_folder(tmp_path / "target", model, tiny_tokenizer()))
    drafter = str(save_folder(tmp_path / "drafter", noisy_copy(model, 1.0), tiny_tokenizer()))
    draft = {"method": "model", "model_name": drafter, "num_draft_tokens": 1}
    run = {"max_new_tokens": 23_000, "rounds": 10_500}
    rule = {"verify_strategy": "seed_exact"}
    session = loaded(configured(target, draft=draft, verify=rule, sampling=SAMPLED, run=run))
    caches = (session.pair.cache, session.pair.drafter._cache)  # type: ignore[attr-defined]

    found: dict[int, tuple[Footprint, int, int]] = {}
    for event in session.generate(ASK):
        if isinstance(event, Round) and event.number in {500, 10_500}:
            held = sum(cache.nbytes for cache in caches)
            found[event.number] = (Footprint.now(), held, event.context_length)
    (before, less, short), (after, more, long) = found[500], found[10_500]
    assert after.tensors == before.tensors
    assert after.tensor_bytes - before.tensor_bytes == more - less
    assert after.blocks - before.blocks < 8 * (long - short)
    # A cache that grows is copied, and the allocator keeps the smaller ones for other things.
    assert after.resident - before.resident < 3 * (more - less) + 16 * MB


def test_weights_go_when_they_are_ejected(target: str, drafter: str) -> None:
    """At once, not at the next search for garbage: loading the next ones allows none."""
    session = loaded(configured(target, drafter))
    for _ in session.generate(ASK):
        pass
    models = session.pair.models().values()
    weights = [weakref.ref(weight) for lm in models for weight in lm.model.parameters()]
    del models
    gc.collect()
    gc.disable()
    try:
        session.eject()
        assert [each for each in weights if each() is not None] == []
    finally:
        gc.enable()


def test_a_footprint_sees_what_is_kept() -> None:
    tensor = torch.zeros(MB)
    before = Footprint.now()
    more = [tensor.clone(), tensor[:5]]  # a view has no memory of its own
    numbers = [float(number) for number in range(5000)]
    after = Footprint.now()
    assert after.tensors - before.tensors == len(more)
    assert after.tensor_bytes - before.tensor_bytes == tensor.nbytes
    assert after.blocks - before.blocks == pytest.approx(len(numbers), abs=200)
