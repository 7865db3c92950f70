"""Sessions in which K is chosen: costs come first, the choice is remembered, and recordings of it hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.calibrated import costs
from support.rechecks import recorded, repeat
from support.sessions import ASK, configured, ids_of, loaded, of
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.adaptive import OFF
from engine.costs import MOST_DRAFTS, Costs
from engine.events import Calibrated, Notice, Round, SegmentStarted
from engine.recheck import Recheck
from engine.session import Session

AUTO: dict[str, Any] = {"num_draft_tokens": "auto"}
LAWS = [
    {"sampling": {"temperature": 0}},
    {"sampling": {"temperature": 1.0, "seed": 4}, "verify": {"verify_strategy": "match"}},
    {"sampling": {"temperature": 1.0, "seed": 4}, "verify": {"verify_strategy": "block"}},
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    model, path = tiny_model("llama"), tmp_path_factory.mktemp("pair")
    target = save_folder(path / "target", model, tiny_tokenizer())
    return str(target), str(save_folder(path / "drafter", noisy_copy(model, 0.3), tiny_tokenizer()))


def with_costs(monkeypatch: pytest.MonkeyPatch, measured: Costs) -> None:
    """Rounds of tiny models take no time that one could choose by."""
    monkeypatch.setattr("engine.calibrate.Calibrator.costs", lambda calibrator: measured)


def rounds_of(events: list[Any]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def test_costs_are_measured_even_without_a_baseline(folders: tuple[str, str]) -> None:
    session = loaded(configured(*folders, draft=AUTO, run={"baseline": "off"}))
    events = list(session.generate(ASK))
    session.close()
    settings = of(SegmentStarted, events).settings
    assert (settings.adaptive, settings.num_draft_tokens) == (True, MOST_DRAFTS)
    assert events.index(of(Calibrated, events)) < events.index(rounds_of(events)[0])
    assert all(0 <= round_.k <= MOST_DRAFTS for round_ in rounds_of(events))


def test_it_turns_off_with_a_reason_and_writes_the_same_text(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_costs(monkeypatch, costs(3.0, 0.5, t1_ms=1e-3))
    fixed, auto = (loaded(configured(*folders, draft=draft)) for draft in ({}, AUTO))
    told = list(auto.generate(ASK))
    assert ids_of(told) == ids_of(list(fixed.generate(ASK)))
    off = [round_ for round_ in rounds_of(told) if round_.k_reason.startswith(OFF)]
    assert off and all(round_.k == 0 for round_ in off)
    notice = of(Notice, told)
    assert notice.key == "speculation_off"
    assert notice.text.startswith("speculation is off: best K gives 0.")


def test_what_it_learnt_is_kept_for_the_same_pair_and_law(folders: tuple[str, str]) -> None:
    session = loaded(configured(*folders, draft=AUTO))

    def chooser() -> object:
        list(session.generate(ASK))
        assert session._lengths is not None
        return session._lengths[1]

    first = chooser()
    assert chooser() is first
    with session.aside(lambda config: config):
        assert chooser() is not first
    assert chooser() is first
    session.change(configured(*folders, draft=AUTO, sampling={"temperature": 0.5}))
    assert chooser() is not first
    session.eject()
    assert session._lengths is None


@pytest.mark.parametrize("law", LAWS)
def test_a_recording_of_it_is_repeated(folders: tuple[str, str], law: dict[str, Any]) -> None:
    """By the recorded K: that was chosen by times, which nothing repeats."""
    header, events = recorded(configured(*folders, draft=AUTO, **law))
    assert checked(events) == []
    findings, result = repeat((header, events))
    assert findings == []
    assert result.rounds == result.identical == len(rounds_of(events))
    assert result.free[0].identical


def test_more_drafts_than_may_be_are_found(folders: tuple[str, str]) -> None:
    _, events = recorded(configured(*folders))
    asked = rounds_of(events)[0]
    more = [replace(event, k=event.k + 1) if event is asked else event for event in events]
    assert "settings" in checked(more)


def checked(events: list[Any]) -> list[str]:
    recheck = Recheck()
    return [finding.check for event in events for finding in recheck.add(event)]


def test_a_drafter_that_knows_the_text_can_be_asked_too(folders: tuple[str, str]) -> None:
    draft = {**AUTO, "method": "synthetic", "acceptance": 1.0, "cost": 0.1}
    session: Session = loaded(configured(folders[0], draft=draft))
    made = rounds_of(list(session.generate(ASK)))
    assert sum(round_.n_accepted for round_ in made) > 0
