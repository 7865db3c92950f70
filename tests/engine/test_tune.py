"""Tuning on tiny models: what is tried, what it ranks, and that all is left as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
from support.sessions import ASK, configured, loaded

from engine import tune as tuning
from engine.config_tables import AUTO
from engine.costs import MOST_DRAFTS
from engine.errors import Cancelled, ContextError
from engine.events import Event
from engine.session import Session
from engine.tune import tune
from engine.tune_candidates import KS, changes, drafter_name, drafters_of, plain_changes, with_k
from engine.tune_ranking import LeftOut, Ranked, Ranking, Trying, Tuned, TuneEvent, in_order, sentence
from engine.tune_times import Times

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def session(target: str) -> Iterator[Session]:
    session = loaded(configured(target))
    yield session
    session.close()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibration would take most of the time of a tiny run."""
    monkeypatch.setattr("engine.calibrate.BUDGET_S", 0.05)
    monkeypatch.setattr(tuning, "TOKENS", 12)
    monkeypatch.setattr(tuning, "PASSES", 1)


def last(events: list[TuneEvent]) -> Tuned:
    assert isinstance(events[-1], Tuned), events[-1]
    return events[-1]


def test_a_context_is_tuned_and_the_conversation_stays_as_it_is(session: Session) -> None:
    list(session.generate(ASK))
    before = (session.config, session.seed, session.statistics(), session.pair.same_bits)
    events = list(tune(session, ASK))
    assert (session.config, session.seed, session.statistics(), session.pair.same_bits) == before
    assert list(session.baseline()), "the last run is still the last one"
    tuned = last(events)
    assert next(row for row in tuned.rows if row.is_plain).speedup == 1.0
    assert tuned.best.measured and tuned.answer_tokens == 12
    assert {row.k for row in tuned.rows} == {0, *KS, AUTO}
    fixed = [row for row in tuned.rows if row.drafter == "lookup" and row.k != AUTO]
    assert all(row.tau is not None and row.tau >= 1 for row in fixed)
    own = next(row for row in tuned.rows if row.k == 3)
    assert own.settings == () and own.measured, "what is set now is always timed"
    measured = [row for row in tuned.rows if row.measured]
    assert tuned.rows[: len(measured)] == tuple(measured), "they come first"
    for row in measured:
        if not row.is_plain:
            assert row.low is not None and row.high is not None and row.low <= row.speedup <= row.high
    best_predicted = max((row.speedup for row in tuned.rows if not row.measured), default=0)
    fastest = max(1.0, measured[0].speedup)
    assert best_predicted <= fastest, "nothing that is said to be faster was left unmeasured"


def test_runs_are_interleaved_forth_and_back(session: Session) -> None:
    said = [event.what for event in tune(session, ASK) if isinstance(event, Trying)]
    looked, timed = said[:2], said[2:]
    assert looked == ["plain decoding", f"lookup, K = {MOST_DRAFTS}"]
    once = timed[: timed.index("plain decoding", 1) + 1]
    assert len(once) >= 6 and once == once[::-1]
    assert f"lookup, K = {session.config.draft.num_draft_tokens}" in once and "lookup, K = auto" in once


def test_a_held_model_drafts_alone_in_a_hybrid_and_steps_aside_for_lookup(
    target: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = loaded(configured(target, drafter))
    models = session.pair.models()
    made: list[Session] = []
    load = Session.load

    def spy(self: Session, *arguments: object) -> None:
        load(self)
        made.append(self)
        assert self.pair.target.model is models["target"].model, "no weights are read again"
        if "drafter" in self.pair.models():
            assert self.pair.models()["drafter"].model is models["drafter"].model
        assert self.pair.cache is not session.pair.cache

    monkeypatch.setattr(Session, "load", spy)
    tuned = last(list(tune(session, ASK)))
    assert {row.drafter for row in tuned.rows} == {"", "lookup", f"model {drafter}", f"hybrid with {drafter}"}
    assert len(made) == 2 and all(other.held == (None, None) for other in made), "they are closed"
    assert session.pair.models() == models
    lookup = next(row for row in tuned.rows if row.drafter == "lookup" and row.k == 5)
    assert dict(lookup.settings) == {
        "draft.method": "lookup",
        "draft.model_name": None,
        "draft.num_draft_tokens": 5,
    }
    session.close()


def test_a_drafter_that_cannot_be_tried_is_said_and_left_out(session: Session) -> None:
    events = list(tune(session, ASK, names=["nobody/has-this"]))
    out = [event for event in events if isinstance(event, LeftOut)]
    assert [event.drafter for event in out] == ["model nobody/has-this", "hybrid with nobody/has-this"]
    assert all("not on this machine" in event.why for event in out)
    assert {row.drafter for row in last(events).rows} == {"", "lookup"}


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_cancel_leaves_all_as_it_was(session: Session, after: int) -> None:
    list(session.generate(ASK))
    before = (session.config, session.statistics())
    events: list[TuneEvent] = []
    running = tune(session, ASK, cancelled=lambda: len(events) > after)
    while (event := next(running, None)) is not None:
        events.append(event)
    assert not any(isinstance(event, Tuned) for event in events)
    assert (session.config, session.statistics()) == before


def test_a_cancel_ends_the_loading_of_a_drafter(
    session: Session, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one may take long."""
    events: list[TuneEvent] = []
    ended: list[bool] = []
    load = Session.load

    def watched(self: Session, tell: Callable[[Event], None]) -> None:
        try:
            load(self, tell)
        except Cancelled:
            ended.append(True)
            raise

    monkeypatch.setattr(Session, "load", watched)
    about_to_load = f"model {drafter}, K = {MOST_DRAFTS}"

    def cancelled() -> bool:
        return isinstance(events[-1], Trying) and events[-1].what == about_to_load if events else False

    events += tune(session, ASK, names=[drafter], cancelled=cancelled)
    assert ended == [True]
    assert not any(isinstance(event, Tuned) for event in events)


def test_a_cancel_of_the_session_ends_the_run_in_progress(session: Session) -> None:
    events: list[TuneEvent] = []
    seen = 0

    def cancelled() -> bool:
        nonlocal seen
        seen += 1
        if seen == 4:
            session.cancel()
        return False

    events += tune(session, ASK, cancelled=cancelled)
    assert len(events) == 1 and seen <= 6


def test_time_that_is_over_ends_it_with_what_a_ranking_needs(session: Session) -> None:
    tuned = last(list(tune(session, ASK, limit_s=0.0)))
    assert tuned.best.is_plain and not any(row.measured for row in tuned.rows[1:])
    assert tuned.answer_tokens == 8


def test_nothing_to_answer(session: Session) -> None:
    with pytest.raises(ContextError, match="nothing to answer"):
        list(tune(session, ()))


def test_drafters(target: str) -> None:
    own = configured(target, "a-model", draft={"quantize": "int8"})
    names = [drafter_name(draft) for draft in drafters_of(own, ["other"])]
    assert names == [
        "model a-model",
        "lookup",
        "hybrid with a-model",
        "model other",
        "hybrid with other",
    ]
    assert [draft.quantize for draft in drafters_of(own, ["other"])] == [
        "int8",
        "none",
        "int8",
        "none",
        "none",
    ]
    lookup = configured(target, draft={"min_match": 3, "history": True})
    (only,) = drafters_of(lookup)
    assert (only.min_match, only.history) == (3, True)
    knowing = configured(target, draft={"method": "synthetic"})
    assert [drafter_name(draft) for draft in drafters_of(knowing)] == ["lookup"]


def test_what_has_to_change(target: str) -> None:
    own = configured(target).draft
    assert changes(own, own) == ()
    assert changes(own, with_k(own, 8)) == (("draft.num_draft_tokens", 8),)
    assert dict(plain_changes(configured(target, "a-model").draft)) == {
        "draft.method": "lookup",
        "draft.model_name": None,
        "draft.num_draft_tokens": "auto",
    }


def row(drafter: str, k: int, speedup: float, *, measured: bool = True) -> Ranked:
    return Ranked(drafter, k, speedup, None, None, measured, None, ())


def test_what_was_measured_comes_before_what_is_only_predicted() -> None:
    plain = row("", 0, 1.0)
    rows = in_order(
        [row("lookup", 3, 2.0, measured=False), row("lookup", 8, 0.9), plain, row("lookup", 2, 1.2)]
    )
    assert [(found.k, found.measured) for found in rows] == [(2, True), (0, True), (8, True), (3, False)]
    won = Tuned(rows, 10, 10, 1.0)
    assert "The fastest is lookup, K = 2: 1.20 times" in sentence(won) and "this context" in sentence(won)
    assert "disturbed" not in sentence(won)
    shaken = dataclasses.replace(rows[0], low=1.0, high=1.4)
    assert "disturbed" in sentence(dataclasses.replace(won, rows=(shaken, *rows[1:])))
    impossible = dataclasses.replace(rows[0], speedup=3.0, tau=2.0)
    assert "disturbed" in sentence(dataclasses.replace(won, rows=(impossible, *rows[1:])))
    lost = dataclasses.replace(won, rows=rows[1:])
    assert "No drafter pays here: K = 0" in sentence(lost) and "lookup, K = 8, is 0.90x" in sentence(lost)


def test_a_way_is_compared_with_the_plain_runs_of_its_own_passes() -> None:
    times: Times[str] = Times()
    times.begin(["a"])
    for way, ms in ((None, 10.0), ("a", 5.0), ("a", 8.0), (None, 8.0)):
        assert not times.is_enough(way)
        times.add(way, ms)
    times.begin(["b"])
    times.add(None, 100.0)
    assert times.speedup("b") is None, "it did not run yet"
    times.add("b", 50.0)
    assert times.speedup("a") == pytest.approx(8 / 5)
    assert times.spread("a") == (1.0, 2.0)
    assert times.speedup("b") == 2.0 and times.spread("b") == (None, None)
    assert times.known == ("a", "b")


def test_every_event_is_of_the_four_kinds(session: Session) -> None:
    events = list(tune(session, ASK))
    assert all(isinstance(event, Trying | Ranking | Tuned) for event in events)
    for event in events:
        if isinstance(event, Trying):
            assert event.seconds >= 0 and event.limit == tuning.LIMIT_S


def test_a_first_pass_is_brought_to_its_end_in_overtime_and_no_longer(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("engine.tune.time.monotonic", lambda: now)
    running = tune(session, ASK, limit_s=10.0)
    said: list[str] = []
    while (event := next(running, None)) is not None:
        if isinstance(event, Trying):
            said.append(event.what)
            now = {3: 11.0, 6: 15.5}.get(len(said), now)  # in the pass that begins with the third run
    assert len(said) == 6, said
