"""The measures are those of their definitions, and hold their identities for every run."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted import make_round

from engine.event_json import from_json, plain
from engine.events import BaselineFinished, EndReason, Round, RunFinished
from engine.stats import Statistics
from engine.wilson import wilson_interval

NAMES = [
    *("tokens", "rounds", "tau", "alpha_hat", "draft_efficiency", "acceptance_by_position"),
    *("conditional_acceptance", "tokens_per_second", "baseline_tokens_per_second", "speedup"),
    *(
        "predicted_speedup",
        "prediction_error",
        "best_k",
        "why",
        "costs",
        "ttft_ms",
        "draft_ms",
        "draft_ms_per_round",
    ),
    *("verify_ms", "verify_ms_per_round", "host_ms", "host_ms_per_round", "identical"),
    "synthetic",
]


@st.composite
def runs(draw: st.DrawFn) -> list[Round]:
    """Rounds of one answer; the last may be cut, down to nothing."""
    rounds: list[Round] = []
    for number in range(1, draw(st.integers(0, 40)) + 1):
        k = draw(st.integers(0, 5))
        rounds.append(make_round(number, k, draw(st.integers(0, k)), host_ms=draw(st.floats(0, 10))))
    cut = draw(st.booleans())
    if rounds and cut:
        last = rounds[-1]
        keep = draw(st.integers(0, len(last.tokens)))
        back = 0 if keep else draw(st.integers(0, sum(len(r.tokens) for r in rounds[:-1])))
        rounds[-1] = dataclasses.replace(last, tokens=last.tokens[:keep], cut=EndReason.STOP, taken_back=back)
    return rounds


def fold(rounds: list[Round], start: Statistics | None = None) -> Statistics:
    stats = start or Statistics()
    for round_ in rounds:
        stats.add(round_)
    return stats


def finished(tokens: int, decode_ms: float) -> RunFinished:
    return RunFinished(0, 0, EndReason.ROUNDS, "", tokens, 10.0, 35.0, decode_ms)


def baseline(tokens: int, decode_ms: float, *, complete: bool = True) -> BaselineFinished:
    return BaselineFinished(0, 0, tokens, (), decode_ms, 10.0, True, None, complete)


def test_definitions_on_a_run_worked_by_hand() -> None:
    # Rounds: 3 of 3 (bonus), 1 of 3 (correction), 0 of 2 (correction), no draft.
    stats = fold([make_round(1, 3, 3), make_round(2, 3, 1), make_round(3, 2, 0), make_round(4, 0, 0)])
    stats.check_identities()
    told = stats.as_dict()
    assert told["tokens"] == 4 + 2 + 1 + 1
    assert told["rounds"] == 4
    assert told["tau"] == 2.0
    assert told["alpha_hat"] == 4 / (4 + 2)
    assert told["draft_efficiency"] == 4 / 8
    assert told["acceptance_by_position"] == [2 / 4, 1 / 4, 1 / 4]
    assert told["conditional_acceptance"] == [2 / 4, 1 / 2, 1 / 1]


def test_a_cut_round_counts_only_what_was_kept() -> None:
    # 4 of 5 accepted, but EOS is the second: two accepted of two drafted, no rejection, no own token.
    cut = dataclasses.replace(make_round(1, 5, 4), tokens=(1, 2), cut=EndReason.EOS)
    stats = fold([cut])
    stats.check_identities()
    assert (stats.accepted, stats.drafted, stats.rejections, stats.cut_rounds) == (2, 2, 0, 1)
    assert stats.tau == 2.0
    assert stats.alpha_hat == 1.0
    assert stats.acceptance_by_position == [1.0, 1.0]


def test_an_own_token_that_ends_the_text_is_no_cut_round() -> None:
    stats = fold([dataclasses.replace(make_round(1, 2, 2), cut=EndReason.EOS)])
    assert (stats.cut_rounds, stats.tokens) == (0, 3)


def test_taken_back_tokens_leave_the_answer_but_not_tau() -> None:
    last = dataclasses.replace(make_round(2, 2, 1), tokens=(), cut=EndReason.STOP, taken_back=2)
    stats = fold([make_round(1, 3, 3), last])
    stats.check_identities()
    assert stats.tokens == 2
    assert stats.tau == 4 / 2


def test_names_and_order() -> None:
    assert list(Statistics().as_dict()) == NAMES


def test_absent_measures_are_none() -> None:
    told = Statistics().as_dict()
    assert (told.pop("tokens"), told.pop("rounds")) == (0, 0)
    assert set(told.values()) == {None}


def test_without_a_draft_there_are_no_rates() -> None:
    told = fold([make_round(1, 0, 0)]).as_dict()
    assert (told["alpha_hat"], told["draft_efficiency"]) == (None, None)
    assert told["acceptance_by_position"] == []
    assert told["tau"] == 1.0


def test_a_position_that_no_round_came_to_has_no_conditional_rate() -> None:
    assert fold([make_round(1, 2, 0)]).conditional_acceptance == [0.0, None]


def test_speedup_is_of_decoding_at_equal_measure() -> None:
    stats = fold([make_round(1, 3, 3), make_round(2, 3, 3)])
    stats.set_run(finished(8, 400.0))
    assert stats.speedup is None
    stats.set_baseline(baseline(8, 800.0))
    told = stats.as_dict()
    assert told["tokens_per_second"] == pytest.approx(20)
    assert told["baseline_tokens_per_second"] == pytest.approx(10)
    assert told["speedup"] == pytest.approx(2)
    assert told["ttft_ms"] == 35.0
    assert told["identical"] is True


def test_an_incomplete_baseline_gives_no_speedup() -> None:
    stats = fold([make_round(1, 3, 3)])
    stats.set_run(finished(4, 100.0))
    stats.set_baseline(baseline(2, 50.0, complete=False))
    told = stats.as_dict()
    assert (told["speedup"], told["baseline_tokens_per_second"], told["identical"]) == (None, None, None)


@given(runs())
def test_identities_hold(rounds: list[Round]) -> None:
    stats = fold(rounds)
    stats.check_identities()
    assert stats.tokens == sum(len(r.tokens) - r.taken_back for r in rounds)


@given(runs(), st.data())
def test_a_fold_may_go_on_from_any_state(rounds: list[Round], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rounds)))
    state = json.loads(json.dumps(plain(fold(rounds[:at]))))
    assert fold(rounds[at:], from_json(Statistics, state)) == fold(rounds)


@given(runs(), runs())
def test_merging_counts_like_one_fold(first: list[Round], second: list[Round]) -> None:
    merged = fold(first)
    merged.merge(fold(second))
    whole = fold(first + second)
    assert merged.host_ms == pytest.approx(whole.host_ms)
    merged.host_ms = whole.host_ms
    assert merged.draft_ms == pytest.approx(whole.draft_ms)
    merged.draft_ms, merged.verify_ms = whole.draft_ms, whole.verify_ms
    assert merged == whole


def test_a_state_keeps_times_and_baseline() -> None:
    stats = fold([make_round(1, 3, 2)])
    stats.set_run(finished(3, 100.0))
    stats.set_baseline(baseline(3, 50.0))
    assert from_json(Statistics, json.loads(json.dumps(plain(stats)))) == stats


def test_broken_counts_are_noticed() -> None:
    with pytest.raises(AssertionError, match="emitted"):
        Statistics(rounds=1, emitted=3, accepted=1, drafted=1, reached=[1]).check_identities()


def test_standard_error_of_alpha() -> None:
    stats = fold([make_round(1, 4, 2)])
    assert stats.alpha_hat_error == pytest.approx((2 / 3 * 1 / 3 / 3) ** 0.5)
    assert Statistics().alpha_hat_error is None


def test_wilson_interval_against_known_values() -> None:
    assert wilson_interval(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)
    assert wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(5, 5)[1] == 1.0
    assert fold([make_round(1, 2, 0)]).conditional_intervals == [wilson_interval(0, 1), None]
