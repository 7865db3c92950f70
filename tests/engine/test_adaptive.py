"""Adaptive K against simulated pairs: nearly as fast as the best K that is always the same, and as plain
decoding where none pays; and what may not change its choice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lengths import Finds, Odds, Scenario, Told, drafter_costs, run, simulated, total_ms
from support.tables import settings

from engine.adaptive import AUTO, LIMIT, OFF, PROBE, AdaptiveLength, FixedLength, chooser_for
from engine.costs import MOST_DRAFTS, Costs, DraftCost
from engine.recent import RecentAcceptance

NEAR_BEST, NEAR_PLAIN = 0.95, 0.97
STATIC = (0, 1, 2, 3, 5, 8, 16)
SEEDS = range(3)


def always(alpha: float) -> Odds:
    return lambda position, place: alpha


def copying(every: int, length: int, start: int = 0) -> tuple[Odds, Finds]:
    """A text that copies for a stretch of each period; elsewhere matches are few, short and wrong."""

    def copies(position: int) -> bool:
        return position >= start and (position - start) % every < length

    def odds(position: int, place: int) -> float:
        return 0.97 if copies(position + place) else 0.15

    def finds(position: int, asked: int) -> int:
        return asked if copies(position) else min(asked, 3) * (position % 5 == 0)

    return odds, finds


def lookup(growth: float, odds: Odds, finds: Finds) -> Scenario:
    return Scenario(drafter_costs(0.0005, growth, lookup=True), odds, finds)


def model(c: float, growth: float, odds: Odds) -> Scenario:
    """Reading a token that it did not draft for costs a model some of what drafting it does."""
    return Scenario(drafter_costs(c, growth), odds, catch_up=0.03 * c)


SCENARIOS = {
    **{
        f"c = {c}, r grows {growth}, alpha = {alpha}": model(c, growth, always(alpha))
        for c, growth in ((0.01, 0.2), (0.1, 0.05), (0.3, 0.01), (0.3, 0.1), (0.8, 0.05))
        for alpha in (0.0, 0.3, 0.6, 0.8, 0.95)
    },
    "copies now and then": lookup(0.05, *copying(100, 40)),
    "short copies": lookup(0.1, *copying(60, 15)),
    "copies late": lookup(0.1, *copying(10**6, 10**6, start=200)),
    "never copies": lookup(0.1, *copying(10**6, 0)),
    "matches are wrong": lookup(0.1, always(0.05), lambda position, asked: min(asked, 3)),
    "turns bad": model(0.3, 0.1, lambda position, place: 0.9 if position < 400 else 0.05),
    "turns good": model(0.1, 0.05, lambda position, place: 0.05 if position < 300 else 0.9),
    "in waves": model(0.1, 0.05, lambda position, place: 0.9 if position // 60 % 2 else 0.4),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_is_nearly_the_best(name: str) -> None:
    scenario = SCENARIOS[name]
    chosen = total_ms(scenario, partial(AdaptiveLength, MOST_DRAFTS), SEEDS)
    static = {k: total_ms(scenario, partial(FixedLength, k), SEEDS) for k in STATIC}
    assert min(static.values()) / chosen >= NEAR_BEST
    assert static[0] / chosen >= NEAR_PLAIN


# -- off, and on again


def turned_off(c: float) -> Told:
    return run(Scenario(drafter_costs(c, 0.1), always(0.0), tokens=2000), AdaptiveLength(MOST_DRAFTS))


def probes_of(told: Told) -> list[int]:
    """Places of the probes in the text, of rounds that give one token each."""
    return [at for at, reason in enumerate(told.reasons) if reason == PROBE]


def test_a_drafter_that_never_pays_is_turned_off_and_probed_now_and_then() -> None:
    for c, seldom in ((0.01, 32), (0.3, 75), (0.8, 200)):
        told = turned_off(c)
        first = next(at for at, k in enumerate(told.lengths) if k == 0)
        assert first < 80, "it does not go on for long"
        assert told.reasons[first].startswith(f"{OFF}, best K gives 0.")
        probes = [first, *probes_of(told)]
        gaps = [after - before for before, after in pairwise(probes)]
        assert min(gaps) >= seldom, (c, gaps)
        assert len(probes) >= 3


def test_a_drafter_that_has_much_to_read_first_is_probed_ever_more_seldom() -> None:
    """The longer it was not asked, the more a probe loses, so the longer the next one is put off."""
    told = run(replace(model(0.3, 0.1, always(0.0)), tokens=4000), AdaptiveLength(MOST_DRAFTS))
    gaps = [after - before for before, after in pairwise(probes_of(told))]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 2 * gaps[0]


def test_a_copy_that_begins_while_it_is_off_is_used_soon() -> None:
    """A probe of a lookup lasts until something is found, and one that succeeds is enough."""
    odds, finds = copying(10**6, 10**6, start=400)
    wrong = lambda position, asked: asked if position >= 400 else min(asked, 3)  # noqa: E731
    told = run(replace(lookup(0.2, odds, finds), finds=wrong), AdaptiveLength(MOST_DRAFTS))
    at = 0
    for k, round_ in zip(told.lengths, told.rounds, strict=True):
        if at >= 400 and k > 0:
            break
        at += len(round_.tokens)
    assert 0 in told.lengths
    assert at <= 400 + 50
    assert told.lengths[-3] > 0


def test_finding_nothing_is_no_rejection() -> None:
    """Nothing is lost by asking a lookup for more, so it is never turned off."""
    nothing = Scenario(drafter_costs(0.0005, 0.2, lookup=True), always(0.0), lambda position, asked: 0)
    assert 0 not in run(nothing, AdaptiveLength(MOST_DRAFTS)).lengths[:-1]


def test_a_probe_lasts_until_something_is_found() -> None:
    chooser = AdaptiveLength(MOST_DRAFTS)
    run(Scenario(drafter_costs(0.01, 0.2), always(0.0), tokens=100), chooser)
    chooser.begin()
    for _ in range(3):
        k, reason = chooser.choose(50)
        assert reason == PROBE
        chooser.observe(simulated(k, 0, 0, 20.0))
    k, reason = chooser.choose(50)
    chooser.observe(simulated(k, k, 0, 30.0))
    assert reason == PROBE
    assert chooser.choose(50)[1].startswith(OFF)


def test_what_was_not_given_was_neither_accepted_nor_rejected() -> None:
    found, missing, wrong = (RecentAcceptance(4) for _ in range(3))
    for _ in range(200):
        found.add(simulated(2, 2, 2, 20.0))
        missing.add(simulated(2, 0, 0, 20.0))
        wrong.add(simulated(2, 2, 0, 20.0))
    assert found.taus()[2] > 2.9
    assert missing.taus()[1] < 1.02 and missing.given()[0] < 0.02
    assert wrong.taus()[1] < 1.02 and wrong.given()[0] > 0.98


def test_a_new_text_is_tried_at_once() -> None:
    chooser = AdaptiveLength(MOST_DRAFTS)
    run(Scenario(drafter_costs(0.8, 0.1), always(0.0), tokens=100), chooser)
    assert chooser.choose(50)[1].startswith(OFF)
    chooser.begin()
    assert chooser.choose(50)[1] == PROBE


def test_it_believes_what_rounds_took_more_than_the_calibration() -> None:
    """A drafter that costs 0.8 of a step where 0.05 was measured."""
    measured, really = drafter_costs(0.05, 0.02), drafter_costs(0.8, 0.02)
    scenario = Scenario(measured, always(0.6), really=really)
    assert run(scenario, AdaptiveLength(MOST_DRAFTS)).lengths.count(0) > 500


def test_a_machine_that_became_slower_is_no_reason_to_turn_off() -> None:
    slower = replace(
        drafter_costs(0.1, 0.02),
        rounds=tuple(replace(cost, pass_ms=1.6 * cost.pass_ms) for cost in drafter_costs(0.1, 0.02).rounds),
        drafts=tuple(DraftCost("", cost.drafts, 1.6 * cost.ms) for cost in drafter_costs(0.1, 0.02).drafts),
    )
    scenario = Scenario(drafter_costs(0.1, 0.02), always(0.6), really=slower)
    assert 0 not in run(scenario, AdaptiveLength(MOST_DRAFTS)).lengths[:-1]


# -- what it may depend on

ROUNDS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 16), st.integers(0, 16), st.floats(0, 500)), max_size=60
)
"""For each round: the room, how many drafts come, how many stand, milliseconds."""


@given(ROUNDS, st.integers(1, 16), st.sampled_from([None, 0.0005, 0.1, 2.0]))
def test_k_is_in_range_and_follows_from_the_past(
    rounds: list[tuple[int, int, int, float]], most: int, c: float | None
) -> None:
    one, other = AdaptiveLength(most), AdaptiveLength(most)
    measured: Costs | None = None if c is None else drafter_costs(c, 0.1)
    for chooser in (one, other):
        chooser.calibrated(measured)
    for room, wanted, accepted, ms in rounds:
        k, reason = one.choose(room)
        assert (k, reason) == other.choose(room)
        assert 0 <= k <= min(most, room)
        assert reason in {AUTO, PROBE, LIMIT} or reason.startswith(OFF)
        assert k or not room or reason.startswith(OFF)
        came = min(wanted, k)
        for chooser in (one, other):
            chooser.observe(simulated(k, came, min(accepted, came), ms))


def test_the_same_costs_again_change_nothing() -> None:
    measured = drafter_costs(0.1, 0.05)
    told = run(Scenario(measured, always(0.7)), AdaptiveLength(MOST_DRAFTS))
    chooser = AdaptiveLength(MOST_DRAFTS)
    for k, round_ in zip(told.lengths, told.rounds, strict=True):
        chooser.calibrated(measured)
        assert chooser.choose(800)[0] >= k  # the last ones had less room
        chooser.observe(round_)


def test_a_draft_that_is_charged_for_counts_as_if_it_took_the_time() -> None:
    free = Scenario(drafter_costs(0.0, 0.02), always(0.5))
    assert 0 not in run(free, AdaptiveLength(MOST_DRAFTS)).lengths[:-1]
    assert run(free, AdaptiveLength(MOST_DRAFTS, draft_cost=0.9)).lengths.count(0) > 500


def test_what_the_settings_ask_for() -> None:
    fixed = chooser_for(replace(settings(), num_draft_tokens=4))
    assert [fixed.choose(room) for room in (9, 4, 3, 0)] == [
        (4, "fixed"),
        (4, "fixed"),
        (3, LIMIT),
        (0, LIMIT),
    ]
    adaptive = chooser_for(replace(settings(), num_draft_tokens=2, adaptive=True))
    assert adaptive.choose(9) == (2, AUTO), "without costs it begins somewhere"
    assert adaptive.choose(1) == (1, LIMIT)
