"""Every possible outcome of the shipped code, with its exact probability.

``EnumeratingDraws`` stands where the engine expects its ``Draws``. One run of the code is one path through
the tree of its random decisions; its ``paths`` lets the code run until each path was walked.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from support.tables import ListCache, TableModel, reference_law
from torch import Tensor

from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.drafters.base import Draft, Drafter, DrafterContext, Scored
from engine.draws import Draws, Stream
from engine.events import Round, Settings
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import Rule

Sequences = dict[tuple[int, ...], float]
"""A law over sequences of ids."""

NEGLIGIBLE = 1e-14
"""Branches lighter than this are rounding: p/q of two equal rows may miss 1 by that much."""


class EnumeratingDraws(Draws):
    """Walks every branch.

    A categorical draw branches over the ids of positive weight. A uniform one splits [0, 1) at the threshold
    p/q of its draft into two intervals; ``place`` says which point stands for an interval: its "low" end (0
    for the first, and for the second where the threshold is 0), its "middle" or its "high" end.
    """

    def __init__(self, place: str = "middle") -> None:
        super().__init__(seed=0)
        self.place = place
        self.thresholds: Callable[[], Sequence[float]] = list
        self._choices: list[int] = []
        self._widths: list[int] = []
        self._depth = 0
        self._probability = 1.0
        self._used: set[tuple[str, int, Stream, int]] = set()

    def paths(self) -> Iterator[Callable[[], float]]:
        """Yields once a path; the body of the loop runs the code. The value gives the path's probability."""
        self._choices, self._widths = [], []
        while True:
            self._depth, self._probability = 0, 1.0
            self._used.clear()
            yield lambda: self._probability
            assert self._depth == len(self._choices), "the code is not a function of its draws"
            while self._choices and self._choices[-1] == self._widths[-1] - 1:
                self._choices.pop()
                self._widths.pop()
            if not self._choices:
                return
            self._choices[-1] += 1

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        thresholds = self.thresholds() if count else ()
        assert len(thresholds) == count, "one draw for each draft"
        drawn = []
        for index, threshold in enumerate(thresholds):
            self._use("uniform", position, stream, index)
            t = min(1.0, max(0.0, threshold))
            drawn.append(self._choose([(self._below(t), t), (self._from(t), 1.0 - t)]))
        return torch.tensor(drawn, dtype=torch.float64)

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        self._use("categorical", position, stream, index)
        law = weights.to(torch.float64) / weights.to(torch.float64).sum()
        assert bool((law >= 0).all()), f"negative or undefined weights: {weights}"
        return torch.tensor(int(self._choose(list(enumerate(law.tolist())))))

    def _below(self, threshold: float) -> float:
        """A point of [0, threshold)."""
        return {"low": 0.0, "middle": threshold / 2, "high": threshold * (1 - 1e-9)}[self.place]

    def _from(self, threshold: float) -> float:
        """A point of [threshold, 1)."""
        middle = (threshold + 1) / 2
        low = min(threshold * (1 + 1e-9), middle)
        return {"low": low, "middle": middle, "high": 1 - 2.0**-53}[self.place]

    def _choose(self, branches: Sequence[tuple[float, float]]) -> float:
        """Take the branch of this path; branches are (value, probability)."""
        possible = [(value, probability) for value, probability in branches if probability > NEGLIGIBLE]
        if self._depth == len(self._choices):
            self._choices.append(0)
            self._widths.append(len(possible))
        assert self._widths[self._depth] == len(possible), "the code is not a function of its draws"
        value, probability = possible[self._choices[self._depth]]
        self._depth += 1
        self._probability *= probability
        return value

    def _use(self, family: str, position: int, stream: Stream, index: int) -> None:
        """The real draws give the same number for the same key, so a key may be used once in a run."""
        key = (family, position, stream, index)
        assert key not in self._used, f"the draw {key} was used twice"
        self._used.add(key)


class Watched(Drafter):
    """Hands on another drafter's drafts and remembers the last one."""

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner.context)
        self.inner = inner
        self.last = Draft(torch.empty(0, dtype=torch.long))
        self.tokens: list[int] = []

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        self.tokens = list(tokens)
        self.last = self.inner.propose(tokens, k, law, draws)
        assert len(self.last.ids) <= k
        return self.last

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

    def __post_init__(self) -> None:
        self.law = self.law or Law(self.settings, dtype=self.target.dtype)
        common_ids = min(self.target.vocab_size, self.draft_model.vocab_size)
        context = DrafterContext(
            self.target.as_lm(), self.draft_model.as_lm(), common_ids, greedy=self.greedy_drafter
        )
        self.drafter = Watched(self.drafter_class(context))
        self._events = itertools.count()
        if isinstance(self.draws, EnumeratingDraws):
            self.draws.thresholds = self.thresholds

    def thresholds(self) -> list[float]:
        """p/q of each draft of this round: p by the reference, q as the drafter reported it."""
        draft, context = self.drafter.last, list(self.drafter.tokens)
        found = []
        for index, x in enumerate(draft.ids.tolist()):
            p = self.reference(tuple(context))[x]
            q = 1.0 if draft.q is None else float(draft.q[index, x])
            found.append(p / q if q else float(p > 0))
            context.append(x)
        return found

    def reference(self, context: tuple[int, ...]) -> list[float]:
        """The target's law after all processors, not by the engine."""
        return reference_law(self.target.logits(context), context, self.settings)

    def answer(self, written: Sequence[int] = ()) -> tuple[Answer, ListCache]:
        """An answer that so far reads ``written``, and the target's cache at that point."""
        limits = Limits(self.max_new_tokens, self.target.context_length)
        answer = Answer(self.prompt, self.target.text, limits)
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
            num_draft_tokens=self.k,
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

    def stamp(self) -> tuple[int, int]:
        return next(self._events), 0


def enumerating(lab: Lab) -> EnumeratingDraws:
    assert isinstance(lab.draws, EnumeratingDraws)
    return lab.draws


def round_law(lab: Lab, written: tuple[int, ...]) -> Sequences:
    """The law of the tokens that one round commits."""
    law: Sequences = defaultdict(float)
    for probability in enumerating(lab).paths():
        answer, cache = lab.answer(written)
        happened = lab.speculator(cache).round(answer, 1)
        check_round(happened, answer, cache)
        law[happened.tokens] += probability()
    return law


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
