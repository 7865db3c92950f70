"""Mistakes that other engines made, or that come to mind first, each as small a change of the shipped code as
it can be. The proofs must see every one of them (tests/proofs/test_mutants.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from support.branches import EnumeratingDraws, EnumeratingNoise
from support.enumerate import Lab
from torch import Tensor

from engine.costs import Costs
from engine.drafters.base import Draft
from engine.drafters.model import ModelDrafter
from engine.draws import Draws, Stream
from engine.events import Round
from engine.sampling import Law
from engine.verify import (
    Block,
    Judgement,
    Match,
    SpeculativeSampling,
    _capped_products,
    _leading,
    _ratios,
    residual,
)

# -- what chooses K


class LooksAtTheDraft:
    """Looks what would be drafted, and drafts only if it likes that."""

    def __init__(self, lab: Lab, k: int) -> None:
        self._lab, self._k = lab, k

    def choose(self, room: int) -> tuple[int, str]:
        lab = self._lab
        assert lab.current is not None and lab.law is not None
        draft = lab.drafter.propose(lab.current.tokens, 1, lab.law, lab.draws)
        return (min(self._k, room) if int(draft.ids[0]) == 0 else 0), "looked"

    def observe(self, round_: Round) -> None:
        pass

    def calibrated(self, costs: Costs | None) -> None:
        pass

    def begin(self) -> None:
        pass


# -- drafters


def reported(drafter: ModelDrafter, tokens: list[int], ids: Tensor, law: Law) -> Tensor:
    """The laws the drafter's model has at the drafts, over all its ids, under processors of our choice."""
    cache = drafter._model.new_cache()
    logits = drafter._model.forward([*tokens, *ids.tolist()[:-1]], cache, keep=len(ids))
    return law.probabilities(law.process(logits, tokens, ids[:-1]))


def shortened(draft: Draft, kept: int) -> Draft:
    assert draft.q is not None
    assert draft.top is not None
    return Draft(draft.ids[:kept], draft.q[:kept], draft.top[:kept])


def confidence(draft: Draft) -> Tensor:
    assert draft.q is not None
    return draft.q.gather(1, draft.ids[:, None])[:, 0]


class ArgmaxWithSoftmaxQ(ModelDrafter):
    """Takes the likeliest token and says it was drawn."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return replace(draft, q=reported(self, tokens, draft.ids, law))


class WarmQ(ModelDrafter):
    """Draws at temperature 0.7 and reports the law at 1."""

    warm: Law

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, self.warm, draws)
        return replace(draft, q=reported(self, tokens, draft.ids, law))


class RawQ(ModelDrafter):
    """Draws from the processed law and reports the one before the processors."""

    raw: Law

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return replace(draft, q=reported(self, tokens, draft.ids, self.raw))


class WideQ(ModelDrafter):
    """Draws from the ids both models know and reports the law over all it knows, cut but not renormalised."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return replace(draft, q=reported(self, tokens, draft.ids, law)[:, : self.context.common_ids])


class DropsDoubt(ModelDrafter):
    """Draws a token, sees its low confidence and withdraws it."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return shortened(draft, int((confidence(draft) >= 0.4).long().cumprod(0).sum()))


class DecidesByTheSecond(ModelDrafter):
    """Keeps its first token only if it likes the second one."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        liked = len(draft.ids) < 2 or float(confidence(draft)[1]) >= 0.4
        return draft if liked else shortened(draft, 0)


class AdmitsTheFirst(ModelDrafter):
    """Withdraws every token but id 0: the worked example of dropping."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return shortened(draft, int(draft.ids[0] == 0))


class ReadsTheTargetsNumbers(ModelDrafter):
    """Draws with the number that the target will draw with."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        return super().propose(tokens, k, law, Redirected(draws, lambda q, at, i: draws.target(q, at + i)))


class ForgetsToRewind(ModelDrafter):
    """Trusts that its cache holds what was committed."""

    def _sync(self, tokens: list[int]) -> int:
        self._cache.truncate(len(tokens) - 1)
        return len(self._cache)


class NoiseOfTheNextPlace(ModelDrafter):
    """Shares noise with the target, one position too late."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        late = Redirected(draws, lambda q, at, i: draws.draft(q, at + 1, i))
        return super().propose(tokens, k, law, late)


class Redirected(Draws):
    """Draws of which the drafter's go elsewhere."""

    def __init__(self, inner: Draws, draft: Callable[[Tensor, int, int], Tensor]) -> None:
        super().__init__(inner.seed)
        self._draft = draft

    def draft(self, q: Tensor, position: int, index: int) -> Tensor:
        return self._draft(q, position, index)


# -- rules


class AcceptsAtZero(SpeculativeSampling):
    """``u * q <= p``."""

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        # The least positive number makes <= of <, where it matters: at p = 0 and u = 0.
        return super().judge(p.clamp(min=5e-324), q, drafts, draws, position)


class Lenient(SpeculativeSampling):
    """Accepts a little more often than it may."""

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        return super().judge(p, None if q is None else q * 0.9, drafts, draws, position)


class _Seen(Draws):
    """Uniform numbers as given; no token is drawn."""

    def __init__(self, u: Tensor) -> None:
        super().__init__(seed=0)
        self.u = u

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return self.u

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        return torch.tensor(0)


class _BlockLike(Block):
    """Block verification with another way to count, or another remainder."""

    token_residual = False
    breaks = False

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        u = draws.uniform(position, Stream.ACCEPT, len(drafts))
        seen = super().judge(p, q, drafts, _Seen(u), position)
        assert seen.h is not None
        products = _capped_products(_ratios(p, q, drafts))
        stands = u < self.limits(seen.h, p, q, drafts)
        place = torch.arange(1, len(drafts) + 1)
        last = torch.cat([place.new_zeros(1), place * stands]).amax()
        n_accepted = _leading(stands) if self.breaks else last
        weights = residual(p if self.token_residual else products[:, None] * p, q, drafts, n_accepted)
        return Judgement(n_accepted, draws.categorical(weights, position, Stream.TARGET), u)

    def limits(self, h: Tensor, p: Tensor, q: Tensor | None, drafts: Tensor) -> Tensor:
        return h


class BlockThatBreaks(_BlockLike):
    """Stops at the first draft that does not stand."""

    breaks = True


class BlockWithTokenResidual(_BlockLike):
    """Draws the target's own token from max(p - q, 0)."""

    token_residual = True


class ProductOfRatios(_BlockLike):
    """Products of min(1, p/q) as limits, and the token residual."""

    token_residual = True

    def limits(self, h: Tensor, p: Tensor, q: Tensor | None, drafts: Tensor) -> Tensor:
        return _ratios(p, q, drafts).clamp(max=1).cumprod(0)


class MatchWithOneKey(Match):
    """All positions of a round draw with the number of the first one."""

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        return super().judge(p, q, drafts, _OnePosition(draws, position), position)


class _OnePosition(Draws):
    def __init__(self, inner: Draws, position: int) -> None:
        super().__init__(inner.seed)
        self.inner, self.position = inner, position

    def target(self, p: Tensor, position: int) -> Tensor:
        return self.inner.target(p, self.position)


class MatchKeyedByRound(Match):
    """Numbers keyed by the round's position and the place in it: the law is right, the seed fixes nothing."""

    stream = Stream.TARGET

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        y = torch.stack([draws.categorical(row, position, self.stream, i) for i, row in enumerate(p)])
        n_accepted = _leading(y[:-1] == drafts)
        return Judgement(n_accepted, y[n_accepted])


class MatchOnTheDraftStream(MatchKeyedByRound):
    """The same, and the numbers are those that the drafter drew with."""

    stream = Stream.DRAFT


# -- chance


class OneKeyForAllRounds(EnumeratingDraws):
    """A fixed key inside the loop."""

    def uniform(self, position: int, stream: Stream, count: int) -> Tensor:
        return super().uniform(0, stream, count)

    def categorical(self, weights: Tensor, position: int, stream: Stream, index: int = 0) -> Tensor:
        return super().categorical(weights, 0, stream, index)


class NoiseWithoutPosition(EnumeratingNoise):
    """Noise keyed by the id only."""

    def _least(self, weights: Tensor, position: int) -> Tensor:
        return super()._least(weights, 0)


# -- processors


class ForgetsDraftPrefix(Law):
    """Penalises every row by the committed tokens only."""

    def penalised(self, logits, tokens, drafts=None):  # type: ignore[no-untyped-def]
        return torch.cat([super(ForgetsDraftPrefix, self).penalised(row[None], tokens) for row in logits])


class SeesTheFuture(Law):
    """Penalises every row by all drafts, those after it too."""

    def penalised(self, logits, tokens, drafts=None):  # type: ignore[no-untyped-def]
        known = [*tokens, *(() if drafts is None else drafts.tolist())]
        return torch.cat([super(SeesTheFuture, self).penalised(row[None], known) for row in logits])
