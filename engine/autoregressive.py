"""Plain decoding: one target pass a token. The reference of every test and of every speedup."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.answer import Answer
from engine.draws import Draws
from engine.errors import NumericalError
from engine.events import PlainStep
from engine.kv_cache import KVCache
from engine.laws import Laws
from engine.sampling import Law

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM


@dataclass(slots=True)
class PlainDecoder:
    """Decodes one token at a time, with the same model, cache, law and draws as the speculator."""

    target: CausalLM
    cache: KVCache
    law: Law
    draws: Draws
    stamp: Callable[[], tuple[int, int]]
    _logits: Tensor | None = field(default=None, init=False)  # of the newest step  # (1, V)
    _before: tuple[Answer, int] | None = field(default=None, init=False)  # what it followed: so many tokens

    @property
    @torch.inference_mode()
    def scores(self) -> Tensor | None:
        """Processed logits of the newest step, made when asked for; None before the first.  # (V,)"""
        if self._logits is None or self._before is None:
            return None
        answer, position = self._before
        return self.law.process(self._logits, answer.tokens[:position])[0]

    @torch.inference_mode()
    def step(self, answer: Answer, number: int) -> PlainStep:
        """Commit one token.

        Raises:
            NumericalError: the logits are NaN or infinite. Nothing was committed.
        """
        start = time.perf_counter_ns()
        position = len(answer.tokens)
        assert len(self.cache) == position - 1, "the cache holds all committed tokens but the newest"
        self.target.clock.take_ms()

        logits = self.target.forward(answer.tokens[-1:], self.cache, keep=1)  # (1, V)
        self._logits, self._before = logits, (answer, position)
        laws = self.law.laws(logits, answer.tokens, every_id=not self.draws.by_order)
        token = laws.ids_of(self._choose(laws, position)[None])  # (1,)
        id, finite = torch.cat([token, laws.sound()]).tolist()
        if not finite:
            raise NumericalError(
                f"the target's logits are not finite (NaN or infinity) in {self.target.info.dtype}",
                hint='try --set run.dtype="float32"',
            )
        commit = answer.commit([id])
        self.cache.truncate(len(answer.tokens) - 1)

        verify_ms = self.target.clock.take_ms()
        total_ms = (time.perf_counter_ns() - start) / 1e6
        return PlainStep(
            *self.stamp(),
            number=number,
            id=id,
            piece=self.target.text.piece(id),
            text=commit.text,
            cut=commit.cut,
            taken_back=commit.taken_back,
            verify_ms=verify_ms,
            host_ms=max(0.0, total_ms - verify_ms),
        )

    def _choose(self, laws: Laws, position: int) -> Tensor:
        """The column of the next token.  # ()"""
        return laws.likeliest()[0] if self.law.greedy else self.draws.target(laws.p[0], position)
