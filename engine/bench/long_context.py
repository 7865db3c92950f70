"""What a token costs at ever longer contexts: the pass, the host, and attention alone beside them.

A pass has to look at every key, so its time grows with the context by at least what attention takes. Nothing
else should grow faster: not the mask, not the caches, not the text, not lookup's automaton, not the events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import linear_regression, median

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from engine.adaptive import FixedLength
from engine.answer import Answer, Limits
from engine.autoregressive import PlainDecoder
from engine.bench.arms import GREEDY, stamps
from engine.bench.lab import Lab
from engine.bench.report import Row
from engine.drafters.base import DrafterContext
from engine.drafters.lookup import LookupDrafter
from engine.draws import Draws
from engine.kv_cache import KVCache
from engine.models.causal_lm import CausalLM
from engine.prefill import prefill
from engine.sampling import Law
from engine.speculate import Speculator
from engine.verify import GreedyMatch

PASSAGE = 48
"""Tokens of the text that is repeated, few enough that lookup finds drafts at the shortest context too."""
PENALTY = 1.1
BLOCK = 64
"""The longest context is a multiple of this many tokens."""

Point = dict[str, float]
"""Milliseconds at one context length, by what took them; "context" is that length, in tokens."""


def context_rows(lab: Lab) -> Iterator[Row]:
    """Whether anything grows faster with the context than attention does, and than a line."""
    k = lab.setup.context_k
    points = measure(lab)
    for name, prefix, rows in (("a plain step", "step", 1), (f"a round of {k + 1} rows", "round", k + 1)):
        yield growth_row(f"{name}, {lab.dtype}", prefix, rows, points)
    yield beyond_row(lab.dtype, k, points)


def growth_row(name: str, prefix: str, rows: int, points: Sequence[Point]) -> Row:
    """How much of the growth is not attention's, over attention's own.

    Args:
        prefix: of what is looked at, "step" or "round".
        rows: of its pass.
    """
    total = [sum(point[part] for part in parts(prefix)) for point in points]
    all_of_it = 1000 * slope(points, total)
    attention = 1000 * slope(points, [point[f"attention_{rows}"] for point in points])
    host = 1000 * slope(points, [point[f"{prefix}_host"] for point in points])
    first, last = (f"{total[at]:.1f} ms at {points[at]['context']:,.0f}" for at in (0, -1))
    # Attention that does not grow at all was not measured well enough to compare with.
    beside = all_of_it / attention - 1 if attention > 0 else None
    return Row(
        *(f"growth with the context beside attention / attention, {name}", beside, "x"),
        at_most=1.0,
        note=f"{first}, {last} tokens: {all_of_it:.2f} ms a 1,000 tokens, attention alone {attention:.2f}, "
        f"host {host:.3f}",
        points=tuple(points) if prefix == "step" else (),
    )


def beyond_row(dtype: str, k: int, points: Sequence[Point]) -> Row:
    """The time at the longest context that a line through the shorter ones does not foretell."""
    watched = {
        "step": ("step", "step_host", "step_host_penalised"),
        "round": ("round", "round_host", "lookup"),
    }
    found = {
        name: beyond(points, name) / sum(points[-1][part] for part in parts(prefix))
        for prefix, names in watched.items()
        for name in names
    }
    worst = max(found, key=lambda name: found[name])
    return Row(
        *(f"time beyond constant + linear in the context, {dtype}", 100 * found[worst], "%"),
        at_most=15,
        note=f"of a step or a round at {points[-1]['context']:,.0f} tokens; the most, "
        f"in {worst.replace('_', ' ')}",
        k=k,
    )


def parts(prefix: str) -> tuple[str, ...]:
    """What a plain step or a round consists of."""
    return ("step", "step_host") if prefix == "step" else ("round", "round_host", "lookup")


def slope(points: Sequence[Point], values: Sequence[float]) -> float:
    """Milliseconds a token of context, by least squares."""
    return linear_regression([point["context"] for point in points], values).slope


def beyond(points: Sequence[Point], name: str) -> float:
    """Milliseconds by which the last value lies above the line through those up to half its context.

    Next to nothing for what is constant or linear; about half of the value for a square.
    """
    last = points[-1]
    shorter = [point for point in points if 2 * point["context"] <= last["context"]]
    line = linear_regression([point["context"] for point in shorter], [point[name] for point in shorter])
    return last[name] - line.intercept - line.slope * last["context"]


def fitting(contexts: Sequence[int], limit: int) -> list[int]:
    """The context lengths, those beyond ``limit`` brought down to the last whole block below it."""
    return sorted({min(context, limit // BLOCK * BLOCK) for context in contexts})


def measure(lab: Lab) -> list[Point]:
    """Walk through one long text and back, and stop at every context length.

    What disturbs a machine for a while is there at one of the two visits, so the faster one counts.
    """
    setup, model = lab.setup, lab.target
    spare = setup.context_repeats + setup.context_k + 2
    contexts = fitting(setup.contexts, model.context_length - spare)
    passage = lab.ids(setup.copy[:1])[0][:PASSAGE]
    walk = Walk(model, passage, contexts[-1] + spare, setup.context_k)
    forth = [walk.at(context, setup.context_repeats) for context in contexts]
    back = [walk.at(context, setup.context_repeats) for context in reversed(contexts)]
    return [faster(*visits) for visits in zip(forth, reversed(back), strict=True)]


def faster(one: Point, other: Point) -> Point:
    """The lower of two values each; those that only one visit has are taken from there."""
    return {name: min(visit[name] for visit in (one, other) if name in visit) for name in one | other}


class Walk:
    """One text that is read on and on, and measured here and there.

    Args:
        passage: what is repeated until the text has ``length`` tokens.
        k: draft tokens a round.
    """

    def __init__(self, model: CausalLM, passage: Sequence[int], length: int, k: int) -> None:
        self._model = model
        self._text = (list(passage) * (length // len(passage) + 1))[:length]
        self._k = k
        self._cache: KVCache = model.new_cache()
        self._cache.reserve(length)
        self._attention = Attention(model, length)
        self._drafter = LookupDrafter(DrafterContext(model, None, model.vocab_size, True))

    def at(self, context: int, repeats: int) -> Point:
        """Medians at this context length; "prefill", of a token, only where the cache had to be filled."""
        self._cache.truncate(context - 1)
        began, missing = time.perf_counter(), context - 1 - len(self._cache)
        for _ in prefill(self._model, self._cache, self._text[:context]):
            pass
        filled = {"prefill": 1e3 * (time.perf_counter() - began) / missing} if missing else {}
        # The first one warms up what belongs to this length, and does not count.
        found = [self._once(context + number) for number in range(repeats + 1)][1:]
        middle = {name: median(point[name] for point in found) for name in found[0]}
        told = {"context": float(context), **middle, **filled}
        return {name: round(value, 4) for name, value in told.items()}

    def _once(self, context: int) -> Point:
        """One step, one with a repetition penalty, one round, all after the same tokens; attention alone."""
        rows = self._k + 1
        ours, alone = self._step(context, 1.0), self._attention.ms(context, 1)
        penalised = self._step(context, PENALTY)
        block, block_alone = self._round(context), self._attention.ms(context + self._k, rows)
        return {
            "step": ours[0],
            "step_host": ours[1],
            "step_host_penalised": penalised[1],
            "attention_1": alone,
            **block,
            f"attention_{rows}": block_alone,
        }

    def _answer(self, context: int) -> Answer:
        self._cache.truncate(context - 1)
        limits = Limits(self._k + 1, self._model.context_length)
        return Answer(self._text[:context], self._model.text, limits)

    def _step(self, context: int, penalty: float) -> tuple[float, float]:
        """Milliseconds of the pass and of the host."""
        answer, law = self._answer(context), Law(replace(GREEDY, repetition_penalty=penalty))
        done = PlainDecoder(self._model, self._cache, law, Draws(0), stamps()).step(answer, 1)
        return done.verify_ms, done.host_ms

    def _round(self, context: int) -> Point:
        speculator = Speculator(
            target=self._model,
            cache=self._cache,
            drafter=self._drafter,
            rule=GreedyMatch(),
            law=Law(GREEDY),
            draws=Draws(0),
            chooser=FixedLength(self._k),
            settings_id=1,
            stamp=stamps(),
        )
        done = speculator.round(self._answer(context), 1)
        assert len(done.drafts) == self._k, "the text repeats itself, so lookup finds what it is asked for"
        return {"round": done.verify_ms, "round_host": done.host_ms, "lookup": done.draft_ms}


class Attention:
    """torch's attention by itself, over keys and values of every layer of a model.

    Args:
        length: positions there is room for.
    """

    def __init__(self, model: CausalLM, length: int) -> None:
        config = model.model.config.get_text_config(decoder=True)
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._size = getattr(config, "head_dim", None) or config.hidden_size // self._heads
        self._like = {"dtype": getattr(torch, model.info.dtype), "device": model.device}
        self._layers = [
            [torch.rand(1, self._groups, length, self._size, **self._like) for _ in range(2)]  # (1, G, m, D)
            for _ in range(model.info.layers)
        ]

    @torch.inference_mode()
    def ms(self, context: int, rows: int) -> float:
        """Milliseconds of all layers for the last ``rows`` of ``context`` positions."""
        query, mask = self._asked(context, rows)
        start = time.perf_counter_ns()
        for keys, values in self._layers:
            scaled_dot_product_attention(query, keys[:, :, :context], values[:, :, :context], attn_mask=mask)
        return (time.perf_counter_ns() - start) / 1e6

    def _asked(self, context: int, rows: int) -> tuple[Tensor, Tensor | None]:
        """Queries, the heads that share keys as one tile, which is the fastest form; and their mask."""
        shared = self._heads // self._groups
        query = torch.rand(1, self._groups, shared * rows, self._size, **self._like)
        if rows == 1:
            return query, None
        seen = torch.ones(rows, context, dtype=torch.bool, device=query.device).tril(context - rows)
        return query, torch.where(seen, 0.0, -torch.inf).to(query.dtype).repeat(shared, 1)
