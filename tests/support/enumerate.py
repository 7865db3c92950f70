"""Every possible outcome of the shipped code, with its exact probability.

The law of a whole text is chained from that of one round or step at a time, each from a fixed context, with
fresh numbers. That is right for every source of chance of the engine. Let y_1, y_2, ... be the committed
tokens. Numbers keyed by the position at which a round began serve that round only. Numbers keyed by a token's
own position t (``match``, ``seed_exact``) decide y_t and, as far as a drafter shares them, the draft in its
place; whether a round goes on after t depends on them and on earlier ones only. So rounds begin at stopping
times, and given y_1 .. y_t the numbers of later positions are as they were: independent and uniform. What a
round has drawn behind its last committed token is drawn again with the same numbers, and nothing committed
depended on it. ``walked_law`` relies on none of this: it carries the numbers through whole answers.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from support.branches import EnumeratingDraws
from support.reference_rules import Laws, RuleThresholds, token_thresholds
from support.tables import ListCache, TableModel, reference_law

from engine.adaptive import FixedLength, LengthChooser
from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.config_tables import DraftConfig
from engine.drafters.base import Draft, Drafter, DrafterContext, Scored
from engine.draws import Draws, Stream
from engine.events import Round, Settings
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import Rule

Sequences = dict[tuple[int, ...], float]
"""A law over sequences of ids."""


class Watched(Drafter):
    """Hands on another drafter's drafts and remembers the last one."""

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner.context)
        self.inner = inner
        self.needs_plain_run = inner.needs_plain_run
        self.last = Draft(torch.empty(0, dtype=torch.long))
        self.tokens: list[int] = []

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        self.tokens = list(tokens)
        self.last = self.inner.propose(tokens, k, law, draws)
        assert len(self.last.ids) <= k
        return self.last

    def foretell(self, tokens: Sequence[int]) -> None:
        self.inner.foretell(tokens)

    def observe(self, scored: Scored) -> None:
        self.inner.observe(scored)

    def take_ms(self) -> float:
        return self.inner.take_ms()


DrafterFactory = Callable[[DrafterContext], Drafter]


@dataclass
class Lab:
    """A pair of table models with the shipped round, plain step, rule, law and drafter around them."""

    target: TableModel
    draft_model: TableModel
    drafter_class: DrafterFactory
    rule: Rule
    k: int
    settings: Settings
    prompt: tuple[int, ...] = (0,)
    greedy_drafter: bool = False
    max_new_tokens: int = 1_000_000
    draws: Draws = field(default_factory=EnumeratingDraws)
    law: Law | None = None
    thresholds_of: RuleThresholds = token_thresholds
    """Where the uniform numbers of the rule decide."""
    chooser_class: Callable[[int], LengthChooser] = FixedLength
    """Makes what chooses the length of each round, from the largest K."""
    options: DraftConfig = field(default_factory=lambda: DraftConfig(method="lookup"))

    def __post_init__(self) -> None:
        self.law = self.law or Law(self.settings, dtype=self.target.dtype)
        common_ids = min(self.target.vocab_size, self.draft_model.vocab_size)
        context = DrafterContext(
            self.target.as_lm(), self.draft_model.as_lm(), common_ids, self.greedy_drafter, self.options
        )
        self.drafter = Watched(self.drafter_class(context))
        self._events = itertools.count()
        self.current: Answer | None = None  # the newest one
        if isinstance(self.draws, EnumeratingDraws):
            self.draws.thresholds = self.thresholds

    def thresholds(self, stream: Stream, count: int) -> Sequence[float]:
        """Where the uniform numbers of a round decide."""
        if stream is Stream.DRAFT:  # the odds of a synthetic drafter, by the place in the round
            odds = self.options.acceptance
            assert odds, "no other drafter draws uniform numbers"
            return [*odds, *[odds[-1]] * count][:count]
        return self.thresholds_of(*self.laws_of_the_round())

    def laws_of_the_round(self) -> tuple[Laws, Laws, list[int]]:
        """p by the reference, q as the drafter reported it, and its drafts."""
        draft, ids = self.drafter.last, self.drafter.last.ids.tolist()
        size = self.target.vocab_size
        contexts = [(*self.drafter.tokens, *ids[:i]) for i in range(len(ids) + 1)]
        p = [self.reference(context) for context in contexts]
        if draft.q is None:
            q = [[float(id_ == x) for id_ in range(size)] for x in ids]
        else:
            q = [[*row, *[0.0] * (size - len(row))] for row in draft.q.tolist()]
        return p, q, ids

    def reference(self, context: tuple[int, ...]) -> list[float]:
        """The target's law after all processors, not by the engine."""
        return reference_law(self.target.logits(context), context, self.settings)

    def answer(self, written: Sequence[int] = ()) -> tuple[Answer, ListCache]:
        """An answer that so far reads ``written``, and the target's cache at that point."""
        limits = Limits(self.max_new_tokens, self.target.context_length)
        self.current = answer = Answer(self.prompt, self.target.text, limits)
        if written:
            answer.commit(written)
        cache = ListCache()
        cache.ids = answer.tokens[:-1]
        return answer, cache

    def speculator(self, cache: ListCache) -> Speculator:
        assert self.law is not None
        return Speculator(
            target=self.target.as_lm(),
            cache=cache,  # type: ignore[arg-type]  # a fake
            drafter=self.drafter,
            rule=self.rule,
            law=self.law,
            draws=self.draws,
            chooser=self.chooser_class(self.k),
            settings_id=0,
            stamp=self.stamp,
        )

    def plain(self, cache: ListCache) -> PlainDecoder:
        assert self.law is not None
        return PlainDecoder(
            target=self.target.as_lm(),
            cache=cache,  # type: ignore[arg-type]  # a fake
            law=self.law,
            draws=self.draws,
            stamp=self.stamp,
        )

    def foretell(self, written: tuple[int, ...], length: int) -> None:
        """Tell a drafter that wants to know how plain decoding goes on, with the numbers of this path."""
        if self.drafter.needs_plain_run:
            answer, cache = self.answer(written)
            decoder = self.plain(cache)
            for number in range(1, length + 1):
                if decoder.step(answer, number).cut:
                    break
            self.drafter.foretell(answer.tokens)

    def stamp(self) -> tuple[int, int]:
        return next(self._events), 0


def enumerating(lab: Lab) -> EnumeratingDraws:
    assert isinstance(lab.draws, EnumeratingDraws)
    return lab.draws


def round_law(lab: Lab, written: tuple[int, ...]) -> Sequences:
    """The law of the tokens that one round commits."""
    law: Sequences = defaultdict(float)
    for probability in enumerating(lab).paths():
        lab.foretell(written, lab.k + 1)
        answer, cache = lab.answer(written)
        happened = lab.speculator(cache).round(answer, 1)
        check_round(happened, answer, cache)
        law[happened.tokens] += probability()
    return law


def mean_accepted(lab: Lab, written: tuple[int, ...] = ()) -> float:
    """Accepted drafts of one round, on average."""
    mean = 0.0
    for probability in enumerating(lab).paths():
        answer, cache = lab.answer(written)
        n_accepted = lab.speculator(cache).round(answer, 1).n_accepted
        mean += n_accepted * probability()
    return mean


def step_law(lab: Lab, written: tuple[int, ...]) -> Sequences:
    """The law of the token that one plain step commits."""
    law: Sequences = defaultdict(float)
    for probability in enumerating(lab).paths():
        answer, cache = lab.answer(written)
        happened = lab.plain(cache).step(answer, 1)
        assert cache.ids == answer.tokens[:-1]
        law[(happened.id,)] += probability()
    return law


def check_round(happened: Round, answer: Answer, cache: ListCache) -> None:
    """What holds after every round."""
    assert cache.ids == answer.tokens[:-1], "the cache holds all committed tokens but the newest"
    assert tuple(answer.tokens[happened.context_length :]) == happened.tokens
    assert len(happened.tokens) == happened.accepted + (0 if happened.was_cut else 1)
    assert len(happened.origins) == len(happened.tokens)


def chained(step: Callable[[tuple[int, ...]], Sequences], length: int) -> Sequences:
    """The law of the first ``length`` tokens of a process that commits one or more at a time."""
    mass: list[Sequences] = [defaultdict(float) for _ in range(length + 1)]
    mass[0][()] = 1.0
    for done in range(length):
        for written, so_far in mass[done].items():
            for tokens, probability in step(written).items():
                longer = (*written, *tokens)[:length]
                mass[len(longer)][longer] += so_far * probability
    return mass[length]


def speculative_law(lab: Lab, length: int) -> Sequences:
    """The law of the first ``length`` tokens by rounds; each context is enumerated once."""
    return chained(lambda written: round_law(lab, written), length)


def plain_law(lab: Lab, length: int) -> Sequences:
    """The law of the first ``length`` tokens by plain steps."""
    return chained(lambda written: step_law(lab, written), length)


def reference_sequences(lab: Lab, length: int) -> Sequences:
    """The law of the first ``length`` tokens by the chain rule, without the engine."""

    def step(written: tuple[int, ...]) -> Sequences:
        law = lab.reference((*lab.prompt, *written))
        return {(id_,): p for id_, p in enumerate(law) if p > 0}

    return chained(step, length)


def walked_law(lab: Lab, length: int) -> Sequences:
    """As :func:`speculative_law`, but each path is a whole answer, its state carried from round to round."""
    law: Sequences = defaultdict(float)
    for probability in enumerating(lab).paths():
        lab.foretell((), length + lab.k)
        answer, cache = lab.answer()
        speculator = lab.speculator(cache)
        for number in itertools.count(1):
            check_round(speculator.round(answer, number), answer, cache)
            if len(answer.new_tokens) >= length:
                break
        law[tuple(answer.new_tokens[:length])] += probability()
    return law


def distance(a: Sequences, b: Sequences) -> float:
    """The largest difference of any probability."""
    return max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in {*a, *b})
