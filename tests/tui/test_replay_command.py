"""``spec replay``: on a terminal in the app, elsewhere as lines."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.app import driven
from support.pty_app import PtyApp
from support.replays import one_run, record, recording, timed

from engine.events import Round
from engine.recording import read_recording
from tui.conversation import Conversation
from tui.playable import PATH, open_recording
from tui.source import ReplaySource
from tui.state import Jumped


def homes(folder: Path) -> dict[str, str]:
    names = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    return {name: str(folder / sub) for name, sub in names.items()}


def spec(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "tui", *words], input=data, capture_output=True, check=False)


def answer() -> str:
    return "".join(event.text for event in read_recording(PATH).events if isinstance(event, Round))


def told(source: ReplaySource) -> list[int]:
    return [event.number for event in source.poll() if isinstance(event, Round)]


def arrived(source: ReplaySource) -> Jumped:
    """What the replay tells when it is where it was sent to."""
    while source.seeking:
        for there in source.poll():
            assert isinstance(there, Jumped)
            return there
    raise AssertionError("it was not on its way")


def test_it_plays_from_a_round_on() -> None:
    now = [0.0]
    replay = open_recording(PATH, lambda: now[0]).source
    replay.seek_step(4)
    replay.play()
    there = arrived(replay)
    assert [round_.number for round_ in there.state.rounds] == [1, 2, 3, 4]
    assert told(replay) == []
    now[0] += 60.0
    assert told(replay)[0] == 5


def test_it_plays_faster() -> None:
    now = [0.0]
    slow, fast = (open_recording(PATH, lambda: now[0], speed).source for speed in (1.0, 8.0))
    for source in (slow, fast):
        source.seek_step(1)
        source.play()
        arrived(source)
    now[0] = 0.3
    assert len(told(fast)) > len(told(slow))


def test_what_is_printed_leaves_nothing_out(tmp_path: Path) -> None:
    now = [0.0]
    source = open_recording(recording(tmp_path / "r.jsonl", 3_000), lambda: now[0]).source
    source.play()
    now[0] = 1e6
    assert isinstance(next(iter(source.poll()), None), Jumped | None), "a screen goes where it should be"
    source.seek(0)
    arrived(source)
    source.tells_all = True
    source.play()
    now[0] = 2e6
    assert told(source) == [*range(1, 3_001)]


def test_runs_are_printed_apart(tmp_path: Path) -> None:
    path = record(tmp_path / "r.jsonl", timed([*one_run(2), *one_run(2, number=2)]))
    done = spec("replay", str(path), "--print", "--speed", "16")
    first, second = done.stdout.decode().splitlines()
    assert first == second == " w1.0 w1.3 w2.0 w2.1 w2.3"
    assert b"note: run 2\n" in done.stderr


@pytest.mark.parametrize("where", ["file", "pipe"])
def test_the_answer_is_printed(where: str) -> None:
    words = ("replay", str(PATH) if where == "file" else "-", "--print", "--speed", "16")
    done = spec(*words, data=b"" if where == "file" else PATH.read_bytes())
    assert done.returncode == 0
    assert done.stdout.decode().strip() == answer().strip()
    assert b"round 3:" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "99"), b"no round 99"),
        (("--from", "0"), b"It has 17, from 1 on."),
        (("--speed", "0"), b"from 0.1 to 16"),
        ((), b"the app needs a terminal"),
    ],
)
def test_what_cannot_be_played_is_told(words: tuple[str, ...], said: bytes) -> None:
    done = spec("replay", str(PATH), *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_file_that_is_written_is_printed_as_it_grows(tmp_path: Path) -> None:
    lines = PATH.read_bytes().splitlines(keepends=True)
    half = next(at for at, line in enumerate(lines) if b'"number":9,' in line)
    growing = tmp_path / "growing.jsonl"
    growing.write_bytes(b"".join(lines[:half]) + lines[half][:50])
    argv = [sys.executable, "-m", "tui", "replay", str(growing), "--follow", "--print", "--speed", "16"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = b""
        said = answer().encode()
        while len(printed) < 100:
            printed += os.read(process.stdout.fileno(), 4096)
        assert said.startswith(printed)
        assert not said.strip().endswith(printed.strip()), "half of it is there"
        with growing.open("ab") as file:
            file.write(lines[half][50:] + b"".join(lines[half + 1 :]))
        while len(printed) < len(said):
            printed += os.read(process.stdout.fileno(), 4096)
        assert printed == said
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_a_pipe_with_a_name_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(PATH.read_bytes(),))
    writer.start()
    done = spec("replay", str(pipe), "--print", "--speed", "16")
    writer.join(30)
    assert done.returncode == 0
    assert done.stdout.decode().strip() == answer().strip()


def test_a_damaged_file_is_not_called_sound(tmp_path: Path) -> None:
    lines = PATH.read_bytes().splitlines(keepends=True)
    path = tmp_path / "damaged.jsonl"
    rounds = [at for at, line in enumerate(lines) if line.startswith(b'{"event":"Round"')]
    middle = rounds[len(rounds) // 2]
    path.write_bytes(b"".join([*lines[:middle], b"{oh\n", *lines[middle + 1 :]]))
    done = spec("verify", str(path))
    assert done.returncode == 1
    assert b"the file is damaged" in done.stdout and b"nothing is wrong" not in done.stdout
    path.write_bytes(b"".join(lines[:middle]))
    done = spec("verify", str(path))
    assert done.returncode == 0, "it was cut between two lines, as by a kill"
    assert b"1 run without an end" in done.stdout


def test_a_pipe_is_not_followed() -> None:
    done = spec("replay", "-", "--follow", "--print", data=b"")
    assert done.returncode == 2
    assert b"--follow needs a file" in done.stderr


def test_the_app_plays_it_and_brings_the_own_conversation_back(tmp_path: Path) -> None:
    async def go() -> None:
        replay = open_recording(PATH, speed=16.0)
        async with driven(tmp_path, load=False, replay=replay, messages=()) as app:
            await app.until(lambda: app.lab.replay is not None, "the recording")
            await app.until(lambda: app.lab.replay is not None and app.lab.replay.at_end, "its end")
            rounds = [event for event in read_recording(PATH).events if isinstance(event, Round)]
            await app.until(lambda: len(app.lab.state.rounds) == len(rounds), "all rounds")
            assert "".join(app.lab.state.text).startswith(answer())
            app.lab.go_live()
            assert app.lab.conversation.messages == Conversation().messages

    asyncio.run(go())


def test_the_command_opens_the_app(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tui", "replay", str(PATH), "--speed", "16"]
    with PtyApp(argv, cwd=tmp_path, env=homes(tmp_path)) as app:
        app.until("REPLAY")
        app.until("round 17")
        app.press(b"\x11")
        assert app.wait() == 0
        app.assert_restored()
