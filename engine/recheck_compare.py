"""Two rounds that should be the same, a recorded one and its repetition: where they differ, and how much.

A decision hangs on a margin: how far the numbers were from the other outcome. A margin of 0 is a tie, one
that rounding explains is no fault, any other one is a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.events import Alternative, Round, Settings
from engine.recheck_round import Grade

Row = tuple[Alternative, ...]
Miss = Callable[[int | None, int], float | None]
"""How much of the law's mass lay between the draw and an id: of draft number i, or (None) of the target's
token; None if that token was not drawn."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One decision that came out otherwise."""

    check: str
    """What was decided: "draft", "acceptance", "target" or "commit"."""
    text: str
    grade: Grade
    margin: float | None
    """None: no rounding can have a part in it."""


def graded(check: str, text: str, margin: float | None, tolerance: float) -> Difference:
    """A difference by its margin; ``tolerance`` is what rounding explains."""
    if margin is None:
        return Difference(check, f"{text}; rounding has no part in it", Grade.BUG, None)
    if margin == 0:
        return Difference(check, text, Grade.TIE, 0.0)
    grade = Grade.ROUNDING if margin <= tolerance else Grade.BUG
    told = f"{text}; it hung on {margin:.3g}, rounding explains {tolerance:g}"
    return Difference(check, told, grade, margin)


def same_ids(old: Round, new: Round) -> bool:
    """Whether both drafted, accepted and committed the same."""
    return _ids(old) == _ids(new)


def same_numbers(old: Round, new: Round) -> bool:
    """Whether p, q and u agree in every bit."""
    return _numbers(old) == _numbers(new)


def drift(old: Round, new: Round) -> float:
    """Largest difference of a probability, between rounds of the same ids."""
    pairs = [(one.p, other.p) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs += [(one.q, other.q) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs.append((old.target.p, new.target.p))
    return max(abs(one - other) for one, other in pairs)


def difference(old: Round, new: Round, settings: Settings, miss: Miss, tolerance: float) -> Difference:
    """The first decision in which two rounds after the same tokens differ.

    Args:
        old: as it was recorded.
        new: its repetition.
        miss: of the repetition's draws.
        tolerance: difference of a probability that rounding explains.
    """
    for place, (was, now) in enumerate(zip(old.drafts, new.drafts, strict=False)):
        if was.id != now.id:
            margin = miss(place, was.id)
            if margin is None:
                margin = likeliest_margin(was.q_top, now.q_top, was.id, now.id)
            return graded("draft", f"draft {place + 1} is id {now.id}, it was {was.id}", margin, tolerance)
    if len(old.drafts) != len(new.drafts):
        text = f"{len(new.drafts)} tokens are drafted, they were {len(old.drafts)}"
        return graded("draft", text, None, tolerance)
    if old.n_accepted != new.n_accepted:
        text = f"{new.n_accepted} drafts are accepted, they were {old.n_accepted}"
        return graded("acceptance", text, _acceptance_margin(old, new, settings), tolerance)
    if old.target.id != new.target.id:
        return graded("target", *_target_difference(old, new, settings, miss), tolerance)
    return graded("commit", f"{_kept(new)}; it was: {_kept(old)}", None, tolerance)


def likeliest_margin(old: Row, new: Row, was: int, now: int) -> float | None:
    """How far apart two ids are that were the likeliest in one law each; None without the laws."""
    if not old or not new:
        return None
    return max(abs(_chance(row, was) - _chance(row, now)) for row in (old, new))


def _acceptance_margin(old: Round, new: Round, settings: Settings) -> float | None:
    at = min(old.n_accepted, new.n_accepted)
    was, now = old.drafts[at], new.drafts[at]
    if settings.temperature > 0 and was.u is not None:
        return max(abs(was.u * was.q - was.p), abs(was.u * now.q - now.p))
    if at >= min(len(old.p_top), len(new.p_top)) or not old.p_top[at] or not new.p_top[at]:
        return None
    return max(_from_the_top(row, was.id) for row in (old.p_top[at], new.p_top[at]))


def _target_difference(old: Round, new: Round, settings: Settings, miss: Miss) -> tuple[str, float | None]:
    was, now, at = old.target.id, new.target.id, old.n_accepted
    text = f"the target's token is id {now}, it was {was}"
    if settings.temperature > 0:
        return text, miss(None, was)
    rows = (old.p_top[at], new.p_top[at]) if at < len(old.p_top) else ((), ())
    return text, likeliest_margin(*rows, was, now)


def _from_the_top(row: Row, id_: int) -> float:
    """How far an id is from ceasing, or beginning, to be the likeliest."""
    others = max((entry.probability for entry in row if entry.id != id_), default=0.0)
    return abs(_chance(row, id_) - others)


def _chance(row: Row, id_: int) -> float:
    """Of an id among the likeliest; one that is not among them has none to speak of."""
    return next((entry.probability for entry in row if entry.id == id_), 0.0)


def _kept(round_: Round) -> str:
    ends = "it goes on" if round_.cut is None else f"it ends by {round_.cut}"
    return f"{len(round_.tokens)} tokens are kept, {round_.taken_back} taken back, {ends}"


def _ids(round_: Round) -> tuple[object, ...]:
    drafts = tuple(draft.id for draft in round_.drafts)
    return drafts, round_.n_accepted, round_.target.id, round_.tokens, round_.taken_back, round_.cut


def _numbers(round_: Round) -> tuple[object, ...]:
    return tuple((draft.p, draft.q, draft.u) for draft in round_.drafts), round_.target.p, round_.target.q
