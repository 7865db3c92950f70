"""The sentences say what happened, with the numbers that decided it, and never contradict them."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import make_round

from engine.events import Alternative, BaselineFinished, DraftToken, EndReason, Origin, TargetToken, Verdict
from engine.measures import NOTHING
from tui.why import outcome, percent, verdict_sentence, why, why_draft, why_pending, why_target

TOP = (Alternative(1, b" a", 0.5),)


def draft(
    p: float, q: float, u: float | None, verdict: Verdict, top: tuple[Alternative, ...] = TOP
) -> DraftToken:
    return DraftToken(1, b" a", q, p, u, verdict, top)


ACCEPTED, REJECTED, IGNORED = Verdict.ACCEPTED, Verdict.REJECTED, Verdict.IGNORED


LOW, HIGH = "the target gives it 3.1 %", "the target gives it 62 %"
DREW, CERTAIN = "the drafter drew it with 41 %", "the drafter guessed it for certain"
EVEN = "at odds p/q of 1.00 it stands whatever the draw"
SAME = "and a draft stands only if it is the same"
CASES = {
    "rejected": (
        draft(0.031, 0.41, 0.52, REJECTED),
        f"Rejected: {LOW}, {DREW}; so it stands with probability 0.08, and the draw was 0.52.",
    ),
    "accepted": (
        draft(0.031, 0.41, 0.05, ACCEPTED),
        f"Accepted: {LOW}, {DREW}; so it stands with probability 0.08, and the draw was 0.05.",
    ),
    "p above q": (
        draft(0.62, 0.41, 0.52, ACCEPTED),
        f"Accepted: {HIGH}, {DREW}; at odds p/q of 1.51 it stands whatever the draw (it was 0.52).",
    ),
    "p equals q": (
        draft(0.62, 0.62, 0.9996, ACCEPTED),
        f"Accepted: {HIGH}, the drafter drew it with 62 %; {EVEN} (it was 0.9996).",
    ),
    "certain guess": (
        draft(0.031, 1.0, 0.52, REJECTED, ()),
        f"Rejected: {LOW}, {CERTAIN}; so it stands with probability 0.03, and the draw was 0.52.",
    ),
    "certain both": (
        draft(1.0, 1.0, 0.52, ACCEPTED, ()),
        f"Accepted: the target gives it 100 %, {CERTAIN}; {EVEN} (it was 0.52).",
    ),
    "p is 0": (
        draft(0.0, 0.41, 0.0, REJECTED),
        f"Rejected: the target gives it no chance, {DREW}; so no draw could let it stand.",
    ),
    "ignored": (
        draft(0.62, 0.41, 0.3, IGNORED),
        f"Ignored: a draft before it was rejected, so it was never judged; {HIGH}, {DREW}.",
    ),
    "match": (
        draft(0.62, 0.41, None, ACCEPTED),
        f"Accepted: the target chose this token, {SAME}; {HIGH}, {DREW}.",
    ),
    "no match": (
        draft(0.62, 0.41, None, REJECTED),
        f"Rejected: the target chose another one, {SAME}; {HIGH}, {DREW}.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_drafts(case: str) -> None:
    token, sentence = CASES[case]
    assert why_draft(token) == sentence


@pytest.mark.parametrize("u", [None, 0.3])
def test_at_temperature_0_the_likeliest_token_decides(u: float | None) -> None:
    assert why_draft(draft(1.0, 0.4, u, ACCEPTED), greedy=True) == (
        "Accepted: at temperature 0 the target's likeliest token stands, and this is it."
    )
    wrong = draft(0.0, 0.4, u, REJECTED)
    rule = "Rejected: at temperature 0 only the target's likeliest token stands, and"
    assert why_draft(wrong, greedy=True) == f"{rule} it is another one."
    assert why_draft(wrong, greedy=True, likeliest=TOP[0]) == f"{rule} it is another one.", "a near tie"
    other = Alternative(2, b" \x1b[2J\n", 0.9)
    assert why_draft(wrong, greedy=True, likeliest=other) == f'{rule} that is "·␛[2J⏎" here.'
    assert why_draft(wrong, greedy=True, likeliest=other, ascii_only=True).isascii()


def test_the_target_s_own_token() -> None:
    correction = TargetToken(3, b"c", Origin.CORRECTION, 0.75, 0.125)
    assert why_target(correction, 3) == (
        "Correction: it stands in place of the rejected draft, drawn from what the target's law has over the"
        " drafter's; the target gives it 75 %, the drafter 12 %."
    )
    assert why_target(correction, 3, greedy=True).startswith(
        "Correction: the target's likeliest token stands"
    )
    bonus = TargetToken(3, b"c", Origin.BONUS, 0.75, None)
    gives = "so the same pass of the target gives one token more; the target gives it 75 %."
    assert why_target(bonus, 5) == f"Bonus: all 5 drafts were accepted, {gives}"
    assert why_target(bonus, 2) == f"Bonus: both drafts were accepted, {gives}"
    assert why_target(bonus, 1) == f"Bonus: the only draft was accepted, {gives}"
    plain = "Nothing was drafted, so this is a plain step; the target gives it 75 %."
    assert why_target(bonus, 0) == plain


def test_each_place_of_a_round_has_its_sentence() -> None:
    round_ = make_round(1, 3, 1)
    words = [why(round_, slot).split(":")[0] for slot in range(4)]
    assert words == ["Accepted", "Rejected", "Ignored", "Correction"]
    greedy = [why(round_, slot, greedy=True) for slot in range(4)]
    assert '" w1.1"' not in greedy[1], "its own piece is not the other one"
    lost = dataclasses.replace(round_, p_top=((), (Alternative(9, b" cat", 0.9),)))
    assert '"·cat" here' in why(lost, 1, greedy=True)
    assert why(lost, 0, greedy=True).startswith("Accepted")


def test_a_round_without_a_draft_says_why() -> None:
    off = dataclasses.replace(make_round(1, 0, 0), k_reason="drafter context\x1b full")
    assert why(off, 0) == (
        "Nothing was drafted, so this is a plain step; the target gives it 75 % (no draft: drafter context␛"
        " full)."
    )
    assert "(no draft" not in why(make_round(1, 0, 0), 0)


def test_what_the_cut_removed_is_called_dropped() -> None:
    cut = make_round(1, 3, 3, keep=2, cut=EndReason.EOS)
    assert why(cut, 1).startswith("Accepted:")
    assert why(cut, 2) == "Accepted, but dropped: the answer ended before it."
    assert why(cut, 3).endswith("75 %, but the answer ended before it.")


def test_of_a_draft_that_is_not_judged_yet_only_the_drafter_s_side_is_told() -> None:
    assert why_pending(draft(0.1, 0.41, 0.5, REJECTED)) == "Not judged yet: the drafter drew it with 41 %."
    assert why_pending(draft(0.1, 1.0, 0.5, REJECTED, ())) == (
        "Not judged yet: the drafter guessed it for certain."
    )


@given(st.floats(0, 1), st.floats(1e-6, 1), st.floats(0, 1, exclude_max=True))
def test_the_numbers_shown_agree_with_the_verdict(p: float, q: float, u: float) -> None:
    accepted = u * q < p
    sentence = why_draft(draft(p, q, u, ACCEPTED if accepted else REJECTED))
    assert sentence.startswith("Accepted" if accepted else "Rejected")
    assert sentence.endswith(".")
    if "probability" in sentence:
        chance, drawn = (
            part.split(",")[0].rstrip(".") for part in sentence.split("probability ")[1].split("was ")
        )
        assert (float(drawn) <= float(chance)) if accepted else (float(drawn) >= float(chance))
        if abs(p / q - u) > 1e-5:
            assert chance != drawn


@given(st.floats(0, 1))
def test_a_percentage_is_0_or_100_only_if_it_is(share: float) -> None:
    text = percent(share)
    assert (text == "0 %") == (share == 0)
    assert (text == "100 %") == (share == 1)
    if text[0].isdigit():
        assert float(text.split()[0]) == pytest.approx(share * 100, rel=0.05, abs=0.006)


def measured(speculative_ms: float, plain_ms: float | None) -> str:
    round_ = dataclasses.replace(make_round(1, 3, 3), draft_ms=0.0, verify_ms=speculative_ms * 4, host_ms=0.0)
    measures = NOTHING.with_round(round_)
    if plain_ms is not None:
        measures = measures.with_baseline(
            BaselineFinished(
                0, 0, 4, (), plain_ms * 4, 0.0, identical=None, first_difference=None, complete=True
            )
        )
    return verdict_sentence(measures)


def test_the_speedup_in_words() -> None:
    assert verdict_sentence(NOTHING) == "Nothing was decoded yet."
    assert measured(50.0, None) == (
        "20.0 tokens/s; plain decoding was not measured yet, so there is no speedup to tell."
    )
    assert measured(50.0, 91.5) == "1.83 times as fast as plain decoding: 20.0 tokens/s against 10.9."
    same = "No difference from plain decoding that can be measured here"
    assert measured(50.0, 50.1) == f"{same}: 20.0 tokens/s against 20.0."
    assert measured(71.4, 70.9) == f"{same}: 14.0 tokens/s against 14.1."
    assert [outcome(ratio) for ratio in (0.96, 0.98, 1.0, 1.02, 1.04)] == [-1, 0, 0, 0, 1]
    assert measured(50.0, 41.0) == (
        "Slower than plain decoding: 0.82 times its speed, 20.0 tokens/s against 24.4;"
        " speculation does not pay here."
    )
