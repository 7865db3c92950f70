"""Recorded runs written once more, freely: what comes out the same, what differs, and how that is classed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.rechecks import Story, recorded, repeat
from support.sessions import ASK, configured, ids_of, loaded
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.config import Config
from engine.draws import SharedNoise, Stream
from engine.errors import RecordingError
from engine.events import EndReason, Event, Round, RunFinished, RunStarted, SegmentStarted
from engine.recheck_draws import WatchedDraws, WatchedSharedNoise
from engine.recheck_finding import Finding, Grade
from engine.recheck_free import FreeRun
from engine.session import Session

Folders = dict[str, str]
DRAWN = {"temperature": 1.0, "seed": 5}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    model, folder = tiny_model("llama"), tmp_path_factory.mktemp("models")
    models = {"target": model, "drafter": noisy_copy(model, 0.3), "other": noisy_copy(model, 0.6, seed=2)}
    return {name: str(save_folder(folder / name, each, tiny_tokenizer())) for name, each in models.items()}


def pair(folders: Folders, **changes: Any) -> Config:
    return configured(folders["target"], folders["drafter"], **changes)


def free_of(story: Story) -> tuple[list[Finding], FreeRun]:
    """What is found, and the free repetition of the one run."""
    findings, result = repeat(story)
    (free,) = result.free
    return findings, free


def graded(findings: Sequence[Finding]) -> list[tuple[str, Grade]]:
    """Of the free repetition."""
    return [(found.check, found.grade) for found in findings if found.check in {"free", "end"}]


def other_id(round_: Round, by: int = 1) -> Round:
    """The target chose another token."""
    id_ = (round_.target.id + by) % 300
    tokens = (*round_.tokens[:-1], id_)
    return replace(round_, target=replace(round_.target, id=id_), tokens=tokens)


def rounds_of(story: Story) -> list[Round]:
    return [event for event in story[1] if isinstance(event, Round)]


def with_last_round(story: Story, number: int) -> Story:
    """As if the run had ended there, for the same reason."""
    header, events = story
    return header, [event for event in events if not (isinstance(event, Round) and event.number > number)]


@pytest.fixture(scope="module", params=[{"temperature": 0}, DRAWN], ids=["greedy", "drawn"])
def story(request: pytest.FixtureRequest, folders: Folders) -> Story:
    return recorded(pair(folders, sampling=request.param, run={"max_new_tokens": 40}))


# -- what comes out the same


def test_the_whole_run_comes_out_the_same(story: Story) -> None:
    findings, free = free_of(story)
    assert findings == []
    assert free.identical
    assert (free.same_tokens, free.same_rounds) == (free.tokens, len(rounds_of(story)))
    assert free.tokens == len(ids_of(story[1])) == 40
    assert (free.token, free.grade, free.left_out) == (None, None, None)


def test_every_run_is_written_once_more(folders: Folders) -> None:
    session = loaded(pair(folders, sampling=DRAWN))
    events = [*session.generate(ASK), *session.generate(ASK, (20, 30, 40))]
    session.change(pair(folders, sampling={"temperature": 0}, run={"stop": ["e"], "max_new_tokens": 200}))
    events += session.generate(ASK)
    findings, result = repeat((session.header(), events))
    session.close()
    assert findings == []
    assert [(free.run, free.identical, free.left_out) for free in result.free] == [
        (run, True, None) for run in (1, 2, 3)
    ]
    ends = [event.reason for event in events if isinstance(event, RunFinished)]
    assert ends[-1] is EndReason.STOP


@pytest.mark.parametrize("sampling", [{"temperature": 0}, DRAWN], ids=["greedy", "drawn"])
def test_settings_change_at_the_same_round(folders: Folders, sampling: dict[str, Any]) -> None:
    session = loaded(pair(folders, sampling=sampling))
    events: list[Event] = []
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 3:
            later = {"temperature": 0.7, "top_k": 20, "seed": 77}
            session.change(pair(folders, sampling=later, draft={"num_draft_tokens": 1}))
    findings, free = free_of((session.header(), events))
    session.close()
    assert sum(isinstance(event, SegmentStarted) for event in events) == 2
    assert findings == []
    assert free.identical and free.left_out is None


@pytest.mark.parametrize("end", ["cancelled", "cut off", "rounds"])
def test_a_run_that_was_ended_is_repeated_up_to_there(folders: Folders, end: str) -> None:
    run = {"max_new_tokens": 40, **({"rounds": 4} if end == "rounds" else {})}
    session = loaded(pair(folders, sampling=DRAWN, run=run))
    events: list[Event] = []
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 4:
            if end == "cancelled":
                session.cancel()
            elif end == "cut off":
                break
    findings, free = free_of((session.header(), events))
    session.close()
    assert findings == []
    assert free.identical
    assert free.tokens == len(ids_of(events)) < 40
    assert free.same_rounds == 4


def test_a_run_without_a_round_is_nothing_to_repeat(folders: Folders) -> None:
    header, events = recorded(pair(folders))
    begun: list[Event] = [event for event in events if isinstance(event, RunStarted | SegmentStarted)]
    findings, free = free_of((header, begun))
    assert (findings, free.tokens, free.identical) == ([], 0, True)


def test_a_drafter_that_guesses_otherwise_changes_no_greedy_text(folders: Folders) -> None:
    def disturb(session: Session) -> None:
        model = session.pair.drafter.context.model
        assert model is not None
        shaken(model.model, 0.5)

    findings, result = repeat(recorded(pair(folders, run={"max_new_tokens": 40})), disturb)
    (free,) = result.free
    assert graded(findings) == []
    assert free.identical
    assert free.same_rounds < result.rounds


# -- what cannot be repeated


def test_a_run_that_went_on_with_other_models_is_repeated_up_to_there(folders: Folders) -> None:
    session = loaded(pair(folders, sampling=DRAWN, run={"max_new_tokens": 40}))
    header, events = session.header(), list[Event]()
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 4:
            break
    written = len(events)
    session.config = configured(
        folders["target"], folders["other"], sampling=DRAWN, run={"max_new_tokens": 40}
    )
    session.load(events.append)
    assert len(events) > written
    events += session.generate(ASK, ids_of(events), resumed=True)
    events += session.generate(ASK)
    session.close()
    findings, result = repeat((header, events))
    assert findings == []
    first, second = result.free
    assert first.left_out == "from round 5 on it has other models"
    assert first.identical and first.same_rounds == 4 == result.rounds
    assert second.left_out is not None and "other models" in second.left_out
    assert not second.identical
    assert result.left_out == len(rounds_of((header, events))) - 4


def test_another_way_of_drafting_is_left_out(folders: Folders) -> None:
    header, events = recorded(pair(folders))
    at = [index for index, event in enumerate(events) if isinstance(event, Round)][2]
    segment = next(event for event in events if isinstance(event, SegmentStarted))
    other = replace(segment, settings_id=9, settings=replace(segment.settings, drafter="lookup"))
    findings, free = free_of((header, [*events[:at], other, *events[at:]]))
    assert findings == []
    assert free.left_out == "from round 3 on another drafter guesses: lookup"
    assert free.identical and free.same_rounds == 2


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": (1, 99_999)},
        {"prompt": ()},
        {"given": (-1,)},
        {"prompt": (1,) * 600},
    ],
)
def test_what_no_model_can_be_fed_with_is_refused(story: Story, change: dict[str, Any]) -> None:
    with pytest.raises(RecordingError):
        repeat(begun_with(story, **change))


@pytest.mark.parametrize("change", [{"temperature": -1.0}, {"verify_strategy": "none"}, {"top_p": 7.0}])
def test_settings_that_no_run_can_have_are_refused(story: Story, change: dict[str, Any]) -> None:
    header, events = story
    forged = [
        replace(event, settings=replace(event.settings, **change))
        if isinstance(event, SegmentStarted)
        else event
        for event in events
    ]
    with pytest.raises(RecordingError, match="settings"):
        repeat((header, forged))


# -- what differs


@pytest.mark.parametrize("number", [1, 4])
def test_a_forged_token_is_a_bug_and_told_with_its_place(story: Story, number: int) -> None:
    header, events = story
    forged = [
        other_id(event) if isinstance(event, Round) and event.number == number else event for event in events
    ]
    findings, free = free_of((header, forged))
    assert graded(findings) == [("free", Grade.BUG)]
    before = sum(len(round_.tokens) for round_ in rounds_of(story)[:number])
    assert (free.token, free.round, free.same_rounds) == (before, number, number - 1)
    true = rounds_of(story)[number - 1].target.id
    assert (free.recorded_id, free.repeated_id) == ((true + 1) % 300, true)
    assert not free.identical
    assert free.margin is not None and free.margin > 1e-4
    (found,) = (found for found in findings if found.check == "free")
    assert f"id {true}" in found.text


def test_an_end_that_was_moved_is_a_bug(story: Story) -> None:
    findings, free = free_of(with_last_round(story, 4))
    assert graded(findings) == [("end", Grade.BUG)]
    assert free.same_tokens == free.tokens < 40
    assert not free.identical


def test_an_end_for_another_reason_is_a_bug(story: Story) -> None:
    header, events = story
    forged = [
        replace(event, reason=EndReason.EOS) if isinstance(event, RunFinished) else event for event in events
    ]
    assert graded(free_of((header, forged))[0]) == [("end", Grade.BUG)]


def begun_with(story: Story, **change: Any) -> Story:
    header, events = story
    return header, [replace(event, **change) if isinstance(event, RunStarted) else event for event in events]


def test_an_end_that_came_earlier_is_a_bug(story: Story) -> None:
    text = "".join(round_.text for round_ in rounds_of(story))
    stop = next(char for char in text[len(text) // 2 :] if char.isalpha() and char.isascii())
    findings, free = free_of(begun_with(story, stop=(stop,)))
    assert graded(findings) == [("end", Grade.BUG)]
    assert "commit" in {found.check for found in findings if found.grade is Grade.BUG}
    assert free.same_tokens < 40 and not free.identical


def test_rounds_after_the_limit_of_tokens_are_a_bug(story: Story) -> None:
    findings, free = free_of(begun_with(story, max_new_tokens=30))
    assert Grade.BUG in {grade for _, grade in graded(findings)}
    assert free.same_tokens <= 30 and not free.identical


def test_two_tokens_that_are_the_likeliest_alike_are_a_tie(folders: Folders, tmp_path: Path) -> None:
    config = pair(folders, run={"max_new_tokens": 12})
    last = ids_of(recorded(config)[1])[-1]
    model, twin = tiny_model("llama"), last + 1
    with torch.no_grad():
        model.lm_head.weight[twin] = model.lm_head.weight[last]
    target = str(save_folder(tmp_path / "tied", model, tiny_tokenizer()))
    header, events = recorded(configured(target, folders["drafter"], run={"max_new_tokens": 12}))
    assert ids_of(events)[-1] == last
    final = rounds_of((header, events))[-1]
    assert final.tokens[-1] == final.target.id == last
    forged = [other_id(event) if event is final else event for event in events]
    findings, free = free_of((header, forged))
    assert [(found.check, found.grade) for found in findings] == [("target", Grade.TIE), ("free", Grade.TIE)]
    assert (free.token, free.margin, free.recorded_id, free.repeated_id) == (12, 0.0, twin, last)


def shaken(model: Any, amount: float) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + amount * torch.randn_like(weight))


def test_weights_that_are_a_little_off_part_the_run_within_rounding(folders: Folders) -> None:
    """Much more than float32 rounds, so that it happens in a short run; the models say they are bfloat16."""
    tables = {"sampling": DRAWN, "run": {"max_new_tokens": 200, "dtype": "bfloat16"}}
    findings, result = repeat(
        recorded(pair(folders, **tables)), lambda session: shaken(session.pair.target.model, 3e-3)
    )
    (free,) = result.free
    assert graded(findings) == [("free", Grade.ROUNDING)]
    assert free.margin is not None and 0 < free.margin <= 0.1
    assert free.token is not None and free.same_tokens == free.token - 1 > 0


def test_another_target_is_a_bug(story: Story) -> None:
    findings, result = repeat(story, lambda session: shaken(session.pair.target.model, 0.5))
    assert graded(findings) == [("free", Grade.BUG)]
    assert not result.free[0].identical


@pytest.mark.parametrize("said", ["something else", None])
def test_the_messages_give_the_prompt(folders: Folders, said: str | None) -> None:
    header, events = recorded(pair(folders))
    content = ASK[0].content if said is None else said
    findings, result = repeat(({**header, "context": [{"role": "user", "content": content}]}, events))
    assert findings == []
    assert result.same_prompt == (said is None)


# -- how near another token was


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12).filter(any), st.integers(0, 1000))
def test_the_drawn_token_was_hit_and_the_others_missed_by_what_lies_between(
    weights: list[int], position: int
) -> None:
    draws, law = WatchedDraws(3), torch.tensor(weights, dtype=torch.float64)
    draws.begin(position)
    drawn = int(draws.target(law, position))
    total = sum(weights)
    assert draws.miss(Stream.TARGET, 0, drawn) == 0
    for id_ in range(len(weights)):
        miss = draws.miss(Stream.TARGET, 0, id_)
        between = sum(weights[min(id_, drawn) + 1 : max(id_, drawn)]) / total
        assert miss is not None
        assert between - 1e-12 <= miss <= between + weights[drawn] / total + 1e-12
    assert draws.miss(Stream.DRAFT, 0, drawn) is None
    assert draws.miss(Stream.TARGET, 0, len(weights)) is None
    draws.target(law, position + 2)
    assert draws.miss(Stream.TARGET, 1, drawn) is None
    assert draws.miss(Stream.TARGET, 2, drawn) is not None
    draws.draft(law, position, 2)
    assert draws.miss(Stream.DRAFT, 2, 0) is not None
    draws.begin(position + 1)
    assert draws.miss(Stream.DRAFT, 2, 0) is None
    assert draws.miss(Stream.TARGET, 0, drawn) is None


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=8), st.integers(0, 1000), st.integers(0, 3))
def test_with_shared_noise_another_token_is_drawn_once_the_laws_are_off_by_the_margin(
    weights: list[float], position: int, place: int
) -> None:
    law = torch.tensor(weights, dtype=torch.float64)
    law /= law.sum()
    draws = WatchedSharedNoise(3)
    draws.begin(position)
    drawn = int(draws.target(law, position + place))
    assert draws.miss(Stream.TARGET, place, drawn) == 0
    assert draws.miss(Stream.DRAFT, place, drawn) is None
    for id_ in range(len(weights)):
        margin = draws.miss(Stream.TARGET, place, id_)
        assert margin is not None
        for share, wins in ((0.99, drawn), (1.01, id_)):
            pair = law.clone()
            pair[id_] += margin * share
            pair[drawn] = (pair[drawn] - margin * share).clamp(min=0)
            alone = torch.zeros_like(pair)
            alone[[id_, drawn]] = pair[[id_, drawn]]
            if id_ != drawn and margin > 1e-9:
                assert int(SharedNoise(3).target(alone, position + place)) == wins
