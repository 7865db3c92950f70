"""Recordings checked again: what the engine writes is sound, and every kind of change is noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.calibrated import calibrated, costs
from support.sessions import ASK, configured, loaded
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.config import Config
from engine.draws import Draws, Stream
from engine.events import (
    BaselineFinished,
    Calibrated,
    DraftToken,
    EndReason,
    Event,
    Origin,
    PrefillFinished,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Verdict,
)
from engine.philox import uniform24
from engine.recheck import Finding, Grade, Recheck
from engine.recording import read_recording
from tui.compare import tokens_of
from tui.export.report import build_report
from tui.playable import PATH

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama")
    folder = tmp_path_factory.mktemp("pair")
    target = save_folder(folder / "target", model, tokenizer)
    return str(target), str(save_folder(folder / "drafter", noisy_copy(model, 0.3), tokenizer))


def check(events: Sequence[Event]) -> list[Finding]:
    recheck = Recheck()
    return [finding for event in events for finding in recheck.add(event)]


def events_of(config: Config, *, baseline: bool = True) -> list[Event]:
    session = loaded(config)
    events = list(session.generate(ASK))
    if baseline:
        events += session.baseline()
    session.close()
    return events


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.sampled_from(Stream), st.integers(1, 70))
def test_the_draws_are_those_of_the_engine(seed: int, position: int, stream: Stream, count: int) -> None:
    assert uniform24(seed, position, stream, count) == Draws(seed).uniform(position, stream, count).tolist()


SAMPLINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 1.0, "seed": 3},
    {"temperature": 0.6, "seed": 4, "top_k": 20},
    {"temperature": 1.3, "seed": 5, "top_p": 0.8, "repetition_penalty": 1.2},
    {"temperature": 0.9, "seed": 6, "min_p": 0.1},
)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("strategy", ["random", "greedy", "lookup"])
@pytest.mark.parametrize(
    "end", [{"max_new_tokens": 24}, {"rounds": 5, "max_new_tokens": None}, {"stop": ["e"]}]
)
def test_a_run_of_the_engine_is_sound(
    folders: tuple[str, str], sampling: dict[str, Any], strategy: str, end: dict[str, Any]
) -> None:
    target, drafter = folders
    draft = {} if strategy == "lookup" else {"sample_strategy": strategy}
    config = configured(
        target, None if strategy == "lookup" else drafter, draft=draft, sampling=sampling, run=end
    )
    assert [finding for finding in check(events_of(config)) if finding.grade is not Grade.TIE] == []


def test_greedy_match_is_sound(folders: tuple[str, str]) -> None:
    rule = {"verify_strategy": "greedy_match"}
    assert check(events_of(configured(*folders, verify=rule))) == []


def test_the_recording_of_the_first_start_is_sound() -> None:
    recheck = Recheck()
    events = read_recording(PATH).events
    assert [finding for event in events for finding in recheck.add(event)] == []
    assert recheck.runs == 1
    assert recheck.rounds > 10
    assert recheck.checks > 1000


# -- changes


@pytest.fixture(scope="module")
def sampled(folders: tuple[str, str]) -> list[Event]:
    """Rounds of every kind, drawn at temperature 1, and their baseline."""
    events = events_of(
        configured(
            *folders,
            sampling={"temperature": 1.0, "seed": 11},
            run={"max_new_tokens": 60, "baseline": "full"},
            verify={"verify_strategy": "speculative_sampling"},
        )
    )
    rounds = [event for event in events if isinstance(event, Round)]
    assert any(0 < each.n_accepted < 3 for each in rounds)
    return events


def changed(
    events: Sequence[Event], kind: type[Any], change: Callable[[Any], Any], wanted: Any = None
) -> list[Event]:
    """The events with the first one of a kind, that is as wanted, changed."""
    at = next(
        index
        for index, event in enumerate(events)
        if isinstance(event, kind) and (wanted is None or wanted(event))
    )
    return [*events[:at], change(events[at]), *events[at + 1 :]]


def partly(round_: Round) -> bool:
    return 0 < round_.n_accepted < len(round_.drafts) and not round_.was_cut


def draft(round_: Round, place: int, **values: Any) -> Round:
    drafts: list[DraftToken] = list(round_.drafts)
    drafts[place] = replace(drafts[place], **values)
    return replace(round_, drafts=tuple(drafts))


def target(round_: Round, **values: Any) -> Round:
    return replace(round_, target=replace(round_.target, **values))


CHANGES: dict[str, tuple[type[Event], Callable[[Any], Any], str]] = {
    "a draw": (Round, lambda r: draft(r, 0, u=0.5), "draw"),
    "a draw beyond float32": (Round, lambda r: draft(r, 0, u=1e300), "draw"),
    "no draw": (Round, lambda r: draft(r, 0, u=None), "draw"),
    "p of an accepted draft": (Round, lambda r: draft(r, 0, p=0.0), "acceptance"),
    "p of the rejected draft": (Round, lambda r: draft(r, r.n_accepted, p=1.0), "acceptance"),
    "q of the rejected draft": (Round, lambda r: draft(r, r.n_accepted, q=1e-9), "acceptance"),
    "a verdict": (Round, lambda r: draft(r, 0, verdict=Verdict.IGNORED), "verdicts"),
    "one accepted more": (Round, lambda r: replace(r, n_accepted=r.n_accepted + 1), "verdicts"),
    "a draft less": (Round, lambda r: replace(r, drafts=r.drafts[:-1]), "laws"),
    "another origin": (Round, lambda r: target(r, origin=Origin.BONUS), "target"),
    "an impossible correction": (Round, lambda r: target(r, p=1e-4, q=0.9), "target"),
    "q of a correction": (Round, lambda r: target(r, q=None), "target"),
    "another token": (Round, lambda r: replace(r, tokens=(r.tokens[0] + 1, *r.tokens[1:])), "commit"),
    "a token less": (Round, lambda r: replace(r, tokens=r.tokens[:-1]), "cut"),
    "a token taken back": (Round, lambda r: replace(r, taken_back=1), "cut"),
    "another length": (Round, lambda r: replace(r, context_length=r.context_length + 1), "context"),
    "another number": (Round, lambda r: replace(r, number=r.number + 1), "order"),
    "other settings": (Round, lambda r: replace(r, settings_id=9), "settings"),
    "a law out of order": (Round, lambda r: replace(r, p_top=(r.p_top[0][::-1], *r.p_top[1:])), "laws"),
    "a time": (Round, lambda r: replace(r, verify_ms=-1.0), "time"),
    "the seed": (
        SegmentStarted,
        lambda s: replace(s, settings=replace(s.settings, seed=s.settings.seed + 1)),
        "draw",
    ),
    "the count of tokens": (RunFinished, lambda r: replace(r, tokens=r.tokens + 1), "counts"),
    "the reason": (RunFinished, lambda r: replace(r, reason=EndReason.EOS), "cut"),
    "the whole time": (RunFinished, lambda r: replace(r, decode_ms=r.decode_ms * 2 + 10), "time"),
    "the limit": (RunStarted, lambda r: replace(r, max_new_tokens=20), "cut"),
    "the ids of the baseline": (BaselineFinished, lambda b: replace(b, ids=b.ids[:-1]), "baseline"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(sampled: list[Event], name: str) -> None:
    kind, change, noticed_by = CHANGES[name]
    assert check(sampled) == []
    found = check(changed(sampled, kind, change, partly if kind is Round else None))
    assert noticed_by in {finding.check for finding in found if finding.grade is Grade.BUG}, found


def test_a_round_that_is_left_out_or_told_twice_is_noticed(sampled: list[Event]) -> None:
    at = next(index for index, event in enumerate(sampled) if isinstance(event, Round))
    for events in ([*sampled[:at], *sampled[at + 1 :]], [*sampled[: at + 1], *sampled[at:]]):
        assert {"order", "context"} <= {finding.check for finding in check(events)}


def test_a_difference_of_rounding_is_called_so(sampled: list[Event]) -> None:
    def rounded(value: float) -> float:
        return float(torch.tensor(value, dtype=torch.float32))

    def borderline(round_: Round) -> bool:
        """u q is below its own rounding: one of the two says that the draft stands."""
        first = round_.drafts[0] if round_.drafts else None
        return first is not None and first.u is not None and first.u * first.q < rounded(first.u * first.q)

    def nudge(round_: Round) -> Round:
        first = round_.drafts[0]
        assert first.u is not None
        return draft(round_, 0, p=rounded(first.u * first.q))

    found = check(changed(sampled, Round, nudge, borderline))
    assert [finding.grade for finding in found if finding.check == "acceptance"] == [Grade.ROUNDING]


def test_a_wrong_word_on_the_baseline_is_noticed(folders: tuple[str, str]) -> None:
    events = events_of(configured(*folders))
    assert check(events) == []
    lied = changed(events, BaselineFinished, lambda b: replace(b, ids=(b.ids[0] + 1, *b.ids[1:])))
    assert {finding.check for finding in check(lied)} == {"baseline"}


def test_a_file_that_begins_in_the_middle_is_told(folders: tuple[str, str], tmp_path: Path) -> None:
    events = [event for event in events_of(configured(*folders)) if not isinstance(event, RunStarted)]
    assert {finding.check for finding in check(events)} == {"order"}


def test_a_run_that_goes_on_with_another_drafter_is_one_run(folders: tuple[str, str]) -> None:
    limits = {"max_new_tokens": 40}
    first = configured(*folders, sampling={"temperature": 0.9, "seed": 2}, run=limits)
    session = loaded(first)
    events: list[Event] = []
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 4:
            session.cancel()
    written = [id_ for event in events if isinstance(event, Round) for id_ in event.tokens]
    session.config = configured(folders[0], sampling={"temperature": 0.9, "seed": 2}, run=limits)
    session.load()
    events += session.generate(ASK, tuple(written), resumed=True)
    session.close()
    recheck = Recheck()
    assert [finding for event in events for finding in recheck.add(event)] == []
    assert recheck.runs == 1
    elsewhere = changed(events, RunStarted, lambda r: replace(r, given=r.given[:-1]), lambda r: r.resumed)
    assert "context" in {finding.check for finding in check(elsewhere)}
    report = build_report({}, events)
    assert len(report.runs) == 1
    ids = [token.id for token in tokens_of(report.runs[0])]
    assert ids == [id_ for event in events if isinstance(event, Round) for id_ in event.tokens]


# -- costs


def priced(events: Sequence[Event]) -> list[Event]:
    """The run with its costs measured where the prompt was read, and nowhere else."""
    events = [event for event in events if not isinstance(event, Calibrated)]
    at = next(index for index, event in enumerate(events) if isinstance(event, PrefillFinished))
    (started,) = (event for event in events if isinstance(event, RunStarted))
    length = len(started.prompt) + len(started.given)
    return [*events[: at + 1], calibrated(costs(context_length=length)), *events[at + 1 :]]


def with_costs(event: Calibrated, **changes: Any) -> Calibrated:
    return replace(event, costs=replace(event.costs, **changes))


PRICES: dict[str, tuple[Callable[[Calibrated], Calibrated], str]] = {
    "other settings": (lambda c: replace(c, settings_id=9), "settings"),
    "another length": (lambda c: with_costs(c, context_length=c.costs.context_length + 1), "context"),
    "no time for a pass": (lambda c: with_costs(c, plain_pass_ms=0.0, plain_host_ms=0.0), "costs"),
    "a pass of no rows": (lambda c: with_costs(c, rounds=(replace(c.costs.rounds[0], rows=0),)), "costs"),
    "memory that gives nothing": (lambda c: with_costs(c, bandwidth_gbs=-1.0), "costs"),
    "measured in no time": (lambda c: with_costs(c, took_ms=0.5), "time"),
}


@pytest.mark.parametrize("name", PRICES)
def test_a_change_of_the_costs_is_noticed(sampled: list[Event], name: str) -> None:
    change, noticed_by = PRICES[name]
    assert check(priced(sampled)) == []
    found = check(changed(priced(sampled), Calibrated, change))
    assert {finding.check for finding in found} == {noticed_by}


@pytest.mark.parametrize("kind", [RunStarted, SegmentStarted, PrefillFinished])
def test_costs_measured_before_the_prompt_was_read_are_noticed(sampled: list[Event], kind: type) -> None:
    (costs_,) = (event for event in priced(sampled) if isinstance(event, Calibrated))
    events = [event for event in sampled if not isinstance(event, Calibrated)]
    at = next(index for index, event in enumerate(events) if isinstance(event, kind))
    assert "order" in {finding.check for finding in check([*events[:at], costs_, *events[at:]])}


def test_costs_measured_after_the_end_are_noticed(sampled: list[Event]) -> None:
    assert {finding.check for finding in check([*sampled, calibrated(costs())])} == {"order", "context"}


def test_a_baseline_of_some_places_tells_of_no_text(sampled: list[Event]) -> None:
    places = changed(sampled, BaselineFinished, lambda b: replace(b, ids=(), sampled=True, identical=None))
    assert check(places) == []
    lies: tuple[dict[str, Any], ...] = ({"identical": True}, {"ids": (1, 2)})
    for lie in lies:
        found = check(
            [replace(each, **lie) if isinstance(each, BaselineFinished) else each for each in places]
        )
        assert {finding.check for finding in found} == {"baseline"}
