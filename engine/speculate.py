"""One round of speculative decoding, in five stages. Read it top to bottom: this is the whole method.

Leviathan et al. 2023 (arXiv 2211.17192), Chen et al. 2023 (arXiv 2302.01318).

Before and after every round ``len(cache) == len(answer.tokens) - 1``: the cache holds every committed token
but the newest, which the next pass feeds. K drafted tokens, V ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.adaptive import LengthChooser
from engine.answer import Answer
from engine.drafters.base import Draft, Drafter, Scored
from engine.draws import Draws
from engine.events import Round
from engine.kv_cache import KVCache
from engine.laws import Laws
from engine.readout import read
from engine.sampling import Law
from engine.verify import Rule, judge_none

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM


@dataclass(slots=True)
class Speculator:
    """Everything a round needs. The parts may be exchanged between two rounds."""

    target: CausalLM
    cache: KVCache
    """The target's cache."""
    drafter: Drafter
    rule: Rule
    law: Law
    """The processors, for p and for q alike."""
    draws: Draws
    chooser: LengthChooser
    """Says how many tokens a round drafts."""
    settings_id: int
    stamp: Callable[[], tuple[int, int]]
    """Gives each event its ``seq`` and ``t_ns``."""

    @torch.inference_mode()
    def round(self, answer: Answer, number: int) -> Round:
        """Run round ``number`` and commit its tokens to the answer.

        Raises:
            NumericalError: logits of the target or of the drafter are NaN or infinite. Nothing was committed.
        """
        start = time.perf_counter_ns()
        context_length = len(answer.tokens)
        assert len(self.cache) == context_length - 1, "the cache holds all committed tokens but the newest"
        # What older passes left on the clocks (a prefill, a round that failed) is not this round's.
        self.drafter.take_ms()
        self.target.clock.take_ms()

        # 1. Draft: K <= k guesses at what comes next, never more than fit before the target's own token.
        assert answer.budget >= 1, "the answer ended: nothing may be committed any more"
        k, reason = self.chooser.choose(answer.budget - 1)
        draft = self.drafter.propose(answer.tokens, k, self.law, self.draws) if k else _NO_DRAFT
        draft = _moved(draft, self.target.device)
        n_drafts = len(draft.ids)

        # 2. Score: one target pass over the newest token and the guesses.
        newest = torch.tensor(answer.tokens[-1:], device=self.target.device)
        fed = torch.cat([newest, draft.ids])  # (K+1,)
        logits = self.target.forward(fed, self.cache, keep=n_drafts + 1)  # (K+1, V)

        # 3. Verify: how many guesses stand, and the target's own token after them.
        every_id = not self.draws.by_order
        laws = self.law.laws(logits.to(draft.ids.device), answer.tokens, draft.ids, every_id=every_id)
        if n_drafts:
            judged = _in_columns(draft, laws)
            judgement = self.rule.judge(laws.p, judged.q, judged.ids, self.draws, context_length)
        else:
            judged, judgement = draft, judge_none(laws.p, self.draws, context_length)
        outcome = read(laws, judged, judgement, self.target.text, self._dtypes())

        # 4. Commit: cut at the first EOS, stop string or limit; only what is left is streamed and counted.
        commit = answer.commit(outcome.ids)
        self.drafter.observe(Scored([draft.id for draft in outcome.drafts], outcome.n_accepted))

        # 5. Rewind: forget the keys and values of everything that was not committed.
        self.cache.truncate(len(answer.tokens) - 1)

        draft_ms, verify_ms = self.drafter.take_ms(), self.target.clock.take_ms()
        total_ms = (time.perf_counter_ns() - start) / 1e6
        round_ = Round(
            *self.stamp(),
            number=number,
            settings_id=self.settings_id,
            context_length=context_length,
            k=k,
            k_reason=draft.reason or reason,
            drafts=outcome.drafts,
            p_top=outcome.p_top,
            n_accepted=outcome.n_accepted,
            target=outcome.target,
            tokens=commit.tokens,
            text=commit.text,
            cut=commit.cut,
            taken_back=commit.taken_back,
            draft_ms=draft_ms,
            verify_ms=verify_ms,
            host_ms=max(0.0, total_ms - draft_ms - verify_ms),
            source=draft.source,
        )
        self.chooser.observe(round_)
        return round_

    def _dtypes(self) -> tuple[str, str]:
        drafter = self.drafter.model_info
        return self.target.info.dtype, drafter.dtype if drafter else ""


_NO_DRAFT = Draft(torch.empty(0, dtype=torch.long))


def _in_columns(draft: Draft, laws: Laws) -> Draft:
    """The draft with its ids and laws in the columns of the target's laws."""
    q = None if draft.q is None else laws.narrowed(draft.q)
    return replace(draft, ids=laws.columns_of(draft.ids), q=q)


def _moved(draft: Draft, device: torch.device) -> Draft:
    """The draft on the target's device: ids and laws move, models stay."""
    if draft.ids.device == device:
        return draft

    def there(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else tensor.to(device)

    return replace(draft, ids=draft.ids.to(device), q=there(draft.q), top=there(draft.top))
