"""Stepping by tokens shows a round bit by bit, and in the end all of it."""

from __future__ import annotations

from hypothesis import given
from support.scripted import make_round
from support.story import finished, fold, opening, plain_step, stories

from engine.events import Round, Verdict
from tui.state import (
    PauseReached,
    Resumed,
    RevealAll,
    RevealNext,
    Told,
    needs_round,
    reduce,
    step_count,
    visible_output,
    visible_round,
    visible_text,
)


@given(stories())
def test_steps_reveal_a_round_bit_by_bit(events: list[Told]) -> None:
    shown = fold([])
    for event in events:
        hidden = reduce(shown, RevealNext()) if isinstance(event, Round) else shown
        shown = reduce(shown, event)
        if not isinstance(event, Round):
            continue
        hidden = reduce(hidden, event)
        before = len(shown.output) - len(event.tokens)
        seen = []
        for _ in range(max(step_count(event), 1)):
            newest = visible_round(hidden)
            assert newest is not None
            seen.append((newest.drafts, newest.judged, newest.target))
            assert list(visible_output(hidden)) == list(shown.output)[: before + newest.committed]
            if not newest.whole:
                assert "".join(visible_text(hidden)) + event.text == "".join(shown.text)
                assert not needs_round(hidden)
                hidden = reduce(hidden, RevealNext())
        assert seen == sorted(set(seen)), "each step shows more"
        assert hidden == shown, "after the last step nothing is hidden"


def test_the_steps_of_a_round_in_order() -> None:
    state = fold([*opening(), RevealNext(), make_round(1, 3, 1)])
    seen = []
    while state.revealed is not None:
        newest = visible_round(state)
        assert newest is not None
        verdicts = [newest.verdict(index) for index in range(newest.drafts)]
        seen.append((verdicts, newest.target, len(visible_output(state))))
        state = reduce(state, RevealNext())
    yes, no, rest = Verdict.ACCEPTED, Verdict.REJECTED, Verdict.IGNORED
    assert seen == [
        ([None], False, 0),
        ([None, None], False, 0),
        ([None, None, None], False, 0),
        ([yes, None, None], False, 1),
        ([yes, no, rest], False, 1),
    ]
    assert len(visible_output(state)) == 2


def test_stepping_past_a_round_waits_for_the_next_one() -> None:
    state = fold([*opening(), make_round(1, 2, 1)])
    assert needs_round(state)
    waiting = reduce(state, RevealNext())
    assert waiting.awaiting
    assert not needs_round(waiting), "one round is on its way"
    assert needs_round(fold([RevealNext()])), "without a run none is"
    assert visible_output(waiting) is waiting.output
    assert reduce(waiting, make_round(2, 2, 1)).revealed == 1
    assert reduce(waiting, make_round(2, 0, 0)).revealed is None, "one step shows all of it"
    assert fold([RevealAll(), make_round(2, 2, 1)], waiting).revealed is None
    assert fold([finished()], waiting).awaiting is False
    assert fold([plain_step(1)], waiting).awaiting is False


def test_going_on_shows_everything() -> None:
    hidden = fold([*opening(), RevealNext(), make_round(1, 3, 1), PauseReached()])
    assert hidden.revealed == 1
    assert reduce(hidden, Resumed()).revealed is None
    assert reduce(hidden, RevealAll()).revealed is None
    assert reduce(hidden, make_round(2, 3, 1)).revealed is None, "a round nobody waited for"


def test_a_step_asked_for_before_the_run_hides_its_first_round() -> None:
    assert fold([RevealNext(), *opening(), make_round(1, 3, 1)]).revealed == 1


def test_the_text_of_a_hidden_round_is_hidden_also_after_the_end() -> None:
    state = fold([*opening(given=(b"so",)), make_round(1, 1, 1, text=" far")])
    state = fold([RevealNext(), make_round(2, 1, 1, text=" hidden"), finished(text=" tail")], state)
    assert "".join(visible_text(state)) == "so far"
    assert "".join(visible_text(reduce(state, RevealAll()))) == "so far hidden tail"


def test_before_the_first_round_nothing_is_hidden() -> None:
    state = fold(opening())
    assert visible_round(state) is None
    assert visible_output(state) is state.output
    assert visible_text(state) is state.text
