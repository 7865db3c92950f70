"""Plain decoding: the reference of every other test, so it is checked against the tables alone."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from support.runs import context, run_plain, run_rounds, stamps
from support.tables import ListCache, TableModel, random_table, reference_law, settings

from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.drafters.lookup import LookupDrafter
from engine.draws import Draws, Stream
from engine.errors import NumericalError
from engine.events import EndReason, Settings
from engine.kv_cache import KVCache
from engine.sampling import Law

V = 6
P = random_table(1, V)
WARM = settings(temperature=0.8, top_k=4, repetition_penalty=1.3)


def begin(model: TableModel, given: Settings) -> tuple[PlainDecoder, Answer, ListCache]:
    cache = ListCache()
    cache.ids = [0]
    decoder = PlainDecoder(
        model.as_lm(), cast("KVCache", cache), Law(given, torch.float64), Draws(3), stamps()
    )
    return decoder, Answer([0, 1], model.text, Limits(99, 999)), cache


@pytest.mark.parametrize("given", [settings(), WARM, settings(temperature=0.0, repetition_penalty=1.3)])
def test_each_token_is_drawn_from_the_law_of_its_context(given: Settings) -> None:
    model = TableModel(P, V)
    decoder, answer, cache = begin(model, given)
    for number in range(1, 20):
        before = tuple(answer.tokens)
        step = decoder.step(answer, number)
        law = torch.tensor(reference_law(model.logits(before), before, given), dtype=torch.float64)
        drawn = Draws(3).categorical(law, len(before), Stream.TARGET)
        assert step.id == int(drawn)
        assert answer.tokens == [*before, step.id]
        assert cache.ids == list(before)
        assert (step.seq, step.number, step.cut, step.taken_back) == (number - 1, number, None, 0)
        assert step.piece.decode() == step.text == chr(ord("a") + step.id)
        assert step.verify_ms >= 0
        assert step.host_ms >= 0
    assert model.passes == 19, "one pass a token"


def test_the_ends_of_an_answer() -> None:
    model = TableModel(P, V)
    free = run_plain(model.as_lm(), [0], Limits(10, 99))
    assert (len(free.ids), free.reason) == (10, EndReason.MAX_NEW_TOKENS)
    eos = free.ids[4]
    ended = run_plain(model.as_lm(), [0], Limits(10, 99, eos_ids=frozenset({eos})))
    assert ended.outcome == (free.ids[: free.ids.index(eos) + 1], ended.text, EndReason.EOS)
    full = run_plain(model.as_lm(), [0], Limits(10, 4))
    assert full.outcome == (free.ids[:3], full.text, EndReason.CONTEXT)
    stopped = run_plain(model.as_lm(), [0], Limits(10, 99, stop=(free.text[3:6],)))
    first = free.text.index(free.text[3:6])
    assert stopped.outcome == (free.ids[: first + 1], free.text[:first], EndReason.STOP)
    assert stopped.steps[-1].taken_back == 1


@pytest.mark.parametrize("given", [settings(), settings(temperature=0.0)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_logits(given: Settings, bad: float) -> None:
    class Broken(TableModel):
        def logits(self, context: tuple[int, ...]) -> list[float]:
            return [bad, *super().logits(context)[1:]]

    decoder, answer, _ = begin(Broken(P, V), given)
    with pytest.raises(NumericalError, match="float64"):
        decoder.step(answer, 1)
    assert answer.tokens == [0, 1]


def test_it_shares_cache_and_draws_with_the_rounds() -> None:
    """Rounds, then plain steps on the same cache: the baseline of a session."""
    target = TableModel(P, V).as_lm()
    cache = target.new_cache()
    drafter = LookupDrafter(context(target))
    rounds = run_rounds(target, drafter, [0, 1, 0], Limits(20, 99), k=3, cache=cache)
    cache.truncate(2)
    assert run_plain(target, [0, 1, 0], Limits(20, 99), cache=cache).outcome == rounds.outcome


def test_older_passes_are_not_its_time() -> None:
    decoder, answer, _ = begin(TableModel(P, V), settings())
    cast("Any", decoder.target.clock)._elapsed_ns = 10**15
    assert decoder.step(answer, 1).verify_ms < 10**6
