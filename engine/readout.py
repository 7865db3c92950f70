"""The round's one transfer from device to host: everything an event needs, packed into one tensor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import isnan

import torch
from torch import Tensor

from engine.drafters.base import Draft
from engine.errors import NumericalError
from engine.events import Alternative, DraftToken, Origin, TargetToken, Verdict
from engine.laws import Laws
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


def read(laws: Laws, draft: Draft, judgement: Judgement, text: TokenText, dtypes: tuple[str, str]) -> Readout:
    """Fetch a judged round.

    Args:
        laws: the target's, R = K+1.
        draft: ids and laws in the columns of ``laws``.
        judgement: its token is a column too.
        dtypes: of target and drafter, for the error.

    Raises:
        NumericalError: the logits of the target or of the drafter are NaN or infinite.
    """
    k = draft.ids.shape[0]
    p_top = laws.top()  # (K+1, 2 * TOP)
    numbers = iter(torch.cat(_parts(laws, p_top, draft, judgement)).tolist())

    def take(count: int) -> list[float]:
        return list(islice(numbers, count))

    n_accepted, token, *ids = map(int, take(2 + k))
    *p_x, p_token = take(k + 1)
    full = n_accepted == k
    if draft.q is None or not k:
        q_x, q_token = [1.0] * k, float(not full and ids[n_accepted] == token)
    else:
        *q_x, q_token = take(k + 1)
    u = [None] * k if judgement.u is None else take(k)
    h = [None] * k if judgement.h is None else take(k)
    p_tops = _alternatives(take(p_top.numel()), p_top.shape[1], text)
    q_tops = [] if draft.top is None else _alternatives(take(draft.top.numel()), draft.top.shape[1], text)
    for rows, whose, dtype in ((p_tops, "target", dtypes[0]), (q_tops, "drafter", dtypes[1])):
        if any(isnan(row[0].probability) for row in rows):
            raise not_finite(whose, dtype)
    drafts = tuple(
        DraftToken(
            id=id_,
            piece=text.piece(id_),
            q=q_x[index],
            p=p_x[index],
            u=u[index],
            verdict=_verdict(index, n_accepted),
            q_top=q_tops[index] if q_tops else (),
            h=h[index],
        )
        for index, id_ in enumerate(ids)
    )
    origin = Origin.BONUS if full else Origin.CORRECTION
    target = TargetToken(token, text.piece(token), origin, p_token, None if full else q_token)
    return Readout(drafts, tuple(p_tops), n_accepted, target)


def not_finite(whose: str, dtype: str) -> NumericalError:
    """What is said of a model whose logits are NaN or infinite."""
    return NumericalError(
        f"the {whose}'s logits are not finite (NaN or infinity) in {dtype}",
        hint='try --set run.dtype="float32"',
    )


def _parts(laws: Laws, p_top: Tensor, draft: Draft, judgement: Judgement) -> list[Tensor]:
    """What is read, in the order in which ``read`` takes it."""
    p, ids, k = laws.p, draft.ids, draft.ids.shape[0]
    n, token = judgement.n_accepted[None], judgement.token[None]  # (1,) each
    whole = torch.cat([n, laws.ids_of(torch.cat([token, ids]))])  # (2 + K,)
    row = torch.arange(k, device=p.device)  # (K,)
    parts = [whole.to(p.dtype), p.take(torch.cat([row, n]) * p.shape[1] + torch.cat([ids, token]))]  # (K+1,)
    if draft.q is not None and k:
        width = draft.q.shape[1]
        rejected = n.clamp(max=k - 1)  # of no effect after a full accept
        column = torch.cat([ids, token])
        q = draft.q.take(torch.cat([row, rejected]) * width + column.clamp(max=width - 1))  # (K+1,)
        parts.append(q * (column < width))  # ids the drafter does not know have none of its mass
    drawn = [part for part in (judgement.u, judgement.h) if part is not None]  # (K,) each
    tops = [p_top] if draft.top is None else [p_top, draft.top]
    return [*parts, *(part.reshape(-1).to(p.dtype) for part in (*drawn, *tops))]


def _alternatives(flat: list[float], width: int, text: TokenText) -> list[tuple[Alternative, ...]]:
    """The alternatives of each row; a row has ids, then their probabilities."""
    half = width // 2
    return [
        tuple(
            Alternative(int(id_), text.piece(int(id_)), probability)
            for id_, probability in zip(flat[at : at + half], flat[at + half : at + width], strict=True)
        )
        for at in range(0, len(flat), width)
    ]


def _verdict(index: int, n_accepted: int) -> Verdict:
    if index < n_accepted:
        return Verdict.ACCEPTED
    return Verdict.REJECTED if index == n_accepted else Verdict.IGNORED
