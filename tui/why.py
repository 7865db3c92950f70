"""Sentences that explain: why a token stands or fell, and what the speedup means.

Letters as in the papers: p the target's probability, q the drafter's, u the draw. A draft stands if u q < p,
so with probability min(1, p / q).
"""

from __future__ import annotations

from engine.events import Alternative, DraftToken, Origin, Round, TargetToken, Verdict
from engine.measures import Measures
from tui.safe_text import visible, visible_bytes

_DIGITS = 6
"""Most decimals that two numbers are told apart by."""


_NOISE = 0.03
"""Two timings on one machine differ by so much without a reason."""


def outcome(speedup: float) -> int:
    """1 for a gain over plain decoding, -1 for a loss, 0 for what cannot be told from no difference."""
    return 0 if abs(speedup - 1) <= _NOISE else 1 if speedup > 1 else -1


def why(round_: Round, slot: int, *, greedy: bool = False, ascii_only: bool = False) -> str:
    """Why the token at a place of a round stands or fell, in one sentence.

    Args:
        slot: 0..K-1 a draft, K the target's own token.
        greedy: the run's temperature is 0.
    """
    if slot == len(round_.drafts):
        sentence = why_target(round_.target, len(round_.drafts), greedy=greedy)
        if not round_.drafts and round_.k_reason != "fixed":
            sentence = f"{sentence[:-1]} (no draft: {visible(round_.k_reason, '', ascii_only=ascii_only)})."
        return f"{sentence[:-1]}, but the answer ended before it." if round_.was_cut else sentence
    draft = round_.drafts[slot]
    if draft.verdict is Verdict.ACCEPTED and slot >= len(round_.tokens):
        return "Accepted, but dropped: the answer ended before it."
    likeliest = next(iter(round_.p_top[slot]), None) if slot < len(round_.p_top) else None
    return why_draft(draft, greedy=greedy, likeliest=likeliest, ascii_only=ascii_only)


def why_draft(
    draft: DraftToken,
    *,
    greedy: bool = False,
    likeliest: Alternative | None = None,
    ascii_only: bool = False,
) -> str:
    """Why a draft was accepted, rejected or ignored.

    Args:
        likeliest: the target's likeliest token there, to be named where it decided.
    """
    if draft.verdict is Verdict.IGNORED:
        return f"Ignored: a draft before it was rejected, so it was never judged; {_laws(draft)}."
    accepted = draft.verdict is Verdict.ACCEPTED
    word = "Accepted" if accepted else "Rejected"
    if greedy:
        if accepted:
            return f"{word}: at temperature 0 the target's likeliest token stands, and this is it."
        other = "it is another one"
        if likeliest is not None and likeliest.id != draft.id:
            other = f'that is "{visible_bytes(likeliest.piece, ascii_only=ascii_only)}" here'
        return f"{word}: at temperature 0 only the target's likeliest token stands, and {other}."
    if draft.u is None:
        chose = "this token" if accepted else "another one"
        return f"{word}: the target chose {chose}, and a draft stands only if it is the same; {_laws(draft)}."
    if draft.p <= 0:
        return f"{word}: {_laws(draft)}; so no draw could let it stand."
    if draft.p >= draft.q:
        draw, _ = _apart(draft.u, 1.0)
        odds = _odds(draft.p, draft.q)
        return f"{word}: {_laws(draft)}; at odds p/q of {odds} it stands whatever the draw (it was {draw})."
    chance, draw = _apart(draft.p / draft.q, draft.u)
    return f"{word}: {_laws(draft)}; so it stands with probability {chance}, and the draw was {draw}."


def why_pending(draft: DraftToken) -> str:
    """Of a draft whose verdict is not shown yet."""
    if draft.q >= 1 and not draft.q_top:
        return "Not judged yet: the drafter guessed it for certain."
    return f"Not judged yet: the drafter drew it with {percent(draft.q)}."


def why_target(token: TargetToken, drafted: int, *, greedy: bool = False) -> str:
    """Where the target's own token comes from; ``drafted`` is K."""
    gives = "it is the target's likeliest token" if greedy else f"the target gives it {percent(token.p)}"
    if token.origin is Origin.CORRECTION:
        if greedy:
            return "Correction: the target's likeliest token stands in place of the rejected draft."
        drafter = "" if token.q is None else f", the drafter {percent(token.q)}"
        return (
            "Correction: it stands in place of the rejected draft, drawn from what the target's law has over"
            f" the drafter's; {gives}{drafter}."
        )
    if drafted == 0:
        return f"Nothing was drafted, so this is a plain step; {gives}."
    every = {1: "the only draft was", 2: "both drafts were"}.get(drafted, f"all {drafted} drafts were")
    return f"Bonus: {every} accepted, so the same pass of the target gives one token more; {gives}."


def verdict_sentence(measures: Measures) -> str:
    """What the speedup means; a loss is called one."""
    speed, plain = measures.tokens_per_second, measures.baseline_tokens_per_second
    if speed is None:
        return "Nothing was decoded yet."
    if plain is None:
        return f"{speed:.1f} tokens/s; plain decoding was not measured yet, so there is no speedup to tell."
    ratio = speed / plain
    rates = f"{speed:.1f} tokens/s against {plain:.1f}"
    if outcome(ratio) == 0:
        return f"No difference from plain decoding that can be measured here: {rates}."
    if outcome(ratio) > 0:
        return f"{ratio:.2f} times as fast as plain decoding: {rates}."
    return f"Slower than plain decoding: {ratio:.2f} times its speed, {rates}; speculation does not pay here."


def percent(share: float) -> str:
    """A probability as words can hold it: never 0 % or 100 % unless it is."""
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %"
    if share < 0.0001:
        return "under 0.01 %"
    if share > 0.999:
        return "over 99.9 %"
    value = share * 100
    return f"{value:.0f} %" if 10 <= value < 99 else f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"


def _laws(draft: DraftToken) -> str:
    """What both models think of a draft."""
    target = "the target gives it no chance" if draft.p <= 0 else f"the target gives it {percent(draft.p)}"
    if draft.q >= 1:
        return f"{target}, the drafter guessed it for certain"
    return f"{target}, the drafter drew it with {percent(draft.q)}"


def _odds(p: float, q: float) -> str:
    if q <= 0:
        return "infinity"
    odds = p / q
    return f"{odds:.2f}" if odds < 100 else f"{odds:.0f}"


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def _apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many decimals as tell them apart, at least two."""
    for decimals in range(2, _DIGITS):
        texts = _number(one, decimals), _number(other, decimals)
        # What is neither 0 nor 1 must not look like it.
        if texts[0] != texts[1] and (float(texts[0]) not in {0.0, 1.0} or one in {0.0, 1.0}):
            return texts
    return _number(one, _DIGITS), _number(other, _DIGITS)
