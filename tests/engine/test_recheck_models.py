"""Recordings repeated with their models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.rechecks import Story, recorded, repeat
from support.sessions import ASK, configured, ids_of
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.errors import RecordingError
from engine.events import Round, RunStarted, SegmentStarted
from engine.recheck_finding import Grade
from engine.recheck_models import ModelRecheck
from engine.session import Session
from engine.session_core import Tell

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama")
    folder = tmp_path_factory.mktemp("pair")
    target = save_folder(folder / "target", model, tokenizer)
    return str(target), str(save_folder(folder / "drafter", noisy_copy(model, 0.3), tokenizer))


def changed(story: Story, change: Callable[[Round], Round], number: int = 3) -> Story:
    header, events = story
    return header, [
        change(event) if isinstance(event, Round) and event.number == number else event for event in events
    ]


CASES: Sequence[dict[str, Any]] = (
    {"sampling": {"temperature": 0}},
    {"sampling": {"temperature": 1.0, "seed": 5}},
    {"sampling": {"temperature": 0.8, "seed": 6, "top_k": 30}, "draft": {"sample_strategy": "greedy"}},
    {"sampling": {"temperature": 0.9, "seed": 7}, "run": {"stop": ["e"], "max_new_tokens": 200}},
    {"verify": {"verify_strategy": "greedy_match"}},
    {"verify": {"verify_strategy": "block"}, "sampling": {"temperature": 1.0, "seed": 8}},
    {"verify": {"verify_strategy": "match"}, "sampling": {"temperature": 0.8, "seed": 9}},
    {"verify": {"verify_strategy": "seed_exact"}, "sampling": {"temperature": 1.0, "seed": 10}},
)


@pytest.mark.parametrize("drafts", ["model", "lookup"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_comes_out_the_same_bit_by_bit(
    folders: tuple[str, str], case: dict[str, Any], drafts: str
) -> None:
    if drafts == "lookup":
        case = {**case, "draft": {}}
    story = recorded(configured(folders[0], folders[1] if drafts == "model" else None, **case))
    findings, result = repeat(story)
    assert findings == []
    rounds = sum(isinstance(event, Round) for event in story[1])
    assert (result.rounds, result.identical, result.same_tokens) == (rounds, rounds, rounds)
    assert result.first_difference is None
    assert result.drift == 0


@pytest.mark.parametrize("ignored", [True, False])
def test_an_end_of_text_ends_the_answer_or_not_as_it_was_recorded(
    folders: tuple[str, str], ignored: bool
) -> None:
    run = {"ignore_eos": True, "max_new_tokens": 24}
    _, events = recorded(configured(*folders, run=run))
    rounds = [event.tokens for event in events if isinstance(event, Round)]
    ending = next(
        tokens[0]
        for at, tokens in enumerate(rounds)
        if at and len(tokens) > 1 and tokens[0] not in {id_ for before in rounds[:at] for id_ in before}
    )

    class Ending(Session):
        """Its target ends a text with a token that the answer has."""

        def load(self, tell: Tell = lambda _: None) -> None:
            super().load(tell)
            self.pair.target.eos_ids = frozenset({ending})

    session = Ending(configured(*folders, run={**run, "ignore_eos": ignored}))
    session.load()
    events = list(session.generate(ASK))
    written = [id_ for event in events if isinstance(event, Round) for id_ in event.tokens]
    assert (ending in written[:-1]) == ignored
    recheck = ModelRecheck(session.header(), Ending)
    session.close()
    recheck.load()
    assert list(recheck.run(events)) == []
    assert recheck.result.identical == recheck.result.rounds > 0
    recheck.close()


@pytest.fixture(scope="module")
def sampled(folders: tuple[str, str]) -> Story:
    return recorded(
        configured(*folders, sampling={"temperature": 1.0, "seed": 5}, run={"max_new_tokens": 60})
    )


def test_what_a_forger_changed_is_a_bug_and_what_follows_is_checked_too(sampled: Story) -> None:
    def other_draft(round_: Round) -> Round:
        drafts = (replace(round_.drafts[0], id=round_.drafts[0].id + 1, q_top=()), *round_.drafts[1:])
        return replace(round_, drafts=drafts)

    findings, result = repeat(changed(sampled, other_draft))
    assert [(finding.round, finding.check, finding.grade) for finding in findings] == [
        (3, "draft", Grade.BUG)
    ]
    assert result.first_difference == (1, 3)
    assert result.same_tokens == result.rounds - 1


def test_a_wrong_probability_is_a_bug(sampled: Story) -> None:
    def likelier(round_: Round) -> Round:
        return replace(round_, target=replace(round_.target, p=round_.target.p * 0.5 + 0.4))

    findings, _ = repeat(changed(sampled, likelier))
    assert [(finding.round, finding.check, finding.grade) for finding in findings] == [(3, "laws", Grade.BUG)]


def test_noise_of_the_last_bits_is_no_bug(sampled: Story) -> None:
    def disturb(session: Session) -> None:
        torch.manual_seed(0)
        with torch.no_grad():
            for weight in session.pair.target.model.parameters():
                weight.mul_(1 + 1e-6 * torch.randn_like(weight))

    findings, result = repeat(sampled, disturb)
    assert Grade.BUG not in {finding.grade for finding in findings}
    assert 0 < result.drift < 1e-4
    assert result.identical < result.rounds


def test_another_target_is_a_bug(sampled: Story) -> None:
    def disturb(session: Session) -> None:
        torch.manual_seed(0)
        with torch.no_grad():
            for weight in session.pair.target.model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))

    findings, _ = repeat(sampled, disturb)
    assert Grade.BUG in {finding.grade for finding in findings}


def test_each_model_runs_again_as_it_ran(folders: tuple[str, str]) -> None:
    """ "auto" may have taken one way for the target and another for the drafter."""

    def ways(session: Session) -> None:
        found.append(tuple(info.passes if info else None for info in session.held))

    found: list[tuple[str | None, ...]] = []
    session = Session(configured(*folders, run={"dtype": "bfloat16"}))
    session.ways = {"target": "static", "drafter": "eager"}
    session.load()
    events = list(session.generate(ASK))
    findings, result = repeat((session.header(), events), ways)
    assert found == [("static", "eager")]
    assert not findings
    assert result.identical == result.rounds > 0


def test_a_recording_that_names_no_way_ran_as_transformers_does(sampled: Story) -> None:
    header, events = sampled
    old = {key: value for key, value in header["target"].items() if key != "passes"}
    found: list[str] = []
    repeat(({**header, "target": old}, events), lambda session: found.append(session.pair.target.info.passes))
    assert found == ["eager"]
    with pytest.raises(RecordingError, match="passes ran as 'magic', which this version does not know"):
        repeat(({**header, "target": {**old, "passes": "magic"}}, events))


def test_other_weights_are_refused_by_their_hash(
    folders: tuple[str, str], sampled: Story, tmp_path: Path
) -> None:
    header, events = sampled
    with pytest.raises(RecordingError, match="other weights"):
        repeat(({**header, "target": {**header["target"], "sha256": "0" * 64}}, events))


def test_a_header_without_configuration_is_told(sampled: Story) -> None:
    with pytest.raises(RecordingError, match="configuration"):
        repeat(({"config": {"draft": 3}}, sampled[1]))


# -- the margins of each rule


@pytest.mark.parametrize("rule", ["speculative_sampling", "block", "match", "seed_exact"])
def test_what_rounding_changed_is_told_as_rounding_under_every_rule(
    folders: tuple[str, str], rule: str
) -> None:
    """Weights off by much more than float32 rounds, so that it shows; the models say they are bfloat16."""
    story = recorded(
        configured(
            *folders,
            verify={"verify_strategy": rule},
            sampling={"temperature": 1.0, "seed": 5},
            run={"max_new_tokens": 100, "dtype": "bfloat16"},
        )
    )

    def disturb(session: Session) -> None:
        torch.manual_seed(0)
        with torch.no_grad():
            for weight in session.pair.target.model.parameters():
                weight.mul_(1 + 6e-4 * torch.randn_like(weight))

    findings, result = repeat(story, disturb)
    assert result.same_tokens < result.rounds
    decisions = [finding for finding in findings if finding.check in {"draft", "acceptance", "target"}]
    assert {finding.grade for finding in decisions} == {Grade.ROUNDING}, decisions
    assert {"acceptance", "target"} & {finding.check for finding in decisions}


@pytest.mark.parametrize("rule", ["speculative_sampling", "block", "match", "seed_exact"])
def test_a_target_that_another_draw_would_have_given_is_a_bug(folders: tuple[str, str], rule: str) -> None:
    story = recorded(
        configured(
            *folders,
            verify={"verify_strategy": rule},
            sampling={"temperature": 1.0, "seed": 5},
            run={"max_new_tokens": 60},
        )
    )

    def other_target(round_: Round) -> Round:
        id_ = (round_.target.id + 150) % 300
        return replace(
            round_, target=replace(round_.target, id=id_), tokens=(*round_.tokens[: round_.n_accepted], id_)
        )

    findings, _ = repeat(changed(story, other_target))
    forced = [finding for finding in findings if finding.check not in {"free", "end"}]
    # What follows comes after another token than the recorded rounds did.
    first = forced[0]
    assert (first.round, first.check, first.grade) == (3, "target", Grade.BUG)
    assert first.margin is not None and first.margin > 1e-4


def test_which_part_of_the_drafter_guessed_is_compared(sampled: Story) -> None:
    findings, _ = repeat(changed(sampled, lambda round_: replace(round_, source="lookup")))
    assert [(finding.round, finding.check, finding.grade) for finding in findings] == [
        (3, "draft", Grade.BUG)
    ]


# -- a drafter that knew the answer


@pytest.mark.parametrize(
    "tables",
    [
        {"sampling": {"temperature": 0}},
        {"sampling": {"temperature": 1.0, "seed": 4}, "verify": {"verify_strategy": "match"}},
        {"sampling": {"temperature": 1.0, "seed": 4}, "verify": {"verify_strategy": "seed_exact"}},
    ],
)
@pytest.mark.parametrize("rounds", [None, 6])
def test_a_synthetic_run_is_repeated_as_far_as_its_recording_knows_the_answer(
    folders: tuple[str, str], tables: dict[str, Any], rounds: int | None
) -> None:
    draft = {"method": "synthetic", "acceptance": 0.6, "num_draft_tokens": 4}
    limits = {"max_new_tokens": 40, "rounds": rounds}
    session = Session(configured(folders[0], draft=draft, run=limits, **tables))
    session.load()
    prompt, _ = session.prompt_tokens(ASK)
    events = list(session.generate(ASK))
    header = session.header()
    session.close()
    made = [event for event in events if isinstance(event, Round)]
    assert 0 < sum(round_.n_accepted for round_ in made) < sum(len(round_.drafts) for round_ in made)
    findings, result = repeat((header, events))
    assert findings == []
    assert result.rounds == result.identical == len(made) - result.unknown
    length = len(prompt) + len(ids_of(events))
    assert result.unknown == sum(round_.context_length + round_.k > length for round_ in made)
    assert rounds is not None or result.unknown == 0
    assert result.free[0].identical

    forged = changed(
        (header, events), lambda r: replace(r, drafts=(replace(r.drafts[0], id=7), *r.drafts[1:]))
    )
    assert "draft" in {finding.check for finding in repeat(forged)[0]}


def test_a_synthetic_run_of_other_odds_is_left_out(folders: tuple[str, str]) -> None:
    draft = {"method": "synthetic", "acceptance": [0.7, 0.5], "cost": 0.1}
    header, events = recorded(configured(folders[0], draft=draft))
    other = [
        replace(event, settings=replace(event.settings, acceptance=(0.9,)))
        if isinstance(event, SegmentStarted)
        else event
        for event in events
    ]
    findings, result = repeat((header, other))
    assert findings == []
    assert (result.rounds, result.left_out) == (0, sum(isinstance(event, Round) for event in events))
    assert result.free[0].left_out is not None


def test_a_later_run_that_looks_up_earlier_answers_is_left_out(folders: tuple[str, str]) -> None:
    header, events = recorded(configured(folders[0], draft={"history": True}))
    told = [replace(event, run=2) if isinstance(event, RunStarted) else event for event in events]
    findings, result = repeat((header, told))
    assert findings == []
    assert (result.rounds, result.unknown) == (0, sum(isinstance(event, Round) for event in events))
