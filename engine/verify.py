"""Acceptance rules: which draft tokens stand, and the target's own token after them.

Letters as in the papers: p the target's law, q the law a draft token was drawn from, u uniform in [0, 1). V
ids, K drafts. Everything is a pure function of its arguments and stays on the device of p.

* Token verification: Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; Chen et al. 2023 (arXiv
  2302.01318), algorithm 2.
* Block verification: Sun et al. 2024 (arXiv 2403.10444), algorithm 2.
* Shared noise: Daliri et al. 2024 (arXiv 2408.07978).

All of them keep the law of the text that plain decoding has; docs/exactness.md says how that is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.draws import Draws, SharedNoise, Stream, beside


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule decided, as tensors on the device of p."""

    n_accepted: Tensor
    """Accepted drafts: the first ``n_accepted`` of them.  # ()"""
    token: Tensor
    """The target's own token.  # ()"""
    u: Tensor | None = None
    """The uniform draws used; None if the rule draws none.  # (K,)"""
    h: Tensor | None = None
    """What each u had to stay below, where p(x) / q(x) alone does not say it.  # (K,)"""


class Rule(Protocol):
    """An acceptance rule."""

    draws: type[Draws]
    """The source of chance that drafter, rule and plain decoding share."""

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        """Judge one round.

        Args:
            p: the target's law at the K+1 positions, each row sums to 1.  # (K+1, V)
            q: the laws the drafts were drawn from; C <= V, ids from C on have none of its mass. None: the
                drafts are deterministic, q is a point mass on each.  # (K, C)
            drafts: the draft ids.  # (K,)
            draws: the run's source of chance.
            position: committed tokens before the round.
        """
        ...


def judge_none(p: Tensor, draws: Draws, position: int) -> Judgement:
    """What every rule comes to without drafts: the target's own token, as plain decoding draws it.

    Args:
        p: the target's law, also a point mass.  # (1, V)
    """
    return Judgement(torch.zeros((), dtype=torch.int64, device=p.device), draws.target(p[0], position))


class SpeculativeSampling:
    """Token verification: accept x with probability min(1, p(x)/q(x)), else draw from norm(max(p - q, 0))."""

    draws = Draws

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        k = drafts.shape[0]
        u = beside(draws.uniform(position, Stream.ACCEPT, k), p)  # (K,)
        p_x = p[:k].gather(1, drafts[:, None])[:, 0]  # (K,)
        q_x = torch.ones_like(u) if q is None else q.gather(1, drafts[:, None])[:, 0]  # (K,)
        # Strict and without a division: u = 0 must not accept a token of probability 0.
        n_accepted = _leading(u * q_x < p_x)
        weights = residual(p, q, drafts, n_accepted)  # (V,)
        return Judgement(n_accepted, draws.categorical(weights, position, Stream.TARGET), u)


class GreedyMatch:
    """Temperature 0: a draft stands while it is the target's likeliest token."""

    draws = Draws

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        likeliest = p.argmax(-1)  # (K+1,)
        n_accepted = _leading(likeliest[:-1] == drafts)
        return Judgement(n_accepted, likeliest.index_select(0, n_accepted[None])[0])


class Match:
    """Draw the target's tokens as plain decoding would, and accept the drafts that equal them.

    The text is that of plain decoding with the same seed, token for token, wherever the drafts come from.
    """

    draws: type[Draws] = Draws

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        y = torch.stack([draws.target(row, position + i) for i, row in enumerate(p)])  # (K+1,)
        n_accepted = _leading(y[:-1] == drafts)
        return Judgement(n_accepted, y.index_select(0, n_accepted[None])[0])


class SeedExact(Match):
    """``Match`` with noise that the drafter shares, so that it guesses right more often."""

    draws: type[Draws] = SharedNoise


class Block:
    """Block verification: the whole block decides how many drafts stand, on average no fewer.

    With P_0 = 1 and P_i = min(P_(i-1) p_i(x_i) / q_i(x_i), 1), the first i drafts stand for the largest i
    with u_i < h_i, where h_K = P_K and, before it, h_i = s / (s + 1 - P_i) with s the sum of
    max(P_i p_(i+1) - q_(i+1), 0). The target's own token is drawn from that remainder, normalised.
    """

    draws = Draws

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        k = drafts.shape[0]
        u = beside(draws.uniform(position, Stream.ACCEPT, k), p)  # (K,)
        big_p = _capped_products(_ratios(p, q, drafts))  # (K+1,)
        if q is None:  # all of q lies on the draft, which p cannot exceed there
            s = big_p[1:k] * (1 - p[1:k].gather(1, drafts[1:, None])[:, 0])  # (K-1,)
        else:
            s = _over(big_p[1:k, None] * p[1:k], q[1:], drafts[1:]).sum(-1)  # (K-1,)
        rest = s + (1 - big_p[1:k])  # (K-1,), in this order: P = 1 leaves s itself, so h = 1
        h = torch.where(rest > 0, s / rest, 1.0)  # (K-1,)
        h = torch.cat([h, big_p[1:][-1:]])  # (K,)
        place = torch.arange(1, k + 1, device=p.device)  # (K,)
        n_accepted = torch.cat([place.new_zeros(1), place * (u < h)]).amax()  # ()
        weights = residual(p, q, drafts, n_accepted, big_p)  # (V,)
        return Judgement(n_accepted, draws.categorical(weights, position, Stream.TARGET), u, h)


def residual(
    p: Tensor, q: Tensor | None, drafts: Tensor, n_accepted: Tensor, scale: Tensor | None = None
) -> Tensor:
    """What the target's own token is drawn from, not normalised: max(p - q, 0) at row ``n_accepted``.  # (V,)

    After a full accept it is p at the last row. Where p equals q nothing is left, and p itself is the law:
    the rejection that led there had probability 0 up to rounding.

    Args:
        scale: factors of the rows of p.  # (K+1,)
    """
    k = drafts.shape[0]
    row = p.index_select(0, n_accepted[None])  # (1, V)
    if scale is not None:
        row = row * scale.index_select(0, n_accepted[None])
    if k == 0:
        return row[0]
    rejected = n_accepted.clamp(max=k - 1)[None]  # (1,); of no effect after a full accept
    q_row = None if q is None else q.index_select(0, rejected)  # (1, C)
    left = _over(row, q_row, drafts.index_select(0, rejected))  # (1, V)
    keep_row = (n_accepted == k) | (left.sum() <= 0)  # ()
    return torch.where(keep_row, row, left)[0]


def _over(p: Tensor, q: Tensor | None, drafts: Tensor) -> Tensor:
    """max(p - q, 0), row by row.  # (R, V)"""
    if q is None:  # all of q lies on the draft, which p cannot exceed there
        return p.scatter(1, drafts[:, None], 0.0)
    left = p.clone()
    left[:, : q.shape[1]] -= q
    return left.clamp_(min=0)


def _ratios(p: Tensor, q: Tensor | None, drafts: Tensor) -> Tensor:
    """p(x) / q(x) of each draft, finite.  # (K,)"""
    k = drafts.shape[0]
    p_x = p[:k].gather(1, drafts[:, None])[:, 0]  # (K,)
    if q is None:
        return p_x
    q_x = q.gather(1, drafts[:, None])[:, 0]  # (K,)
    # A q(x) that was rounded to 0 bounds nothing: any p(x) exceeds it.
    return torch.where(q_x > 0, p_x / q_x, (p_x > 0).to(p.dtype)).clamp(max=torch.finfo(p.dtype).max)


def _capped_products(ratios: Tensor) -> Tensor:
    """P_0 = 1, P_i = min(P_(i-1) ratio_i, 1).  # (K,) -> (K+1,)"""
    products = [ratios.new_ones(1)]  # (1,) each
    for ratio in ratios[:, None]:
        products.append((products[-1] * ratio).clamp(max=1))
    return torch.cat(products)


def _leading(accepted: Tensor) -> Tensor:
    """How many leading entries are True.  # ()"""
    return accepted.to(torch.int64).cumprod(0).sum()
