"""The reducer tells of any story what a naive reading of it tells, and changes no state it was given."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from support.scripted import TARGET, make_round
from support.story import DRAFTER, baseline, finished, fold, opening, plain_step, settings, started, stories

from engine.events import (
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Calibrated,
    EndReason,
    Event,
    LoadFinished,
    LoadStarted,
    Notice,
    Origin,
    PrefillFinished,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.stats import Statistics
from tui.state import Held, Phase, Reset, Told, ViewState, recent, reduce

# -- the fold


@given(stories(), st.data())
def test_any_split_of_a_story_gives_the_same_states(events: list[Told], data: st.DataObject) -> None:
    states = [fold([])]
    for event in events:
        states.append(reduce(states[-1], event))
    cut = data.draw(st.integers(0, len(events)))
    # Another story from the middle on must not reach back into the states of this one.
    fold([make_round(99, 4, 2), finished(9, "other"), *opening(), make_round(1, 2, 2)], states[cut])
    assert fold(events[cut:], states[cut]) == states[-1]
    for length, state in enumerate(states):
        assert fold(events[:length]) == state


@given(stories())
def test_the_state_is_what_a_naive_reading_gives(events: list[Told]) -> None:
    state = fold(events)
    tokens: list[tuple[int, bytes, Origin, int, int]] = []
    text: list[str] = []
    whole, part, segment_start = Statistics(), Statistics(), 0
    rounds: list[Round] = []
    for event in events:
        match event:
            case RunStarted():
                given = zip(event.given, event.given_pieces, strict=True)
                tokens = [(id_, piece, Origin.GIVEN, -1, at) for at, (id_, piece) in enumerate(given)]
                text = [b"".join(event.given_pieces).decode()]
            case SegmentStarted():
                part, segment_start = Statistics(costs=whole.costs), len(rounds)
            case Calibrated():
                whole.set_costs(event.costs)
                part.set_costs(event.costs)
            case Round():
                if event.taken_back:
                    del tokens[-event.taken_back :]
                pieces = [draft.piece for draft in event.drafts[: event.n_accepted]] + [event.target.piece]
                tokens += [
                    (id_, pieces[slot], event.origins[slot], len(rounds), slot)
                    for slot, id_ in enumerate(event.tokens)
                ]
                text.append(event.text)
                rounds.append(event)
                whole.add(event)
                part.add(event)
            case RunFinished():
                text.append(event.text)
                whole.set_run(event)
                if segment_start == 0:
                    part.set_run(event)
            case BaselineFinished(complete=True):
                whole.set_baseline(event)
                part.set_baseline(event)
    assert [dataclasses.astuple(token) for token in state.output] == tokens
    assert "".join(state.text) == "".join(text)
    assert list(state.rounds) == rounds
    assert state.segment_start == segment_start
    assert state.total.counts == whole
    assert state.segment.counts == part
    if rounds:
        assert state.total.ttft_ms == (50.0 if state.finished else 10.0 + rounds[0].ms)


def test_one_event_costs_the_same_late_and_early() -> None:
    """10,000 rounds: the long slices are never copied, and the other ones stay as small as they were."""
    state = fold(opening())
    items = state.rounds._items, state.output._items, state.text._items
    for number in range(1, 10_001):
        state = reduce(state, make_round(number, 1, number % 2))
    assert state.rounds._items is items[0]
    assert state.output._items is items[1]
    assert state.text._items is items[2]
    assert len(state.rounds) == 10_000
    assert len(state.output) == 15_000
    assert len(state.total.counts.reached) == 1


def test_what_did_not_change_stays_the_same_object() -> None:
    before = fold([*opening(), make_round(1, 3, 1)])
    after = reduce(before, Notice(0, 0, "seed", "seven"))
    for field in dataclasses.fields(ViewState):
        if field.name != "notices":
            assert getattr(after, field.name) is getattr(before, field.name), field.name
    assert reduce(before, Event(0, 0)) is before, "an event that nobody knows"


# -- a run


def test_a_new_run_resets_the_run_and_keeps_the_models() -> None:
    old = fold(
        [
            LoadStarted(0, 0, "target", "t"),
            LoadFinished(0, 0, "target", TARGET, 1.0),
            LoadFinished(0, 0, "drafter", DRAFTER, 1.0),
            Notice(0, 0, "dtype", "float32"),
            *opening(),
            make_round(1, 3, 1),
            finished(),
            BaselineStarted(0, 0, 2),
            baseline(2, 50.0),
        ]
    )
    new = reduce(old, started(run=2))
    assert (new.target, new.drafter, len(new.notices)) == (TARGET, DRAFTER, 1)
    assert (new.run, new.phase, new.running) == (2, Phase.PREFILL, True)
    assert (len(new.rounds), len(new.output), len(new.text)) == (0, 0, 0)
    assert (new.finished, new.baseline, new.prefill_ms, new.settings) == (None, None, None, None)
    assert (new.prompt_pieces, new.reused, new.max_new_tokens) == ((b"a", b"b"), 1, 50)


def test_a_segment_starts_its_own_measures() -> None:
    state = fold([*opening(), make_round(1, 3, 3), make_round(2, 3, 3)])
    state = fold([SegmentStarted(0, 0, 2, settings(5)), make_round(3, 5, 0)], state)
    assert (state.settings_id, state.segment_start) == (2, 2)
    assert (state.segment.rounds, state.segment.tau, state.segment.ttft_ms) == (1, 1.0, None)
    assert (state.total.rounds, state.total.tau) == (3, 3.0)
    assert recent(state).rounds == 1
    ended = reduce(state, finished(9, decode_ms=1.0))
    assert ended.total.counts.decode_ms == 1.0
    assert ended.segment.decode_ms == state.segment.decode_ms, "the run's time is not the segment's"


def test_tokens_withdrawn_are_gone_and_text_is_not() -> None:
    back = dataclasses.replace(make_round(2, 2, 0, keep=0, text=""), taken_back=2, cut=EndReason.STOP)
    before = fold([*opening(), make_round(1, 3, 3, text="as far as it is final")])
    state = reduce(before, back)
    assert [token.slot for token in state.output] == [0, 1]
    assert [token.slot for token in before.output] == [0, 1, 2, 3]
    assert "".join(state.text) == "as far as it is final"
    assert state.total.tokens == 2


def test_a_segment_that_withdraws_more_than_it_wrote_has_no_speed() -> None:
    back = dataclasses.replace(make_round(2, 0, 0, keep=0), taken_back=2, cut=EndReason.STOP)
    state = fold([*opening(), make_round(1, 3, 3), SegmentStarted(0, 0, 2, settings()), back])
    assert (state.segment.tokens, state.segment.tokens_per_second, state.segment.speedup) == (0, None, None)


def test_a_cut_round_has_no_token_of_the_target() -> None:
    state = fold([*opening(), make_round(1, 3, 3, keep=2, cut=EndReason.EOS)])
    assert [token.origin for token in state.output] == [Origin.ACCEPTED] * 2


def test_given_tokens_begin_the_answer_and_count_in_no_measure() -> None:
    state = fold(opening(given=(b"\xe6\x97", b"\xa5")))
    assert [(token.id, token.origin, token.round, token.slot) for token in state.output] == [
        (7, Origin.GIVEN, -1, 0),
        (8, Origin.GIVEN, -1, 1),
    ]
    assert ("".join(state.text), state.given, state.total.tokens) == ("日", 2, 0)


def test_plain_decoding_counts_tokens_and_no_rounds() -> None:
    state = fold(
        [
            started(mode="plain"),
            PrefillFinished(0, 0, 10.0),
            plain_step(1),
            plain_step(2),
            plain_step(3, taken_back=2),
        ]
    )
    assert state.mode == "plain"
    assert [(token.id, token.origin, token.round, token.slot) for token in state.output] == [
        (3, Origin.PLAIN, -1, 0)
    ]
    assert "".join(state.text) == " p p p"
    total = state.total
    assert (total.tokens, total.rounds, total.tau, total.alpha_hat) == (1, 0, None, None)
    assert (total.ttft_ms, total.decode_ms, total.verify_ms) == (35.0, 75.0, 60.0)
    assert total.acceptance_by_position is None


def test_now_is_the_newest_rounds() -> None:
    rounds = [make_round(number, 3, 3 if number > 4 else 0) for number in range(1, 9)]
    state = fold([*opening(), *rounds])
    assert recent(state, 4).tau == 4.0
    assert recent(state, 100).counts == state.total.counts
    assert recent(fold(opening())).tau is None


def test_reset_forgets_the_run() -> None:
    state = fold([*opening(), make_round(1, 3, 1), Reset()])
    assert (state.run, len(state.rounds), state.target, state.phase) == (0, 0, TARGET, Phase.READY)


# -- the comparison with plain decoding


def test_without_a_baseline_there_is_no_speedup() -> None:
    state = fold([*opening(), make_round(1, 3, 3), finished()])
    assert (state.total.speedup, state.segment.speedup, recent(state).speedup) == (None, None, None)


def test_a_baseline_serves_the_runs_after_it_until_they_have_their_own() -> None:
    first = fold([*opening(), make_round(1, 3, 3), finished(4, decode_ms=40.0), BaselineStarted(0, 0, 4)])
    assert (first.phase, first.baseline and first.baseline.finished) == (Phase.BASELINE, None)
    first = fold([BaselineProgress(0, 0, 2, 4)], first)
    assert first.baseline is not None
    assert (first.baseline.done, first.baseline.total) == (2, 4)
    first = fold([baseline(4, 80.0)], first)
    assert (first.total.speedup, first.segment.speedup, first.reference_run) == (2.0, 2.0, 1)

    second = fold([started(run=2), SegmentStarted(0, 0, 1, settings()), make_round(1, 3, 3)], first)
    assert second.baseline is None
    assert second.total.baseline_tokens_per_second == 50.0
    assert recent(second).baseline_tokens_per_second == 50.0
    stopped = fold([finished(4), BaselineStarted(0, 0, 4), baseline(1, 99.0, complete=False)], second)
    assert (stopped.reference_run, stopped.phase) == (1, Phase.READY)
    own = fold([finished(4), BaselineStarted(0, 0, 4), baseline(4, 40.0)], second)
    assert (own.reference_run, own.total.baseline_tokens_per_second) == (2, 100.0)


def test_another_target_makes_the_baseline_void() -> None:
    measured = fold(
        [*opening(), make_round(1, 3, 3), finished(), BaselineStarted(0, 0, 4), baseline(4, 80.0)]
    )
    loaded = fold(
        [LoadStarted(0, 0, "target", "other"), LoadFinished(0, 0, "target", DRAFTER, 1.0)], measured
    )
    assert (loaded.reference, fold([started(run=2)], loaded).total.baseline_tokens_per_second) == (None, None)
    assert fold([LoadStarted(0, 0, "drafter", "other")], measured).reference is not None
    assert reduce(measured, Held(TARGET, DRAFTER)).reference is not None
    assert reduce(measured, Held(DRAFTER, None)).reference is None
