"""The round's one transfer from device to host: everything an event needs, packed into one tensor."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

import torch
from torch import Tensor

from engine.drafters.base import Draft
from engine.errors import NumericalError
from engine.events import Alternative, DraftToken, Origin, TargetToken, Verdict
from engine.models.token_text import TokenText
from engine.verify import Judgement


@dataclass(frozen=True, slots=True)
class Readout:
    """A judged round on the host."""

    drafts: tuple[DraftToken, ...]
    p_top: tuple[tuple[Alternative, ...], ...]
    n_accepted: int
    target: TargetToken

    @property
    def ids(self) -> list[int]:
        """What the rule emits: accepted drafts, then the target's own token."""
        return [draft.id for draft in self.drafts[: self.n_accepted]] + [self.target.id]


def read(
    p: Tensor, p_top: Tensor, draft: Draft, judgement: Judgement, text: TokenText, dtypes: tuple[str, str]
) -> Readout:
    """Fetch a judged round.

    Args:
        p: the target's law.  # (K+1, V)
        p_top: its likeliest ids and their probabilities.  # (K+1, 2 * TOP)
        draft: on the device of p.
        dtypes: of target and drafter, for the error.

    Raises:
        NumericalError: the logits of the target or of the drafter are NaN or infinite.
    """
    k = draft.ids.shape[0]
    flat = torch.cat([part.reshape(-1).to(p.dtype) for part in _parts(p, p_top, draft, judgement)]).tolist()
    n_accepted, token, p_token, q_token = int(flat[0]), int(flat[1]), flat[2], flat[3]
    columns = [flat[4 + i * k : 4 + (i + 1) * k] for i in range(5)]  # id, p(x), q(x), u, h of each draft
    tops = [
        _alternatives(flat[at : at + p_top.shape[1]], text)
        for at in range(4 + 5 * k, len(flat), p_top.shape[1])
    ]
    p_tops, q_tops = tops[: k + 1], tops[k + 1 :]
    for rows, whose, dtype in ((p_tops, "target", dtypes[0]), (q_tops, "drafter", dtypes[1])):
        if any(isnan(row[0].probability) for row in rows):
            raise not_finite(whose, dtype)
    drafts = tuple(
        DraftToken(
            id=int(id),
            piece=text.piece(int(id)),
            q=q,
            p=p_x,
            u=u if judgement.u is not None else None,
            verdict=_verdict(index, n_accepted),
            q_top=q_tops[index] if q_tops else (),
            h=h if judgement.h is not None else None,
        )
        for index, (id, p_x, q, u, h) in enumerate(zip(*columns, strict=True))
    )
    full = n_accepted == k
    origin = Origin.BONUS if full else Origin.CORRECTION
    target = TargetToken(token, text.piece(token), origin, p_token, None if full else q_token)
    return Readout(drafts, tuple(p_tops), n_accepted, target)


def not_finite(whose: str, dtype: str) -> NumericalError:
    """What is said of a model whose logits are NaN or infinite."""
    return NumericalError(
        f"the {whose}'s logits are not finite (NaN or infinity) in {dtype}",
        hint='try --set run.dtype="float32"',
    )


def _parts(p: Tensor, p_top: Tensor, draft: Draft, judgement: Judgement) -> list[Tensor]:
    ids, k = draft.ids, draft.ids.shape[0]
    n, token = judgement.n_accepted[None], judgement.token[None]  # (1,) each
    p_token = p.index_select(0, n).gather(1, token[None])  # (1, 1)
    if k == 0:
        return [n, token, p_token, torch.zeros_like(p_token), p_top]
    p_x = p[:k].gather(1, ids[:, None])  # (K, 1)
    rejected = n.clamp(max=k - 1)
    if draft.q is None:
        q_x = torch.ones_like(p_x)
        q_token = ids.index_select(0, rejected) == token
    else:
        q_x = draft.q.gather(1, ids[:, None])  # (K, 1)
        common = draft.q.shape[1]
        q_token = draft.q.index_select(0, rejected).gather(1, token[None].clamp(max=common - 1))
        q_token = q_token * (token < common)  # ids the drafter does not know have none of its mass
    u, h = (torch.zeros_like(p_x) if drawn is None else drawn for drawn in (judgement.u, judgement.h))
    parts = [n, token, p_token, q_token, ids, p_x, q_x, u, h, p_top]
    return parts if draft.top is None else [*parts, draft.top]


def _alternatives(row: list[float], text: TokenText) -> tuple[Alternative, ...]:
    width = len(row) // 2
    return tuple(
        Alternative(int(id), text.piece(int(id)), probability)
        for id, probability in zip(row[:width], row[width:], strict=True)
    )


def _verdict(index: int, n_accepted: int) -> Verdict:
    if index < n_accepted:
        return Verdict.ACCEPTED
    return Verdict.REJECTED if index == n_accepted else Verdict.IGNORED
