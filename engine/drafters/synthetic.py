"""A drafter that knows the answer and errs as often as it is told: what would a drafter so good bring?

The target's own plain decoding writes the answer first (``Session`` sees to that), so the drafts cost nothing
and no model stands behind them. Only text that is the same either way can be known: at temperature 0, or by a
rule with which the seed alone fixes the text.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from engine.drafters.base import Draft, Drafter, DrafterContext
from engine.draws import Draws, Stream
from engine.sampling import Law

DEFAULT_ACCEPTANCE = (0.8,)
NOTHING = torch.empty(0, dtype=torch.long)


class SyntheticDrafter(Drafter):
    """Proposes the right token with the asked probability, by its place in the round, else a wrong one."""

    needs_plain_run = True

    def __init__(self, context: DrafterContext) -> None:
        super().__init__(context)
        self._acceptance = context.options.acceptance or DEFAULT_ACCEPTANCE
        self._known: list[int] = []
        self._ns = 0

    def settings(self) -> Mapping[str, Any]:
        return {"acceptance": self._acceptance, "draft_cost": self.context.options.cost or 0.0}

    def foretell(self, tokens: Sequence[int]) -> None:
        self._known = list(tokens)

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        start = time.perf_counter_ns()
        draft = self._guess(tokens, k, draws)
        self._ns += time.perf_counter_ns() - start
        return draft

    def _guess(self, tokens: list[int], k: int, draws: Draws) -> Draft:
        at = len(tokens)
        if self._known[:at] != tokens:
            return Draft(NOTHING, reason="the text left the plain run")
        truth = self._known[at : at + k]
        if not truth:
            return Draft(NOTHING, reason="the plain run ends here")
        odds = [*self._acceptance, *[self._acceptance[-1]] * k]
        drawn = draws.uniform(at, Stream.DRAFT, len(truth)).tolist()
        size = self.context.target.vocab_size
        ids = [id_ if u < a else (id_ + 1) % size for id_, u, a in zip(truth, drawn, odds, strict=False)]
        return Draft(
            torch.tensor(ids, dtype=torch.long), reason="the plain run ends here" if len(truth) < k else None
        )

    def take_ms(self) -> float:
        ms, self._ns = self._ns / 1e6, 0
        return ms
