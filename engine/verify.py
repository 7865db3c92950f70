"""Acceptance rules: which draft tokens stand, and the target's own token after them.

Letters as in the papers: p the target's law, q the law a draft token was drawn from, u uniform in [0, 1). V
ids, K drafts. Everything is a pure function of its arguments and stays on the device of p.

* Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; Chen et al. 2023 (arXiv 2302.01318), algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.draws import Draws, Stream


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule decided, as tensors on the device of p."""

    n_accepted: Tensor
    """Accepted drafts: the first ``n_accepted`` of them.  # ()"""
    token: Tensor
    """The target's own token.  # ()"""
    u: Tensor | None
    """The uniform draws used; None if the rule draws none.  # (K,)"""


class Rule(Protocol):
    """An acceptance rule."""

    lossless: bool
    """Whether the law of the text is that of plain decoding."""

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


class SpeculativeSampling:
    """Token verification: accept x with probability min(1, p(x)/q(x)), else draw from norm(max(p - q, 0))."""

    lossless = True

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        k = drafts.shape[0]
        u = draws.uniform(position, Stream.ACCEPT, k).to(p.device, p.dtype)  # (K,)
        p_x = p[:k].gather(1, drafts[:, None])[:, 0]  # (K,)
        q_x = torch.ones_like(u) if q is None else q.gather(1, drafts[:, None])[:, 0]  # (K,)
        # Strict and without a division: u = 0 must not accept a token of probability 0.
        n_accepted = _leading(u * q_x < p_x)
        weights = residual(p, q, drafts, n_accepted)  # (V,)
        return Judgement(n_accepted, draws.categorical(weights, position, Stream.TARGET), u)


class GreedyMatch:
    """Temperature 0: a draft stands while it is the target's likeliest token."""

    lossless = True

    def judge(self, p: Tensor, q: Tensor | None, drafts: Tensor, draws: Draws, position: int) -> Judgement:
        likeliest = p.argmax(-1)  # (K+1,)
        n_accepted = _leading(likeliest[:-1] == drafts)
        return Judgement(n_accepted, likeliest.index_select(0, n_accepted[None])[0], None)


def residual(p: Tensor, q: Tensor | None, drafts: Tensor, n_accepted: Tensor) -> Tensor:
    """What the target's own token is drawn from, not normalised: max(p - q, 0) at row ``n_accepted``.  # (V,)

    After a full accept it is p at the last row. Where p equals q nothing is left, and p itself is the law:
    the rejection that led there had probability 0 up to rounding.
    """
    k = drafts.shape[0]
    row = p.index_select(0, n_accepted[None])[0]  # (V,)
    if k == 0:
        return row
    rejected = n_accepted.clamp(max=k - 1)[None]  # (1,); of no effect after a full accept
    if q is None:
        x = drafts.index_select(0, rejected)  # (1,)
        left = row.scatter(0, x, 0.0)
    else:
        common = q.shape[1]
        left = row.clone()
        left[:common] -= q.index_select(0, rejected)[0]
        left.clamp_(min=0)
    keep_row = (n_accepted == k) | (left.sum() <= 0)  # ()
    return torch.where(keep_row, row, left)


def _leading(accepted: Tensor) -> Tensor:
    """How many leading entries are True.  # ()"""
    return accepted.to(torch.int64).cumprod(0).sum()
