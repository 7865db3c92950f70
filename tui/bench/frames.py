"""What a frame costs with few and with many tokens in the panes; the engine has no part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from time import thread_time

from engine.config import load_config
from engine.events import Event, Round
from engine.recording import read_recording
from tui.bench.played import PRESET, Played, play
from tui.playable import PATH

SETTLE_S = 0.04
"""After a frame: what it drags behind it is painted by then."""


def rounds_without_end(events: Sequence[Event]) -> Iterator[Round]:
    """The rounds of a recording over and over, numbered on; those that end an answer are left out."""
    known = [event for event in events if isinstance(event, Round) and event.cut is None]
    return (replace(round_, number=number) for number, round_ in zip(count(1), cycle(known), strict=False))


def frame_costs(tell: Callable[[dict[str, object]], None], folder: str, sizes: list[int], times: int) -> None:
    """Tell the milliseconds of processor time of this many frames at each number of tokens."""
    events = read_recording(PATH).events
    opening = events[: next(at for at, event in enumerate(events) if isinstance(event, Round))]
    rounds = rounds_without_end(events)

    async def script(app: Played) -> None:
        for event in opening:
            app.lab.take(event)
        for size in sizes:
            while len(app.lab.state.output) < size:
                app.lab.take(next(rounds))
            app.show()
            await asyncio.sleep(1.0)
            tell({"tokens": size, "ms": [1e3 * await frame(app) for _ in range(times)]})
        app.exit()

    async def frame(app: Played) -> float:
        began = thread_time()
        app.lab.take(next(rounds))
        app.show()
        painted = asyncio.Event()
        app.screen.call_after_refresh(painted.set)
        await painted.wait()
        await asyncio.sleep(SETTLE_S)
        return thread_time() - began

    play(script, load_config(PRESET), Path(folder), load=False)
