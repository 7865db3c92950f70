"""Language models that are tables: the law of the next token is a function of ALL ids before it.

They stand where the engine expects a ``CausalLM``. Their cache is the list of the ids they were fed, so a
rewind to a wrong place, a token fed twice or never, changes the law and is seen by whoever compares laws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from engine.clock import PassClock
from engine.events import ModelInfo, Settings
from engine.kv_cache import KVCache, as_ids

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

Table = Callable[[tuple[int, ...]], tuple[float, ...]]
"""The probabilities of the next id, given all ids before it."""

CPU = torch.device("cpu")


def settings(
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
) -> Settings:
    """Settings of which only the processors matter."""
    return Settings(
        drafter="model",
        sample_strategy="random",
        num_draft_tokens=3,
        verify_strategy="speculative_sampling",
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=0,
    )


class ListCache:
    """Remembers the ids themselves; the interface of ``engine.kv_cache.KVCache``."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def __len__(self) -> int:
        return len(self.ids)

    def truncate(self, length: int) -> None:
        del self.ids[length:]

    def clear(self) -> None:
        self.ids.clear()

    def reserve(self, tokens: int) -> None:
        """Room is never short."""


class Letters:
    """A small tokenizer, as far as ``engine.models.token_text.TokenText`` is used without a chat template.

    At each place the longest token that fits is taken; what no token begins with is left out.

    Args:
        tokens: the text of each id; by default id 0 is "a", 1 is "b", ...
    """

    special_ids: frozenset[int] = frozenset()
    opening: tuple[int, ...] = ()

    def __init__(self, tokens: Sequence[str] = ascii_lowercase) -> None:
        self.tokens = list(tokens)
        self._ids = {token: id_ for id_, token in enumerate(tokens)}
        self._longest = max(map(len, tokens))

    def piece(self, id_: int) -> bytes:
        return self.tokens[id_].encode()

    def encode_more(self, text: str) -> list[int]:
        ids, at = list[int](), 0
        while at < len(text):
            sizes = range(self._longest, 0, -1)
            size = next((size for size in sizes if text[at : at + size] in self._ids), 0)
            if size:
                ids.append(self._ids[text[at : at + size]])
            at += size or 1
        return ids


@dataclass
class TableModel:
    """The interface of ``engine.models.causal_lm.CausalLM``, as far as a round uses it.

    Args:
        table: its law.
        vocab_size: V.
        shift: added to all logits, which must change nothing but the reach of a repetition penalty.
        dtype: of the logits.
    """

    table: Table
    vocab_size: int
    shift: float = 0.0
    context_length: int = 1_000_000
    dtype: torch.dtype = torch.float64
    device: torch.device = CPU
    text: Letters = field(default_factory=Letters)
    eos_ids: frozenset[int] = frozenset()
    clock: PassClock = field(default_factory=lambda: PassClock(CPU))
    passes: int = 0

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            name="table",
            architecture="Table",
            revision=None,
            sha256=None,
            parameters=0,
            weight_bytes=0,
            layers=0,
            vocab_size=self.vocab_size,
            context_length=self.context_length,
            dtype=str(self.dtype).removeprefix("torch."),
            device="cpu",
        )

    def new_cache(self) -> KVCache:
        return cast("KVCache", ListCache())

    def logits(self, context: tuple[int, ...]) -> list[float]:
        """log p, shifted."""
        return [math.log(p) + self.shift if p > 0 else -math.inf for p in self.table(context)]

    def forward(self, ids: list[int] | Tensor, cache: KVCache, keep: int) -> Tensor:
        self.passes += 1
        held = cast("ListCache", cache).ids
        fed = [int(id_) for id_ in as_ids(ids, CPU)]
        assert all(0 <= id_ < self.vocab_size for id_ in fed), f"ids outside of the vocabulary: {fed}"
        assert len(held) + len(fed) <= self.context_length, "fed past the context"
        held += fed
        ends = range(len(held) - keep + 1, len(held) + 1)
        return torch.tensor([self.logits(tuple(held[:end])) for end in ends], dtype=self.dtype)

    def extend(self, ids: list[int], cache: KVCache) -> None:
        cast("ListCache", cache).ids.extend(ids)

    def as_lm(self) -> CausalLM:
        """Itself, under the type the engine asks for."""
        return cast("CausalLM", self)


def remembered(table: Table) -> Table:
    """The same table, each row computed once."""
    rows: dict[tuple[int, ...], tuple[float, ...]] = {}

    def look_up(context: tuple[int, ...]) -> tuple[float, ...]:
        if context not in rows:
            rows[context] = table(context)
        return rows[context]

    return look_up


KINDS = ("random", "zeros", "peaked", "uniform", "one-hot")


def random_row(rng: np.random.Generator, vocab_size: int, kind: str) -> tuple[float, ...]:
    """A law over ``vocab_size`` ids; "zeros" excludes at least one id, "peaked" leaves the others little."""
    if kind == "uniform":
        return (1 / vocab_size,) * vocab_size
    weights = rng.exponential(size=vocab_size)
    if kind == "zeros":
        excluded = rng.permutation(vocab_size)[: rng.integers(1, vocab_size)]
        weights[excluded] = 0.0
    elif kind == "peaked":
        weights[rng.integers(vocab_size)] += 200.0
    elif kind == "one-hot":
        weights = np.eye(vocab_size)[rng.integers(vocab_size)]
    elif kind != "random":
        raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    return tuple((weights / weights.sum()).tolist())


def random_table(seed: int, vocab_size: int, kinds: Sequence[str] = ("random",)) -> Table:
    """A table whose row for each context is random, of a kind picked at random."""

    def row(context: tuple[int, ...]) -> tuple[float, ...]:
        rng = np.random.default_rng([seed, len(context), *context])
        return random_row(rng, vocab_size, kinds[int(rng.integers(len(kinds)))])

    return remembered(row)


def disjoint_tables(seed: int, vocab_size: int) -> tuple[Table, Table]:
    """Two tables that never agree on a possible token."""

    def rows(context: tuple[int, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        rng = np.random.default_rng([seed, len(context), *context])
        order = rng.permutation(vocab_size)
        ours = np.zeros(vocab_size)
        ours[order[: rng.integers(1, vocab_size)]] = 1.0
        p, q = rng.exponential(size=vocab_size) * ours, rng.exponential(size=vocab_size) * (1 - ours)
        return tuple((p / p.sum()).tolist()), tuple((q / q.sum()).tolist())

    return remembered(lambda context: rows(context)[0]), remembered(lambda context: rows(context)[1])


def often_equal_tables(seed: int, vocab_size: int) -> tuple[Table, Table]:
    """Two tables that are the same row, bit for bit, in about half of the contexts."""
    p, other = random_table(seed, vocab_size, KINDS), random_table(seed + 1, vocab_size, KINDS)

    def q(context: tuple[int, ...]) -> tuple[float, ...]:
        return p(context) if sum(context) % 2 == 0 else other(context)

    return p, remembered(q)


def reference_law(logits: Sequence[float], history: Sequence[int], given: Settings) -> list[float]:
    """The law after all processors, written out a second time in plain Python floats."""
    scores = list(logits)
    for id_ in set(history):
        if id_ < len(scores):
            penalty = given.repetition_penalty
            scores[id_] = scores[id_] * penalty if scores[id_] < 0 else scores[id_] / penalty
    if given.temperature == 0:
        likeliest = scores.index(max(scores))
        return [float(id_ == likeliest) for id_ in range(len(scores))]
    scores = [score / given.temperature for score in scores]
    if given.top_k:
        least = sorted(scores, reverse=True)[min(given.top_k, len(scores)) - 1]
        scores = [score if score >= least else -math.inf for score in scores]
    law = _softmax(scores)
    if given.top_p < 1:
        mass = 0.0
        for id_ in sorted(range(len(law)), key=lambda id_: law[id_], reverse=True):
            if mass >= given.top_p:
                law[id_] = 0.0
            mass += law[id_]
        law = _normalised(law)
    if given.min_p:
        least = given.min_p * max(law)
        law = _normalised([p if p >= least else 0.0 for p in law])
    return law


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    return _normalised([math.exp(score - highest) for score in scores])


def _normalised(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights]
