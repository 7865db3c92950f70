"""Every verdict has a sentence under every rule, and the numbers in it are those that decided."""

from __future__ import annotations

import dataclasses

import pytest
from support.nasty import OBEYED
from support.panes import NASTY_PIECES
from support.scripted import make_round

from engine.events import Round, Verdict
from engine.registry import RULES
from tui.why import why

GIVES = "the target gives it 40 %, the drafter drew it with 50 %"


def block(n_accepted: int) -> Round:
    """Drafts of ratio 0.8: P is 0.8, 0.64, 0.51."""
    made = make_round(1, 3, n_accepted)
    u = [0.7 if place < n_accepted - 1 else 0.12 if place < n_accepted else 0.81 for place in range(3)]
    h = [0.4, 0.4, 0.512]
    drafts = (dataclasses.replace(draft, u=u[i], h=h[i]) for i, draft in enumerate(made.drafts))
    return dataclasses.replace(made, drafts=tuple(drafts))


def drawn(n_accepted: int, k: int = 3, piece: bytes = b" cat") -> Round:
    made = make_round(1, k, n_accepted)
    drafts = tuple(dataclasses.replace(draft, u=None) for draft in made.drafts)
    return dataclasses.replace(made, drafts=drafts, target=dataclasses.replace(made.target, piece=piece))


def test_a_block_stands_up_to_the_last_draft_below_its_h() -> None:
    told = [why(block(2), slot, rule="block") for slot in range(4)]
    extent = "the block of 3 stands up to draft 2, the last one whose draw is below its h"
    weight = "P, the product of p/q up to here and at most 1, is"
    assert told[0] == (
        f"Accepted: {extent}; so this one stands whatever its own draw; here the draw 0.70 is not below"
        f" h 0.40; {GIVES}; {weight} 0.80."
    )
    assert told[1] == f"Accepted: {extent}; here the draw 0.12 is below h 0.40; {GIVES}; {weight} 0.64."
    assert told[2] == f"Rejected: {extent}; here the draw 0.81 is not below h 0.51; {GIVES}; {weight} 0.51."
    assert told[3] == (
        "Correction: it stands in place of the drafts that fell, drawn from what the target's law, times P"
        " 0.64, has over the drafter's; the target gives it 75 %, the drafter 12 %."
    )


def test_a_block_may_fall_or_stand_as_a_whole() -> None:
    assert why(block(0), 0, rule="block").startswith(
        "Rejected: no draft of the block of 3 has a draw below its h;"
    )
    assert why(block(0), 2, rule="block").startswith(
        "Ignored: no draft of the block of 3 has a draw below its h;"
    )
    whole = "the whole block of 3 stands, for the draw of its last draft is below its h"
    assert why(block(3), 2, rule="block").startswith(f"Accepted: {whole}; here the draw 0.12 is below h 0.51")
    assert "from what the target's law has over" in why(block(0), 3, rule="block")
    assert why(block(3), 3, rule="block").startswith("Bonus: all 3 drafts were accepted")


@pytest.mark.parametrize(
    ("rule", "how"), [("match", ""), ("seed_exact", "with the noise that the drafter shares, ")]
)
def test_what_the_target_drew_itself_stands(rule: str, how: str) -> None:
    told = [why(drawn(1), slot, rule=rule) for slot in range(4)]
    assert told[0] == f"Accepted: {how}the target drew this token itself; {GIVES}."
    assert told[1] == f'Rejected: {how}the target drew "·cat" instead; {GIVES}.'
    assert told[2].startswith("Ignored: a draft before it was rejected")
    assert told[3] == (
        f"Correction: {how}the target drew this token itself, and the draft is another one;"
        " the target gives it 75 %, the drafter 12 %."
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("n_accepted", range(4))
def test_every_verdict_has_its_word_under_every_rule(rule: str, greedy: bool, n_accepted: int) -> None:
    made = block(n_accepted) if rule == "block" else make_round(1, 3, n_accepted)
    for slot, draft in enumerate(made.drafts):
        told = why(made, slot, rule=rule, greedy=greedy)
        assert told.startswith(draft.verdict.value.capitalize() + ":") and told.endswith(".")
        assert ("temperature 0" in told) == (greedy and draft.verdict is not Verdict.IGNORED)
    assert why(made, 3, rule=rule, greedy=greedy).split(":")[0].lower() == made.target.origin.value
    plain = make_round(1, 0, 0)
    assert why(plain, 0, rule=rule, greedy=greedy).startswith("Nothing was drafted")


@pytest.mark.parametrize("piece", NASTY_PIECES)
def test_the_token_that_was_drawn_instead_does_nothing(piece: bytes) -> None:
    told = why(drawn(0, piece=piece), 0, rule="match", ascii_only=True)
    assert OBEYED.search(told) is None
