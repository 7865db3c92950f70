"""``spec verify``: a recording is checked again, by its own numbers and, where asked for, with its models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.recording import Recording
from tui.recording_commands import ParserClass, read, say
from tui.recording_work import counted
from tui.terminal import Output

if TYPE_CHECKING:
    from engine.recheck import Finding
    from engine.recheck_free import FreeRun
    from engine.recheck_models import Repeated

_SHOWN = 20
"""Findings, or runs, that are told one by one."""


def verify(words: Sequence[str], parser_class: ParserClass) -> int:
    """Run the sub-command and return the exit code. Raises SpeculateError."""
    parser = parser_class(
        prog="spec verify",
        description="Check every round of a recording again: acceptances from p, q and u, the draws from"
        " the seed, what was committed, the counts. That needs no model. Exit code 1: something is wrong, or"
        " the file is damaged.",
    )
    parser.add_argument("recording", metavar="FILE", help="made with --record; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--models", action="store_true", help="load the models too, and repeat every round and every run"
    )
    options = parser.parse_args(words)
    from engine.recheck import Grade, Recheck

    recording = read(options.recording)
    recheck = Recheck()
    findings: list[Finding] = [found for event in recording.events for found in recheck.add(event)]
    repeated = _repeat(recording, findings) if options.models else None
    wrong = [found for found in findings if found.grade is Grade.BUG]
    told: dict[str, Any] = {
        "runs": recheck.runs,
        "rounds": recheck.rounds,
        "checks": recheck.checks,
        "unfinished": recheck.unfinished,
        "whole": recording.whole,
        "damage": recording.damage,
        "findings": [
            {
                "run": found.run,
                "round": found.round,
                "check": found.check,
                "grade": found.grade.value,
                "margin": found.margin,
                "text": found.text,
            }
            for found in findings
        ],
        "repeated": None if repeated is None else asdict(repeated),
    }
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 1 if wrong or recording.damage is not None else 0
    looked = f"{counted(recheck.runs, 'run')}, {recheck.rounds:,} rounds, {recheck.checks:,} checks"
    for grade in Grade:
        of_grade = [found for found in findings if found.grade is grade]
        for found in of_grade[:_SHOWN]:
            where = f"run {found.run}" + (f", round {found.round}" if found.round is not None else "")
            say(f"{grade.value}: {where}: {found.check}: {found.text}")
        if len(of_grade) > _SHOWN:
            say(f"{grade.value}: {len(of_grade) - _SHOWN:,} more")
    if repeated is not None:
        for line in _repeated_lines(repeated):
            say(line)
    if recheck.unfinished:
        say(f"{counted(recheck.unfinished, 'run')} without an end: the recording stops before it")
    say(f"{looked}: {_verdict(len(wrong), recheck.checks, recording.damage)}")
    return 1 if wrong or recording.damage is not None else 0


def _verdict(wrong: int, checks: int, damage: str | None) -> str:
    if wrong:
        return "1 is wrong" if wrong == 1 else f"{wrong:,} are wrong"
    if damage is not None:
        return "what could be read is sound, but the file is damaged"
    return "nothing is wrong" if checks else "there is nothing to check"


def _repeat(recording: Recording, findings: list[Finding]) -> Repeated:
    """Run everything again; adds to the findings."""
    from engine.session import Session
    from tui.console import Console
    from tui.interrupts import Interrupts

    console = Console(Output(sys.stdout), Output(sys.stderr))
    console.working("starting the engine")
    from engine.recheck_models import ModelRecheck  # brings torch: seconds

    again = ModelRecheck(recording.header, Session)
    with Interrupts(), closing(again):
        again.load(console.show)
        console.working("repeating the rounds")
        findings += again.run(recording.events)
        console.end_answer()
    return again.result


def _repeated_lines(repeated: Repeated) -> Iterator[str]:
    yield (
        f"repeated {repeated.rounds:,} rounds with the models: {repeated.identical:,} the same bit by bit,"
        f" {repeated.same_tokens:,} with the same tokens; a probability differs by {repeated.drift:.2g}"
    )
    if repeated.left_out:
        yield f"{repeated.left_out:,} rounds of another drafter were left out"
    if repeated.unknown:
        yield f"{repeated.unknown:,} rounds were left out: what their drafter knew is not in the recording"
    if repeated.first_difference is not None:
        run, round_ = repeated.first_difference
        yield f"the first round that differs is round {round_} of run {run}"
    if repeated.same_prompt is False:
        yield "the messages give another prompt (a template may hold the date); the recorded one was used"
    for free in repeated.free[:_SHOWN]:
        yield _free_line(free)
    if len(repeated.free) > _SHOWN:
        yield f"{len(repeated.free) - _SHOWN:,} more runs, repeated freely"


def _free_line(free: FreeRun) -> str:
    head = f"run {free.run} once more"
    if free.seed is not None:
        head += f", freely with seed {free.seed}"
    if free.token is not None and free.grade is not None:
        said = (
            f"{free.same_tokens:,} of {free.tokens:,} tokens are the same, then it parts ({free.grade.value})"
        )
    elif free.identical:
        said = f"all {free.tokens:,} tokens are the same"
    else:
        said = f"{free.same_tokens:,} of {free.tokens:,} tokens are the same"
    return f"{head}: {said}" + (f"; not to its end: {free.left_out}" if free.left_out else "")
