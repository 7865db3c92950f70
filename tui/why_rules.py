"""Why a token stands or falls under the rules that do not judge each draft by p / q alone.

Pure. ``tui.why`` chooses among the rules; the letters are those of ``engine.verify``.
"""

from __future__ import annotations

from engine.events import DraftToken, Round, TargetToken, Verdict
from engine.recheck_block import capped_products
from tui.safe_text import visible_bytes
from tui.why_numbers import apart, laws, percent

DRAWN_FIRST = {"match": "", "seed_exact": "with the noise that the drafter shares, "}
"""Rules with which the target draws its tokens before the drafts are looked at, and how it draws them."""


def why_drawn(rule: str, draft: DraftToken, instead: TargetToken, *, ascii_only: bool = False) -> str:
    """Of an accepted or rejected draft under one of ``DRAWN_FIRST``.

    Args:
        instead: the target's own token of the round, which it drew where a draft was rejected.
    """
    how = DRAWN_FIRST[rule]
    if draft.verdict is Verdict.ACCEPTED:
        return f"Accepted: {how}the target drew this token itself; {laws(draft)}."
    drew = visible_bytes(instead.piece, ascii_only=ascii_only)
    return f'Rejected: {how}the target drew "{drew}" instead; {laws(draft)}.'


def why_drawn_correction(rule: str, token: TargetToken) -> str:
    """Of the correction under one of ``DRAWN_FIRST``."""
    how = DRAWN_FIRST[rule]
    return (
        f"Correction: {how}the target drew this token itself, and the draft is another one; {_odds(token)}."
    )


def why_in_block(round_: Round, slot: int) -> str:
    """Of a draft under block verification: the last draft whose draw is below its h decides for all."""
    draft, stands, size = round_.drafts[slot], round_.n_accepted, len(round_.drafts)
    if stands == 0:
        extent = f"no draft of the block of {size} has a draw below its h"
    elif stands == size:
        extent = f"the whole block of {size} stands, for the draw of its last draft is below its h"
    else:
        extent = f"the block of {size} stands up to draft {stands}, the last one whose draw is below its h"
    here = _here(draft)
    product = capped_products(round_.drafts)[slot]
    weight = f"P, the product of p/q up to here and at most 1, is {_rate(product)}"
    word = draft.verdict.value.capitalize()
    if draft.verdict is Verdict.ACCEPTED and slot < stands - 1:
        here = f"so this one stands whatever its own draw; {here}"
    return f"{word}: {extent}; {here}; {laws(draft)}; {weight}."


def why_block_correction(round_: Round) -> str:
    """Of the correction under block verification."""
    product = [1.0, *capped_products(round_.drafts[: round_.n_accepted])][-1]
    scaled = "" if product == 1 else f", times P {_rate(product)},"
    return (
        "Correction: it stands in place of the drafts that fell, drawn from what the target's law"
        f"{scaled} has over the drafter's; {_odds(round_.target)}."
    )


def _here(draft: DraftToken) -> str:
    if draft.u is None or draft.h is None:
        return "its draw is not known"
    draw, h = apart(draft.u, draft.h)
    below = "below" if draft.u < draft.h else "not below"
    return f"here the draw {draw} is {below} h {h}"


def _rate(value: float) -> str:
    return "1" if value == 1 else apart(value, 1.0)[0]


def _odds(token: TargetToken) -> str:
    drafter = "" if token.q is None else f", the drafter {percent(token.q)}"
    return f"the target gives it {percent(token.p)}{drafter}"
