"""Two rounds that should be the same, a recorded one and its repetition: where they differ, and how much.

A decision hangs on a margin: how far the numbers were from the other outcome. A margin of 0 is a tie, one
that rounding explains is no fault, any other one is a bug.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.draws import Stream
from engine.events import Alternative, Round, Settings
from engine.recheck_block import capped_products
from engine.recheck_draws import Watched
from engine.recheck_finding import Grade
from engine.registry import RULES

Row = tuple[Alternative, ...]


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
    """Whether both drafted, accepted and committed the same, and the same part of the drafter guessed."""
    return _ids(old) == _ids(new)


def same_numbers(old: Round, new: Round) -> bool:
    """Whether p, q, u and h agree in every bit."""
    return _numbers(old) == _numbers(new)


def drift(old: Round, new: Round) -> float:
    """Largest difference of a probability, between rounds of the same ids."""
    pairs = [(one.p, other.p) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs += [(one.q, other.q) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs.append((old.target.p, new.target.p))
    return max(abs(one - other) for one, other in pairs)


def fixed_text(settings: Settings) -> bool:
    """Whether the text does not depend on the drafts: at temperature 0, and where the seed alone fixes it."""
    return settings.temperature == 0 or RULES[settings.verify_strategy].follows_seed


def difference(old: Round, new: Round, settings: Settings, draws: Watched, tolerance: float) -> Difference:
    """The first decision in which two rounds after the same tokens differ.

    Args:
        old: as it was recorded.
        new: its repetition.
        draws: those of the repetition.
        tolerance: difference of a probability that rounding explains.
    """
    if old.source != new.source:
        text = f"{new.source or 'nothing'} guesses, it was {old.source or 'nothing'}"
        return graded("draft", text, None, tolerance)
    for place, (was, now) in enumerate(zip(old.drafts, new.drafts, strict=False)):
        if was.id != now.id:
            margin = draws.miss(Stream.DRAFT, place, was.id)
            if margin is None:
                margin = likeliest_margin(was.q_top, now.q_top, was.id, now.id)
            return graded("draft", f"draft {place + 1} is id {now.id}, it was {was.id}", margin, tolerance)
    if len(old.drafts) != len(new.drafts):
        text = f"{len(new.drafts)} tokens are drafted, they were {len(old.drafts)}"
        return graded("draft", text, None, tolerance)
    if old.n_accepted != new.n_accepted:
        text = f"{new.n_accepted} drafts are accepted, they were {old.n_accepted}"
        return graded("acceptance", text, _acceptance_margin(old, new, settings, draws), tolerance)
    if old.target.id != new.target.id:
        return graded("target", *_target_difference(old, new, settings, draws), tolerance)
    return graded("commit", f"{_kept(new)}; it was: {_kept(old)}", None, tolerance)


def likeliest_margin(old: Row, new: Row, was: int, now: int) -> float | None:
    """How far apart two ids are that were the likeliest in one law each; None without the laws."""
    if not old or not new:
        return None
    return max(abs(_chance(row, was) - _chance(row, now)) for row in (old, new))


def _acceptance_margin(old: Round, new: Round, settings: Settings, draws: Watched) -> float | None:
    at = min(old.n_accepted, new.n_accepted)
    was, now = old.drafts[at], new.drafts[at]
    if settings.temperature > 0:
        if fixed_text(settings):  # the target drew the draft in one of them, and another token in the other
            drawn = old.target if at == old.n_accepted else was
            return draws.miss(Stream.TARGET, at, drawn.id)
        if settings.verify_strategy == "block":
            return _block_margin(old, new)
        if was.u is not None:
            return max(abs(was.u * was.q - was.p), abs(was.u * now.q - now.p))
    if at >= min(len(old.p_top), len(new.p_top)) or not old.p_top[at] or not new.p_top[at]:
        return None
    return max(_from_the_top(row, was.id) for row in (old.p_top[at], new.p_top[at]))


def _block_margin(old: Round, new: Round) -> float | None:
    """How far u was from h at the draft that only one of them kept, as a difference of a probability.

    u < h is s (1 - u) > u (1 - P), which is off by (1 - P) (h - u) / (1 - h). A probability that is off by t
    moves P by up to t / q(x) at each draft, and s by t more.
    """
    at = max(old.n_accepted, new.n_accepted) - 1
    margins = []
    for drafts in (old.drafts, new.drafts):
        draft = drafts[at]
        if draft.u is None or draft.h is None or draft.h >= 1 or not all(each.q for each in drafts):
            continue
        off = abs(draft.h - draft.u)
        if at < len(drafts) - 1:
            off *= (1 - capped_products(drafts)[at]) / (1 - draft.h)
        margins.append(off / (1 + sum(1 / each.q for each in drafts[: at + 1])))
    return max(margins, default=None)


def _target_difference(
    old: Round, new: Round, settings: Settings, draws: Watched
) -> tuple[str, float | None]:
    was, now, at = old.target.id, new.target.id, old.n_accepted
    text = f"the target's token is id {now}, it was {was}"
    if settings.temperature > 0:
        return text, draws.miss(Stream.TARGET, at if fixed_text(settings) else 0, was)
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
    drafts = round_.source, *(draft.id for draft in round_.drafts)
    return drafts, round_.n_accepted, round_.target.id, round_.tokens, round_.taken_back, round_.cut


def _numbers(round_: Round) -> tuple[object, ...]:
    drafts = tuple((draft.p, draft.q, draft.u, draft.h) for draft in round_.drafts)
    return drafts, round_.target.p, round_.target.q
