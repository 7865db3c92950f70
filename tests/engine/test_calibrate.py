"""Calibration: what it finds, when it is done, and that the run it precedes does not notice."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.sessions import ASK, configured, ids_of, kinds, loaded, of
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine import calibrate, session_measures
from engine.calibrate import Calibrator
from engine.context import Message
from engine.costs import ROWS
from engine.events import BaselineFinished, BaselineProgress, Calibrated, Event, Round
from engine.session import Session
from engine.session_measures import PLACES, STEPS_A_PLACE, places

LONG = 64
METHODS: dict[str, dict[str, Any]] = {
    "model": {},
    "lookup": {"method": "lookup", "model_name": None},
    "hybrid": {"method": "hybrid"},
    "synthetic": {"method": "synthetic", "model_name": None},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    path, target = tmp_path_factory.mktemp("pair"), tiny_model("llama")
    drafter = noisy_copy(target, 0.02)
    return (
        str(save_folder(path / "target", target, tiny_tokenizer())),
        str(save_folder(path / "drafter", drafter, tiny_tokenizer())),
    )


def session_of(folders: tuple[str, str], method: str = "model", **changes: Any) -> Session:
    config = configured(*folders, **changes)
    draft = {**config.draft.model_dump(), **METHODS[method]}
    return loaded(configured(*folders, **{**changes, "draft": draft}))


def answered(session: Session) -> list[Event]:
    return list(session.generate(ASK))


@pytest.mark.parametrize("method", METHODS)
def test_every_part_is_measured(folders: tuple[str, str], method: str) -> None:
    session = session_of(folders, method)
    costs = of(Calibrated, answered(session)).costs
    assert costs.is_usable
    assert {*ROWS, 4} == {cost.rows for cost in costs.rounds}, "the run's own width too"
    assert costs.sources == (("lookup", "model") if method == "hybrid" else ("",))
    for source in costs.sources:
        assert [cost.drafts for cost in costs.drafts if cost.source == source] == [1, 2, 3]
    assert costs.context_length == len(session.pair.target.text.encode_chat(ASK, None))
    assert costs.bandwidth_gbs > 0
    assert costs.copy_gbs > 0
    assert 0 < costs.took_ms < 10_000
    session.close()


def test_no_room_to_read_memory_ends_no_run(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: torch.device) -> float:
        raise torch.OutOfMemoryError("tried to allocate 256.00 MiB")

    monkeypatch.setattr(calibrate, "best_gbs", full)
    session = session_of(folders)
    costs = of(Calibrated, answered(session)).costs
    assert costs.copy_gbs is None
    assert costs.bandwidth_gbs > 0
    session.close()


@pytest.mark.parametrize("rule", ["block", "speculative_sampling", "match", "seed_exact"])
@pytest.mark.parametrize("method", ["model", "lookup", "hybrid"])
def test_the_run_does_not_notice(folders: tuple[str, str], method: str, rule: str) -> None:
    law = {"sampling": {"temperature": 1.0, "seed": 5}, "verify": {"verify_strategy": rule}}
    measured = session_of(folders, method, run={"max_new_tokens": LONG}, **law)
    quiet = session_of(folders, method, run={"max_new_tokens": LONG, "baseline": "off"}, **law)
    for _ in range(2):  # the second run finds the caches as the first one left them
        with_costs, without = answered(measured), answered(quiet)
        assert "Calibrated" in kinds(with_costs)
        assert "Calibrated" not in kinds(without)
        rounds = [
            [(each.tokens, each.drafts, each.p_top) for each in events if isinstance(each, Round)]
            for events in (with_costs, without)
        ]
        assert rounds[0] == rounds[1]
    measured.close()
    quiet.close()


def test_a_later_run_goes_by_what_was_measured(folders: tuple[str, str]) -> None:
    session = session_of(folders)
    first = of(Calibrated, answered(session))
    again = of(Calibrated, answered(session))
    assert (first.reason, again.reason) == ("start", "measured before")
    assert again.costs is first.costs
    assert session.statistics()["predicted_speedup"] is not None
    session.close()


def test_a_text_that_has_doubled_is_measured_again(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_measures, "_SHORT", 1)
    session = session_of(folders, run={"max_new_tokens": 200})
    told = [event for event in answered(session) if isinstance(event, Calibrated)]
    assert [event.reason for event in told] == ["start", *["length doubled"] * (len(told) - 1)]
    assert len(told) >= 3
    lengths = [event.costs.context_length for event in told]
    assert all(later >= 2 * earlier for earlier, later in itertools.pairwise(lengths))
    session.close()


def test_passes_that_became_dearer_are_measured_again_once(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_measures, "_SHORTEST_MS", 0.0)
    monkeypatch.setattr(session_measures, "_DRIFT", 1.0)  # any difference is one
    session = session_of(folders, run={"max_new_tokens": 200})
    with session.aside(lambda config: config):  # what drifts there is of another run
        told = [event.reason for event in answered(session) if isinstance(event, Calibrated)]
        assert told == ["start", "costs drifted"]
    told = [event.reason for event in answered(session) if isinstance(event, Calibrated)]
    assert told == ["costs drifted"], "the newest rounds were unlike the costs that are known"
    session.close()


def test_other_settings_are_measured_again(folders: tuple[str, str]) -> None:
    session = session_of(folders, run={"max_new_tokens": LONG})
    reasons = []
    for event in session.generate(ASK):
        if isinstance(event, Calibrated):
            reasons.append(event.reason)
        if isinstance(event, Round) and event.number in {2, 4}:
            draft = session.config.draft
            if event.number == 2:  # another K has a cost that is known
                draft = draft.model_copy(update={"num_draft_tokens": 5})
            strategy = "block" if event.number == 2 else "match"
            verify = session.config.verify.model_copy(update={"verify_strategy": strategy})
            session.change(session.config.model_copy(update={"draft": draft, "verify": verify}))
    assert reasons == ["start", "settings changed"]
    session.close()


def test_a_run_that_goes_by_costs_never_goes_by_those_of_other_settings(folders: tuple[str, str]) -> None:
    """Not even if its baseline was turned off meanwhile."""
    session = session_of(folders, run={"max_new_tokens": LONG})
    reasons = []
    for event in session.generate(ASK):
        if isinstance(event, Calibrated):
            reasons.append(event.reason)
        if isinstance(event, Round) and event.number == 2:
            run = session.config.run.model_copy(update={"baseline": "off"})
            verify = session.config.verify.model_copy(update={"verify_strategy": "match"})
            session.change(session.config.model_copy(update={"run": run, "verify": verify}))
    assert reasons == ["start", "settings changed"]
    assert "Calibrated" not in kinds(answered(session)), "the next run has none"
    session.close()


def test_costs_keep_no_models(folders: tuple[str, str]) -> None:
    session = session_of(folders)
    answered(session)
    kept = weakref.ref(session.pair.target.model)
    session.eject()
    gc.collect()
    assert kept() is None
    session.load()
    assert of(Calibrated, answered(session)).reason == "start"
    session.close()


def test_a_cancelled_calibration_tells_nothing(folders: tuple[str, str]) -> None:
    session = session_of(folders)
    settings = session.pair.settings(session.config, 1)
    tokens = session.pair.target.text.encode_chat(ASK, None)
    assert Calibrator(session.pair, settings, tokens, lambda: True).costs() is None
    session.close()


def test_no_time_is_enough_for_one_sample(folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine what the run itself will do and the shortest draft are measured, and nothing else."""
    monkeypatch.setattr(calibrate, "BUDGET_S", 0.0)
    monkeypatch.setattr(calibrate, "BUDGET_STEPS", 0)
    session = session_of(folders)
    costs = of(Calibrated, answered(session)).costs
    assert [cost.rows for cost in costs.rounds] == [1, 4]
    assert costs.rounds[0].pass_ms == costs.plain_pass_ms
    assert [cost.drafts for cost in costs.drafts] == [1, 3]
    session.close()


def test_no_time_is_enough_for_every_part(folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was left out would be taken to cost what looking up does."""
    monkeypatch.setattr(calibrate, "BUDGET_S", 0.0)
    monkeypatch.setattr(calibrate, "BUDGET_STEPS", 0)
    session = session_of(folders, "hybrid", draft={"num_draft_tokens": 16})
    costs = of(Calibrated, answered(session)).costs
    assert {("lookup", 16), ("lookup", 1), ("model", 16), ("model", 1)} <= {
        (cost.source, cost.drafts) for cost in costs.drafts
    }
    session.close()


@pytest.mark.parametrize("budget_s", [0.0, 2.0])
def test_one_draft_a_round_tells_what_more_would_cost(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch, budget_s: float
) -> None:
    monkeypatch.setattr(calibrate, "BUDGET_S", budget_s)
    monkeypatch.setattr(calibrate, "BUDGET_STEPS", 0)
    session = session_of(folders, draft={"num_draft_tokens": 1})
    costs = of(Calibrated, answered(session)).costs
    assert [cost.drafts for cost in costs.drafts] == [1, 2], "one length alone has no slope"
    session.close()


def test_a_text_that_is_nearly_full(folders: tuple[str, str]) -> None:
    """There is no room for wide passes: those that fit are measured."""
    session = session_of(folders, run={"max_new_tokens": 600})
    limit, text = session.pair.target.context_length, session.pair.target.text
    asked = [(Message("user", "knight " * count),) for count in range(480, 0, -1)]

    def leaving(room: int) -> tuple[Message, ...]:
        return next(messages for messages in asked if len(text.encode_chat(messages, None)) <= limit - room)

    costs = of(Calibrated, list(session.generate(leaving(6)))).costs
    assert max(cost.rows for cost in costs.rounds) <= limit - costs.context_length < 17
    assert len(costs.drafts) > 1
    assert costs.is_usable
    again = of(Calibrated, list(session.generate(leaving(40))))
    assert again.reason == "more room", "where wide passes fit they are measured"
    assert max(cost.rows for cost in again.costs.rounds) == 17
    session.close()


# -- plain decoding at some places


@pytest.fixture
def long_run(folders: tuple[str, str]) -> Iterator[Session]:
    session = session_of(folders, run={"max_new_tokens": LONG})
    answered(session)
    yield session
    session.close()


def test_a_long_answer_is_timed_at_places(long_run: Session) -> None:
    events = list(long_run.baseline())
    total = PLACES * STEPS_A_PLACE
    assert [event.done for event in events if isinstance(event, BaselineProgress)] == list(
        range(STEPS_A_PLACE, total + 1, STEPS_A_PLACE)
    )
    finished = of(BaselineFinished, events)
    assert (finished.tokens, finished.sampled, finished.complete) == (total, True, True)
    assert finished.ids == ()
    assert finished.identical is None
    told = long_run.statistics()
    assert told["speedup"] == pytest.approx(told["tokens_per_second"] / (total * 1000 / finished.decode_ms))
    assert told["prediction_error"] is not None
    again = answered(long_run)
    assert ids_of(again)[:4] == ids_of(answered(long_run))[:4], "the caches are as they were"


def test_a_cancelled_baseline_is_not_complete(long_run: Session) -> None:
    events = []
    for event in long_run.baseline():
        events.append(event)
        if isinstance(event, BaselineProgress):
            long_run.cancel()
    assert not of(BaselineFinished, events).complete
    assert long_run.statistics()["speedup"] is None


def test_a_cancelled_baseline_replaces_none(long_run: Session) -> None:
    """A replay goes by the whole one too."""
    list(long_run.baseline())
    known = long_run.statistics()["speedup"]
    for event in long_run.baseline():
        if isinstance(event, BaselineProgress):
            long_run.cancel()
    assert long_run.statistics()["speedup"] == known is not None


def test_a_short_answer_is_decoded_whole(folders: tuple[str, str]) -> None:
    session = session_of(folders, run={"max_new_tokens": PLACES * STEPS_A_PLACE})
    answered(session)
    finished = of(BaselineFinished, list(session.baseline()))
    assert (finished.sampled, finished.identical) == (False, True)
    session.close()


@pytest.mark.parametrize("length", [49, 50, 53, 95, 96, 1000, 100_003])
def test_places_lie_within_the_answer(length: int) -> None:
    found = places(17, 17 + length)
    assert len(found) == PLACES
    assert found[0] >= 17
    assert found[-1] + STEPS_A_PLACE <= 17 + length
    middle = (found[0] + found[-1] + STEPS_A_PLACE) / 2
    assert abs(middle - (17 + length / 2)) <= 1, "their mean length is the run's"
