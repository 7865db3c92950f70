"""What a long recording costs: to open, to go to any place of, to hold."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import psutil

from engine.config import load_config
from engine.events import Round
from engine.recording import Recorder, read_recording
from tui.bench.frames import rounds_without_end
from tui.bench.played import PRESET, Played, play
from tui.playable import PATH, open_recording

ROUND_NS = 70_000_000
OPENED = 5
"""Times a recording is opened."""


def write_long(path: Path, rounds: int) -> None:
    """A recording of one run: the rounds of the shipped one, over and over."""
    shipped = read_recording(PATH)
    recorder = Recorder(path)
    recorder.write_header(shipped.header)
    began = 0
    for event in shipped.events:
        if isinstance(event, Round):
            break
        recorder.write(event)
        began = event.t_ns
    for round_, _ in zip(rounds_without_end(shipped.events), range(rounds), strict=False):
        number = round_.number
        recorder.write(replace(round_, seq=number + 1000, t_ns=began + number * ROUND_NS))
    recorder.close()


def replay_costs(tell: Callable[[dict[str, object]], None], folder: str, rounds: int, seeks: int) -> None:
    """Tell the seconds of opening and of each seek up to its paint, and the megabytes that it all took."""
    path = Path(folder) / "long.jsonl"
    write_long(path, rounds)
    opened = []
    for _ in range(OPENED):
        began = monotonic()
        open_recording(path)
        opened.append(monotonic() - began)
    memory = psutil.Process().memory_info

    async def script(app: Played) -> None:
        await asyncio.sleep(1.0)
        held = memory().rss
        app.play(open_recording(path))
        app.lab.toggle_pause()
        while app.survey is None or not app.survey.whole:
            await asyncio.sleep(0.1)
        chance = random.Random(1)
        times = []
        for _ in range(seeks):
            began = monotonic()
            app.lab.seek_step(chance.randrange(rounds))
            painted = asyncio.Event()
            app.screen.call_after_refresh(painted.set)
            await painted.wait()
            assert not app.lab.replay or not app.lab.replay.seeking, "it is not there yet"
            times.append(monotonic() - began)
            await asyncio.sleep(0.05)
        tell({"opened": opened, "sought": times, "grown": memory().rss - held, "size": path.stat().st_size})
        app.exit()

    play(script, load_config(PRESET), Path(folder), load=False)
