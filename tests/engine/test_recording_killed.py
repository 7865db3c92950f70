"""Runs of the built-in model that are killed while they are recorded."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.terminal import environment, run_piped, spec_argv

from engine.events import Round, RunFinished
from engine.recording import read_recording

KILLS = 4
MOST_ROUNDS = 40
_ROUND = re.compile(r"round (\d+):")


def killed(path: Path, chance: random.Random) -> int:
    """Record until some rounds were told, then kill; the number of the last round that was told."""
    words = ("builtin", "--record", str(path), "--verbose", "--seed", "1", "--set", "run.ignore_eos=true")
    limits = ("--max-new-tokens", "1000", "--no-baseline")
    enough = chance.randint(1, MOST_ROUNDS)
    process = subprocess.Popen(
        spec_argv(*words, *limits),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        encoding="utf-8",
    )
    assert process.stderr is not None
    told, said = 0, []
    with process.stderr as lines:
        for line in lines:
            said.append(line)
            match = _ROUND.match(line)
            told = int(match[1]) if match else told
            if told >= enough:
                break
        process.send_signal(signal.SIGKILL)
        rest = lines.read()
    assert process.wait() == -signal.SIGKILL, "".join(said)
    return max([told, *map(int, _ROUND.findall(rest))])


@pytest.mark.soak
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_kill_loses_the_round_in_progress_at_most(tmp_path: Path, kill: int) -> None:
    path = tmp_path / "run.jsonl"
    told = killed(path, random.Random(kill))
    recording = read_recording(path)
    rounds = [event.number for event in recording.events if isinstance(event, Round)]
    assert rounds == [*range(1, len(rounds) + 1)]
    # Each round is written before it is told, and the next one begins when it was.
    assert told <= len(rounds) <= told + 1
    assert not any(isinstance(event, RunFinished) for event in recording.events)
    assert not recording.skipped
    checked = run_piped(spec_argv("verify", str(path), "--json"), cwd=tmp_path)
    found = json.loads(checked.stdout)
    assert checked.returncode == 0, found  # two tokens that are the likeliest alike are no fault
    assert found["rounds"] == len(rounds)
