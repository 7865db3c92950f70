"""Recordings repeated with their models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.rechecks import Story, recorded, repeat
from support.sessions import ASK, configured
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

from engine.errors import RecordingError
from engine.events import Round
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


def test_other_weights_are_refused_by_their_hash(
    folders: tuple[str, str], sampled: Story, tmp_path: Path
) -> None:
    header, events = sampled
    with pytest.raises(RecordingError, match="other weights"):
        repeat(({**header, "target": {**header["target"], "sha256": "0" * 64}}, events))


def test_a_header_without_configuration_is_told(sampled: Story) -> None:
    with pytest.raises(RecordingError, match="configuration"):
        repeat(({"config": {"draft": 3}}, sampled[1]))
