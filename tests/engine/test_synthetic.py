"""The synthetic drafter: it knows the plain run, errs as asked, and is refused where nothing can be known."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.sessions import ASK, LENGTH, configured, ids_of, kinds, loaded, of

from engine.config import Config
from engine.errors import ConfigError
from engine.events import (
    BaselineFinished,
    EndReason,
    Notice,
    PlainRunProgress,
    Round,
    RunFinished,
    SegmentStarted,
)
from engine.session import Session

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def synthetic(target: str, draft: dict[str, Any], **tables: Any) -> Config:
    return configured(target, draft={"method": "synthetic", **draft}, **tables)


def rounds(session: Session) -> list[Round]:
    return [event for event in session.generate(ASK) if isinstance(event, Round)]


def test_a_perfect_one_is_always_right(target: str) -> None:
    session = loaded(synthetic(target, {"acceptance": 1.0}))
    events = list(session.generate(ASK))
    assert kinds(events)[:5] == [
        "RunStarted", "SegmentStarted", "PrefillProgress", "PrefillFinished", "PlainRunProgress",
    ]  # fmt: skip
    told = [event for event in events if isinstance(event, Round)]
    assert [len(event.tokens) for event in told[:-1]] == [4] * (len(told) - 1)
    assert len(ids_of(events)) == LENGTH
    baseline = of(BaselineFinished, list(session.baseline()))
    assert baseline.identical is True
    assert baseline.divergence is None


def test_a_hostile_one_is_never_right(target: str) -> None:
    told = rounds(loaded(synthetic(target, {"acceptance": 0.0})))
    assert len(told) == LENGTH
    assert all(event.n_accepted == 0 for event in told)
    assert any(event.drafts for event in told)


def test_acceptance_by_position(target: str) -> None:
    """0.9 at the first place, 0 at the second: half of the mass lies where it was asked for."""
    run = {"max_new_tokens": 300, "rounds": None}
    session = loaded(synthetic(target, {"acceptance": [0.75, 0.0]}, run=run))
    told = [event for event in rounds(session) if len(event.drafts) == 3]
    first = sum(event.n_accepted >= 1 for event in told) / len(told)
    assert 0.62 < first < 0.87, first
    assert max(event.n_accepted for event in told) == 1


def test_what_it_was_told_is_in_settings_and_measures(target: str) -> None:
    session = loaded(synthetic(target, {"acceptance": 0.5, "cost": 0.25}))
    settings = of(SegmentStarted, list(session.generate(ASK))).settings
    assert (settings.drafter, settings.acceptance, settings.draft_cost) == ("synthetic", (0.5,), 0.25)
    assert session.statistics()["synthetic"] == {
        "acceptance": [0.5],
        "draft_cost": 0.25,
        "speedup_at_cost": None,
    }
    list(session.baseline())
    measures = session.statistics()
    plain_ms = 1000 / measures["baseline_tokens_per_second"]
    charged = 1000 / measures["tokens_per_second"] * measures["tokens"]
    charged += session.run_statistics.drafted * 0.25 * plain_ms
    assert measures["synthetic"]["speedup_at_cost"] == pytest.approx(measures["tokens"] * plain_ms / charged)
    assert measures["synthetic"]["speedup_at_cost"] < measures["speedup"]


@pytest.mark.parametrize("rule", ["match", "seed_exact"])
def test_a_sampled_text_is_known_where_the_seed_fixes_it(target: str, rule: str) -> None:
    sampled = {"sampling": {"temperature": 1.0, "seed": 5}, "verify": {"verify_strategy": rule}}
    session = loaded(synthetic(target, {"acceptance": 1.0}, **sampled))
    told = rounds(session)
    assert sum(len(event.tokens) for event in told) == LENGTH
    assert all(event.n_accepted == len(event.drafts) for event in told)
    assert of(BaselineFinished, list(session.baseline())).identical is True


@pytest.mark.parametrize("rule", ["speculative_sampling", "block"])
def test_it_is_refused_where_chance_decides_the_text(target: str, rule: str) -> None:
    """By the configuration; by the session where the temperature is the model's own."""
    judged = {"verify_strategy": rule}
    with pytest.raises(ValidationError, match=f"chance decides with '{rule}'"):
        synthetic(target, {}, sampling={"temperature": 1.0}, verify=judged)
    unsaid = synthetic(target, {}, sampling={"temperature": None}, verify=judged)
    session = loaded(unsaid)
    with pytest.raises(ConfigError, match=f"{rule} at temperature 1 chance decides it"):
        next(session.generate(ASK))
    greedy = synthetic(target, {})
    session.change(greedy)
    assert rounds(session)
    with pytest.raises(ConfigError):
        session.change(unsaid)
    assert session.config == greedy


def test_cancelled_while_it_learns(target: str) -> None:
    session = loaded(synthetic(target, {}, run={"max_new_tokens": 200}))
    events = []
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, PlainRunProgress):
            session.cancel()
    assert not any(isinstance(event, Round) for event in events)
    assert of(RunFinished, events).tokens == 0
    assert len(session.pair.cache) == len(session.prompt_tokens(ASK)[0]) - 1
    assert rounds(session), "the session goes on"


def test_it_learns_no_more_than_the_rounds_can_use(target: str) -> None:
    session = loaded(synthetic(target, {}, run={"max_new_tokens": None, "rounds": 3}))
    totals = {event.total for event in session.generate(ASK) if isinstance(event, PlainRunProgress)}
    assert totals == {16}


def test_it_learns_no_more_than_a_stop_string_lets_be_written(target: str) -> None:
    whole = "".join(e.text for e in loaded(configured(target)).generate(ASK) if isinstance(e, Round))
    stop = next(letter for letter in whole if letter.isascii() and letter.isprintable())
    run = {"max_new_tokens": 400, "stop": [stop]}
    session = loaded(synthetic(target, {"acceptance": 1.0}, run=run))
    events = list(session.generate(ASK))
    assert of(RunFinished, events).reason is EndReason.STOP
    assert not any(isinstance(event, PlainRunProgress) and event.done > LENGTH for event in events)


def test_it_knows_nothing_of_another_text(target: str) -> None:
    """After a change that moves the text, it is told again, or it says why it guesses nothing."""
    session = loaded(synthetic(target, {"acceptance": 1.0}, run={"max_new_tokens": 40}))
    drafter = session.pair.drafter
    told: list[Round] = []
    for event in session.generate(ASK):
        if isinstance(event, Round):
            told.append(event)
            if len(told) == 2:
                drafter.foretell([1, 2, 3])
            if len(told) == 4:
                penalty = session.config.sampling.model_copy(update={"repetition_penalty": 1.3})
                session.change(session.config.model_copy(update={"sampling": penalty}))
        assert not isinstance(event, Notice)
    assert [event.k_reason for event in told[2:4]] == ["the text left the plain run"] * 2
    assert all(event.n_accepted == len(event.drafts) > 0 for event in told[4:-1])
