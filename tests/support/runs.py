"""Whole answers by the shipped round and the shipped plain step; drafters that force what should happen."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import torch
from support.tables import Letters, settings
from support.tiny import LLAMA_SHAPED, noisy_copy, static_lm, tiny_lm, tiny_model
from torch import Tensor, nn

from engine.adaptive import FixedLength, LengthChooser
from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.config_tables import DraftConfig
from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.drafters.hybrid import HybridDrafter
from engine.drafters.lookup import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.drafters.slem import SlemDrafter
from engine.drafters.synthetic import SyntheticDrafter
from engine.drafters.tli import TliDrafter
from engine.draws import Draws
from engine.events import EndReason, PlainStep, Round, Settings
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.prefill import prefill
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import Rule, SpeculativeSampling

GREEDY = settings(temperature=0.0)


@dataclass
class Run:
    """An answer and how it came about."""

    answer: Answer
    cache: KVCache
    text: str = ""
    rounds: list[Round] = field(default_factory=list)
    steps: list[PlainStep] = field(default_factory=list)

    @property
    def ids(self) -> list[int]:
        return self.answer.new_tokens

    @property
    def reason(self) -> EndReason | None:
        return (self.rounds or self.steps)[-1].cut

    @property
    def outcome(self) -> tuple[list[int], str, EndReason | None]:
        """What must not depend on the way of decoding."""
        return self.ids, self.text, self.reason


def stamps() -> Callable[[], tuple[int, int]]:
    count = itertools.count()
    return lambda: (next(count), 0)


def _begin(target: CausalLM, prompt: Sequence[int], limits: Limits, cache: KVCache | None) -> Run:
    run = Run(Answer(prompt, target.text, limits), cache or target.new_cache())
    for _ in prefill(target, run.cache, list(prompt)):
        pass
    return run


def run_rounds(
    target: CausalLM,
    drafter: Drafter,
    prompt: Sequence[int],
    limits: Limits,
    *,
    k: int,
    given: Settings = GREEDY,
    rule: Rule | None = None,
    draws: Draws | None = None,
    cache: KVCache | None = None,
    dtype: torch.dtype = torch.float64,
    chooser: LengthChooser | None = None,
) -> Run:
    """Decode by rounds until the answer ends; checks what holds after every round."""
    run = _begin(target, prompt, limits, cache)
    for _ in drafter.prefill(list(prompt)):
        pass
    speculator = Speculator(
        target=target,
        cache=run.cache,
        drafter=drafter,
        rule=rule or SpeculativeSampling(),
        law=Law(given, dtype),
        draws=draws or Draws(0),
        chooser=chooser or FixedLength(k),
        settings_id=0,
        stamp=stamps(),
    )
    while not run.rounds or run.rounds[-1].cut is None:
        happened = speculator.round(run.answer, len(run.rounds) + 1)
        run.rounds.append(happened)
        run.text += happened.text
        assert len(run.cache) == len(run.answer.tokens) - 1
    run.text += run.answer.finish(run.reason is EndReason.STOP)
    check_counts(run)
    return run


def run_plain(
    target: CausalLM,
    prompt: Sequence[int],
    limits: Limits,
    *,
    given: Settings = GREEDY,
    draws: Draws | None = None,
    cache: KVCache | None = None,
    dtype: torch.dtype = torch.float64,
) -> Run:
    """Decode token by token until the answer ends."""
    run = _begin(target, prompt, limits, cache)
    decoder = PlainDecoder(target, run.cache, Law(given, dtype), draws or Draws(0), stamps())
    while not run.steps or run.steps[-1].cut is None:
        happened = decoder.step(run.answer, len(run.steps) + 1)
        run.steps.append(happened)
        run.text += happened.text
        assert len(run.cache) == len(run.answer.tokens) - 1
    run.text += run.answer.finish(run.reason is EndReason.STOP)
    return run


def check_counts(run: Run) -> None:
    """The identities of the definitions, over a whole answer."""
    rounds = run.rounds
    emitted = sum(len(r.tokens) for r in rounds)
    accepted, drafted = sum(r.accepted for r in rounds), sum(r.drafted for r in rounds)
    cut = sum(r.was_cut for r in rounds)
    rejected = sum(r.rejected for r in rounds)
    assert emitted == accepted + len(rounds) - cut
    assert emitted - sum(r.taken_back for r in rounds) == len(run.ids)
    assert cut <= 1
    assert all(r.cut is None for r in rounds[:-1])
    # r_i: the first i drafts were kept. tau = 1 + sum of r_i - cut rounds / rounds.
    longest = max((len(r.drafts) for r in rounds), default=0)
    r_i = [sum(r.accepted >= i for r in rounds) for i in range(1, longest + 1)]
    assert emitted == len(rounds) + sum(r_i) - cut
    assert 0 <= accepted <= drafted
    assert rejected <= len(rounds)
    for r in rounds:
        assert len(r.drafts) <= r.k
        assert len(r.p_top) == len(r.drafts) + 1
        assert len(r.origins) == len(r.tokens)
        assert r.accepted <= r.drafted <= len(r.drafts)


class Forced(Drafter):
    """Knows the text to come and is right exactly as often as it is told, round by round.

    Args:
        future: the ids of prompt and answer as the target will write them.
        right: how many leading drafts of each round are right, over and over.
    """

    def __init__(self, context: DrafterContext, future: Sequence[int], right: Sequence[int]) -> None:
        super().__init__(context)
        self.future = list(future)
        self.right = right
        self.calls = 0

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        at = len(tokens)
        truth = (self.future + [0] * (at + k))[at : at + k]
        right = self.right[self.calls % len(self.right)]
        self.calls += 1
        vocab_size = self.context.target.vocab_size
        ids = [id_ if i < right else (id_ + 1) % vocab_size for i, id_ in enumerate(truth)]
        return Draft(torch.tensor(ids, dtype=torch.long))

    def take_ms(self) -> float:
        return 0.0


def double_model(kind: str, seed: int = 0) -> Any:
    """A tiny model in float64 throughout: its norms too, which transformers computes in float32."""
    model = tiny_model(kind, seed).double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            offset = 1.0 if type(module).__name__.startswith("Gemma") else 0.0
            eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
            module.forward = _rms_norm(module.weight, offset, eps)
    return model


def _rms_norm(weight: nn.Parameter, offset: float, eps: float) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        normed: Tensor = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (weight + offset)
        return normed

    return forward


@lru_cache(maxsize=16)
def double_lm(kind: str, noise: float = 0.0) -> CausalLM:
    """A tiny model in float64 as the engine holds it; with ``noise`` a drafter that is right now and then.

    Those that our own layers can run are run by them, the others by transformers.

    Shared by the tests: whoever changes one of its attributes puts it back.
    """
    model = double_model(kind)
    if noise:
        noisy = noisy_copy(tiny_model(kind), noise)
        model.load_state_dict(noisy.double().state_dict())
    return static_lm(kind, model=model) if kind in LLAMA_SHAPED else tiny_lm(kind, model=model)


WORDS = Letters([chr(0x100 + id_) for id_ in range(384)])
"""A character for each id of the tiny models, so that whatever they write can be read by other tokenizers."""
MOVED = 7
OTHER_WORDS = Letters(
    [*WORDS.tokens[MOVED:], *(WORDS.tokens[id_] + WORDS.tokens[id_ + 1] for id_ in range(300, 300 + MOVED))]
)
"""The same characters under other ids; the last ids are tokens of two, and seven characters are missing."""


def in_words(target: CausalLM) -> CausalLM:
    """The same model, its ids spelled as ``WORDS``."""
    spelled = target.twin()
    spelled.text = cast("Any", WORDS)
    return spelled


def in_other_words(lm: CausalLM) -> CausalLM:
    """A model that says in ``OTHER_WORDS`` what the given one says in ``WORDS``."""
    moved: Any = copy.deepcopy(lm.model)
    for part in (moved.get_input_embeddings(), moved.get_output_embeddings()):
        part.weight.data = part.weight.data.roll(-MOVED, 0)
    return CausalLM(
        model=moved,
        text=cast("Any", OTHER_WORDS),
        info=lm.info,
        eos_ids=frozenset(),
        generation_defaults={},
        context_length=lm.context_length,
    )


@lru_cache(maxsize=4)
def noisy_in_other_words(kind: str) -> CausalLM:
    return in_other_words(double_lm(kind, 0.1))


def context(
    target: CausalLM, model: CausalLM | None = None, *, greedy: bool = False, **options: Any
) -> DrafterContext:
    """What a drafter is made from; ``options`` are keys of [draft]."""
    common_ids = min(target.vocab_size, model.vocab_size) if model else target.vocab_size
    return DrafterContext(target, model, common_ids, greedy, DraftConfig(method="lookup", **options))


DRAFTERS = ("lookup", "perfect", "noisy", "hybrid", "slem", "tli", "synthetic", "hostile", "mixed")
METHODS = {
    "lookup": "lookup",
    "perfect": "model",
    "noisy": "model",
    "hybrid": "hybrid",
    "slem": "slem",
    "tli": "tli",
    "synthetic": "synthetic",
}
"""Which method of the registry each of them shows; the others are the tests' own."""


def make_drafter(name: str, target: CausalLM, kind: str, future: Sequence[int]) -> Drafter:
    """A drafter by the name of its behaviour.

    Args:
        future: prompt and answer as plain decoding writes them.
    """
    if name == "lookup":
        return LookupDrafter(context(target))
    if name == "perfect":
        return ModelDrafter(context(target, double_lm(kind)))
    if name == "noisy":
        return ModelDrafter(context(target, double_lm(kind, 0.1)))
    if name == "hybrid":
        return HybridDrafter(context(target, double_lm(kind, 0.1), min_match=2))
    if name == "slem":
        return SlemDrafter(context(in_words(target), noisy_in_other_words(kind)))
    if name == "tli":
        return TliDrafter(context(in_words(target), noisy_in_other_words(kind)))
    if name == "synthetic":
        drafter = SyntheticDrafter(context(target))
        drafter.foretell(future)
        return drafter
    if name == "hostile":
        return Forced(context(target), future, [0])
    if name == "mixed":
        return Forced(context(target), future, [0, 1, 2, 3, 4, 5, 6, 7, 8])
    raise ValueError(f"unknown drafter {name!r}; known: {', '.join(DRAFTERS)}")
