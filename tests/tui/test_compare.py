"""Two recorded runs side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.scripted import TARGET, make_round
from support.story import opening

from engine.errors import UserError
from engine.events import Event, Origin, Round, RunStarted, TargetToken
from engine.recording import read_recording
from tui import recording_commands
from tui.cli import Parser
from tui.compare import chosen_run, compare_runs, tokens_of
from tui.export.report import RunReport, build_report
from tui.playable import PATH


def run(*rounds: Event, **started: object) -> RunReport:
    events = [
        replace(event, **started) if isinstance(event, RunStarted) else event  # type: ignore[arg-type]
        for event in opening()
        if isinstance(event, Event)
    ]
    (report,) = build_report({}, [*events, *rounds]).runs
    return report


def test_a_run_is_the_same_as_itself() -> None:
    one = run(make_round(1, 3, 2), make_round(2, 3, 3))
    comparison = compare_runs(one, one)
    assert comparison.identical
    assert comparison.same_prompt
    assert comparison.settings == {}
    assert all(first == second for first, second in comparison.measures.values())
    assert comparison.as_dict()["tokens_at_difference"] == [None, None]


def test_another_way_of_the_passes_is_a_difference() -> None:
    """It rounds otherwise, so it can explain another text."""
    plain = run(make_round(1, 3, 2))
    one, other = (
        replace(plain, facts=replace(plain.facts, target=replace(TARGET, passes=passes)))
        for passes in ("eager", "static")
    )
    assert compare_runs(one, other).settings == {"passes": ("eager", "static")}


def test_the_first_difference_is_by_token_not_by_round() -> None:
    one = run(make_round(1, 3, 3), make_round(2, 3, 3))
    (first, second) = one.rounds
    # The same six tokens and another one, in rounds of other lengths.
    short = replace(
        first, n_accepted=1, drafts=first.drafts[:1], tokens=first.tokens[:2], target=_own(first, 1)
    )
    rest = replace(second, tokens=(*first.tokens[2:], second.tokens[0], -1))
    comparison = compare_runs(one, run(short, rest))
    assert comparison.difference == 5
    assert [token.round for token in comparison.first_tokens[:6]] == [1, 1, 1, 1, 2, 2]
    assert [token.round for token in comparison.second_tokens[:6]] == [1, 1, 2, 2, 2, 2]


def _own(round_: Round, place: int) -> TargetToken:
    return replace(round_.target, id=round_.tokens[place])


def test_an_answer_that_ends_earlier_differs_where_it_ends() -> None:
    one = run(make_round(1, 3, 3))
    longer = run(make_round(1, 3, 3), make_round(2, 3, 3))
    assert compare_runs(one, longer).difference == 4
    assert compare_runs(longer, one).difference == 4


def test_tokens_taken_back_are_not_compared() -> None:
    first = make_round(1, 3, 3)
    stopped = replace(make_round(2, 3, 0), tokens=(), taken_back=2)
    assert [token.id for token in tokens_of(run(first, stopped))] == list(first.tokens[:2])


def test_what_the_user_gave_counts_as_part_of_the_answer() -> None:
    given = run(make_round(1, 3, 0), given=(70, 71), given_pieces=(b"a", b"b"))
    tokens = tokens_of(given)
    assert [token.origin for token in tokens[:2]] == [Origin.GIVEN] * 2
    assert [token.id for token in tokens[:2]] == [70, 71]


def test_other_prompts_and_settings_are_told() -> None:
    one, other = run(make_round(1, 3, 3)), run(make_round(1, 3, 3), prompt=(9, 9), prompt_pieces=(b"x", b"y"))
    assert not compare_runs(one, other).same_prompt
    settings = one.facts.settings
    assert settings is not None
    other.facts.settings = replace(settings, num_draft_tokens=11)
    assert compare_runs(one, other).settings == {"num_draft_tokens": (settings.num_draft_tokens, 11)}


def test_a_run_is_chosen_by_its_number() -> None:
    recording = read_recording(PATH)
    report = build_report(recording.header, recording.events)
    assert chosen_run(report, None, "x") is chosen_run(report, 1, "x")
    with pytest.raises(UserError, match="no run 7"):
        chosen_run(report, 7, "x")
    with pytest.raises(UserError, match="no run"):
        chosen_run(build_report({}, []), None, "x")


def test_the_command_says_where_they_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare = recording_commands.COMMANDS["compare"]
    assert compare([str(PATH), str(PATH)], Parser) == 0
    assert "The answers are the same: 127 tokens." in capsys.readouterr().out.replace(",", "")
    lines = PATH.read_text().splitlines()
    cut = tmp_path / "cut.jsonl"
    at = [index for index, line in enumerate(lines) if line.startswith('{"event":"Round"')]
    cut.write_text("\n".join(lines[: at[-3]]) + "\n")
    assert compare([str(PATH), str(cut)], Parser) == 0
    out = capsys.readouterr().out
    assert "part at token" in out
    assert "(no more tokens)" in out
    assert "speedup" in out
    assert compare([str(PATH), str(cut), "--json"], Parser) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["identical"] is False
    assert told["prompt_identical"] is True
    assert told["first_difference"] > 10
