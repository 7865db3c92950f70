"""The ways of decoding that are measured, as functions of a prompt and a number of tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.bench import peers
from engine.bench.clock import CommitClock, Timed
from engine.config_tables import DraftConfig
from engine.drafters.base import Drafter, DrafterContext
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.synthetic import SyntheticDrafter
from engine.draws import Draws
from engine.events import Round, Settings
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.prefill import prefill
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import GreedyMatch

GREEDY = Settings(
    drafter="",
    sample_strategy="greedy",
    num_draft_tokens=0,
    verify_strategy="greedy_match",
    temperature=0.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    seed=0,
)
"""Only the processors are read: everything measured here is greedy."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of decoding."""

    name: str
    decode: Callable[[Sequence[int], int], Timed]
    """Takes the prompt's ids and the number of tokens to write; EOS is ignored."""


def plain(target: CausalLM) -> Arm:
    """This engine, one token a pass."""

    def decode(prompt: Sequence[int], tokens: int) -> Timed:
        answer, cache = _begin(target, prompt, tokens, 0)
        decoder = PlainDecoder(target, cache, Law(GREEDY), Draws(0), stamps())
        clock = CommitClock()
        for number in range(1, tokens + 1):
            decoder.step(answer, number)
            clock.commit(1)
        return Timed(tuple(answer.new_tokens), clock.ms_per_token)

    return Arm("plain", decode)


def lookup(target: CausalLM, k: int) -> Arm:
    """This engine with the lookup drafter."""
    return _speculative(
        "lookup", target, k, LookupDrafter(DrafterContext(target, None, target.vocab_size, True))
    )


def drafted(target: CausalLM, model: CausalLM, k: int) -> Arm:
    """This engine with a model that drafts."""
    common_ids = min(target.vocab_size, model.vocab_size)
    return _speculative("drafter", target, k, ModelDrafter(DrafterContext(target, model, common_ids, True)))


def synthetic(target: CausalLM, k: int, known: Sequence[int]) -> Arm:
    """This engine with drafts that cost nothing and are right as often as the method's default says.

    Args:
        known: the prompt and what plain decoding writes after it.
    """
    options = DraftConfig(method="synthetic")
    drafter = SyntheticDrafter(DrafterContext(target, None, target.vocab_size, True, options))
    drafter.foretell(known)
    return _speculative("synthetic", target, k, drafter)


def _speculative(name: str, target: CausalLM, k: int, drafter: Drafter) -> Arm:
    def decode(prompt: Sequence[int], tokens: int) -> Timed:
        answer, cache = _begin(target, prompt, tokens, k)
        drafter.reserve(len(prompt) + tokens + k)
        for _ in drafter.prefill(list(prompt)):
            pass
        speculator = Speculator(
            target=target,
            cache=cache,
            drafter=drafter,
            rule=GreedyMatch(),
            law=Law(GREEDY),
            draws=Draws(0),
            chooser=FixedLength(k),
            settings_id=1,
            stamp=stamps(),
        )
        clock = CommitClock()
        rounds: list[Round] = []
        while answer.budget > 0:
            rounds.append(speculator.round(answer, len(rounds) + 1))
            clock.commit(len(rounds[-1].tokens))
        return Timed(tuple(answer.new_tokens), clock.ms_per_token, tuple(rounds))

    return Arm(name, decode)


# transformers' own loops call the model's own forward pass: they take models that nothing was packed of.


def transformers_plain(target: CausalLM) -> Arm:
    """transformers' ``generate`` on the same weights."""
    return Arm("transformers", lambda prompt, tokens: peers.generate(target.model, prompt, tokens))


def transformers_lookup(target: CausalLM, k: int) -> Arm:
    """transformers' prompt lookup on the same weights."""
    return Arm(
        f"transformers' lookup with K = {k}",
        lambda prompt, tokens: peers.generate(target.model, prompt, tokens, lookup=k),
    )


def transformers_assisted(target: CausalLM, model: CausalLM, k: int | None) -> Arm:
    """transformers' assisted generation on the same weights; by its defaults if K is None."""
    name = "transformers by its defaults" if k is None else f"transformers with K = {k}"
    return Arm(
        name,
        lambda prompt, tokens: peers.generate(target.model, prompt, tokens, assistant=model.model, k=k),
    )


def _begin(target: CausalLM, prompt: Sequence[int], tokens: int, k: int) -> tuple[Answer, KVCache]:
    """An answer whose prompt is in the cache."""
    cache = target.new_cache()
    cache.reserve(len(prompt) + tokens + k)
    for _ in prefill(target, cache, list(prompt)):
        pass
    return Answer(prompt, target.text, Limits(tokens, target.context_length)), cache


def stamps() -> Callable[[], tuple[int, int]]:
    """Gives each event its ``seq`` and ``t_ns``; nobody reads them here."""
    count = itertools.count()
    return lambda: (next(count), 0)
