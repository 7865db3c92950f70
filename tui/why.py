"""Sentences that explain: why a token stands or fell, and what the speedup means.

Letters as in the papers: p the target's probability, q the drafter's, u the draw. Under token verification a
draft stands if u q < p, so with probability min(1, p / q); the other rules have sentences of their own.
"""

from __future__ import annotations

from engine.events import Alternative, DraftToken, Origin, Round, TargetToken, Verdict
from engine.measures import Measures
from engine.verdict import outcome
from tui.safe_text import visible, visible_bytes
from tui.why_numbers import apart, laws, odds, percent
from tui.why_rules import DRAWN_FIRST, why_block_correction, why_drawn, why_drawn_correction, why_in_block

__all__ = ["outcome", "percent", "verdict_sentence", "why", "why_draft", "why_pending", "why_target"]

TOKEN_VERIFICATION = "speculative_sampling"


def why(
    round_: Round,
    slot: int,
    *,
    rule: str = TOKEN_VERIFICATION,
    greedy: bool = False,
    ascii_only: bool = False,
) -> str:
    """Why the token at a place of a round stands or fell, in one sentence.

    Args:
        slot: 0..K-1 a draft, K the target's own token.
        rule: ``verify_strategy`` of the round.
        greedy: the run's temperature is 0.
    """
    if slot == len(round_.drafts):
        sentence = _why_own(round_, rule, greedy=greedy)
        if not round_.drafts and round_.k_reason != "fixed":
            sentence = f"{sentence[:-1]} (no draft: {visible(round_.k_reason, '', ascii_only=ascii_only)})."
        return f"{sentence[:-1]}, but the answer ended before it." if round_.was_cut else sentence
    draft = round_.drafts[slot]
    if draft.verdict is Verdict.ACCEPTED and slot >= len(round_.tokens):
        return "Accepted, but dropped: the answer ended before it."
    if rule == "block" and not greedy:
        return why_in_block(round_, slot)
    if rule in DRAWN_FIRST and not greedy and draft.verdict is not Verdict.IGNORED:
        return why_drawn(rule, draft, round_.target, ascii_only=ascii_only)
    likeliest = next(iter(round_.p_top[slot]), None) if slot < len(round_.p_top) else None
    return why_draft(draft, greedy=greedy, likeliest=likeliest, ascii_only=ascii_only)


def _why_own(round_: Round, rule: str, *, greedy: bool) -> str:
    """Why the target's own token."""
    if round_.target.origin is Origin.CORRECTION and not greedy:
        if rule == "block":
            return why_block_correction(round_)
        if rule in DRAWN_FIRST:
            return why_drawn_correction(rule, round_.target)
    return why_target(round_.target, len(round_.drafts), greedy=greedy)


def why_draft(
    draft: DraftToken,
    *,
    greedy: bool = False,
    likeliest: Alternative | None = None,
    ascii_only: bool = False,
) -> str:
    """Why a draft was accepted, rejected or ignored, by token verification or at temperature 0.

    Args:
        likeliest: the target's likeliest token there, to be named where it decided.
    """
    if draft.verdict is Verdict.IGNORED:
        return f"Ignored: a draft before it was rejected, so it was never judged; {laws(draft)}."
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
        return f"{word}: the target chose {chose}, and a draft stands only if it is the same; {laws(draft)}."
    if draft.p <= 0:
        return f"{word}: {laws(draft)}; so no draw could let it stand."
    if draft.p >= draft.q:
        draw, _ = apart(draft.u, 1.0)
        ratio = odds(draft.p, draft.q)
        return f"{word}: {laws(draft)}; at odds p/q of {ratio} it stands whatever the draw (it was {draw})."
    chance, draw = apart(draft.p / draft.q, draft.u)
    return f"{word}: {laws(draft)}; so it stands with probability {chance}, and the draw was {draw}."


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
    """What the speedup means, and why it is so where the costs are known; a loss is called one."""
    explained = measures.counts.why()
    if explained is not None:
        return explained
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
