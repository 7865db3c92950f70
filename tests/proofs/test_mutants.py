"""Mistakes that other engines made: the proof by enumeration must see every one of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from support.enumerate import speculative_law
from support.labs import BIASED, EXACT, PAIRS, error, lab
from support.tables import settings
from torch import Tensor

from engine.drafters.base import Draft, Drafter
from engine.drafters.model import ModelDrafter
from engine.draws import Draws
from engine.sampling import Law
from engine.verify import SpeculativeSampling


def reported(drafter: ModelDrafter, tokens: list[int], ids: Tensor, law: Law) -> Tensor:
    """The laws the drafter's model has at the drafts, under processors of our choice."""
    cache = drafter._model.new_cache()
    logits = drafter._model.forward([*tokens, *ids.tolist()[:-1]], cache, keep=len(ids))
    return law.probabilities(law.process(logits, tokens, ids[:-1]))


class ArgmaxWithSoftmaxQ(ModelDrafter):
    """Takes the likeliest token and says it was drawn."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        return replace(draft, q=reported(self, tokens, draft.ids, law))


class DropsDoubt(ModelDrafter):
    """Draws a token, sees its low confidence and withdraws it."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, law, draws)
        if draft.q is None or draft.top is None:
            return draft
        sure = (draft.q.gather(1, draft.ids[:, None])[:, 0] >= 0.4).long().cumprod(0).sum()
        return Draft(draft.ids[:sure], draft.q[:sure], draft.top[:sure])


class WarmQ(ModelDrafter):
    """Draws at temperature 0.7 and reports the law at 1."""

    def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
        draft = super().propose(tokens, k, Law(settings(temperature=0.7), law.dtype), draws)
        return replace(draft, q=reported(self, tokens, draft.ids, law))


class ForgetsToRewind(ModelDrafter):
    """Trusts that its cache holds what was committed."""

    def _sync(self, tokens: list[int]) -> int:
        self._cache.truncate(len(tokens) - 1)
        return len(self._cache)


@pytest.mark.parametrize(
    ("mutant", "greedy_drafter"), [(ArgmaxWithSoftmaxQ, True), (DropsDoubt, False), (WarmQ, False)]
)
def test_mutant_drafters_are_seen(mutant: type[Drafter], greedy_drafter: bool) -> None:
    tried = lab(PAIRS["random"], 2, drafter=mutant, greedy_drafter=greedy_drafter)
    assert error(tried, 2) > BIASED


def test_the_worked_example_of_dropping_low_confidence() -> None:
    """p = (.7, .3), q = (.5, .5), only the first id is admitted as a draft: (.85, .15) comes out."""

    class AdmitsTheFirst(ModelDrafter):
        def propose(self, tokens: list[int], k: int, law: Law, draws: Draws) -> Draft:
            draft = super().propose(tokens, k, law, draws)
            assert draft.q is not None
            assert draft.top is not None
            kept = int(draft.ids[0] == 0)
            return Draft(draft.ids[:kept], draft.q[:kept], draft.top[:kept])

    tried = lab((lambda _: (0.7, 0.3), lambda _: (0.5, 0.5)), 1, drafter=AdmitsTheFirst, sizes=(2, 2))
    written = speculative_law(tried, 1)
    assert written[(0,)] == pytest.approx(0.85)
    assert written[(1,)] == pytest.approx(0.15)


def test_mutant_resampling_from_p_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_p(p: Tensor, q: Tensor | None, drafts: Tensor, n_accepted: Tensor) -> Tensor:
        return p[n_accepted]

    monkeypatch.setattr("engine.verify.residual", from_p)
    assert error(lab(PAIRS["random"], 2), 2) > BIASED
    assert error(lab(PAIRS["random"], 2, greedy_drafter=True), 2) > BIASED


class AcceptsAtZero(SpeculativeSampling):
    """``u * q <= p``."""

    def judge(self, p, q, drafts, draws, position):  # type: ignore[no-untyped-def]
        # The least positive number makes <= of <, where it matters: at p = 0 and u = 0.
        return super().judge(p.clamp(min=5e-324), q, drafts, draws, position)


def test_mutant_accepting_probability_zero_is_seen() -> None:
    assert error(lab(PAIRS["disjoint"], 2, place="low", rule=AcceptsAtZero()), 2) > BIASED


class ForgetsDraftPrefix(Law):
    """Penalises every row by the committed tokens only."""

    def process(self, logits, tokens, drafts=None):  # type: ignore[no-untyped-def]
        return torch.cat([super(ForgetsDraftPrefix, self).process(row[None], tokens) for row in logits])


def test_mutant_penalty_without_the_draft_prefix_is_seen() -> None:
    given = settings(repetition_penalty=2.0)
    mutant = ForgetsDraftPrefix(given, torch.float64)
    assert error(lab(PAIRS["random"], 2, given=given, law=mutant), 2) > BIASED


def test_mutant_penalty_by_the_whole_draft_is_seen() -> None:
    class SeesTheFuture(Law):
        def process(self, logits, tokens, drafts=None):  # type: ignore[no-untyped-def]
            known = [*tokens, *(() if drafts is None else drafts.tolist())]
            return torch.cat([super(SeesTheFuture, self).process(row[None], known) for row in logits])

    given = settings(repetition_penalty=2.0)
    assert error(lab(PAIRS["random"], 2, given=given, law=SeesTheFuture(given, torch.float64)), 2) > BIASED


def test_mutant_stale_drafter_cache_changes_the_guesses_only() -> None:
    """A drafter that forgets to rewind guesses badly, but the text keeps its law: q is what it drew from."""
    assert error(lab(PAIRS["random"], 2, drafter=ForgetsToRewind, max_new_tokens=3), 3) < EXACT
