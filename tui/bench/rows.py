"""The measures of the app, each against the limit it is held to."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from engine.bench.report import Row, ratio_row
from engine.bench.timing import median_ratio
from tui.bench.start import load_rows, start_rows
from tui.bench.terminal import Terminal

SIZES = (1000, 4000, 16000)
"""Tokens in the panes."""
LETTERS = "бвгджзийклмнптфхцчшщъыьэюяλμξπσφψω"
"""What is typed: no model that is measured writes these, so each is drawn first by its own key."""
_TIMEOUT_S = 2.0
_LONG_S = 600.0
"""For a long recording to be written, and read."""
_CURSOR = "▌"


@dataclass(frozen=True, slots=True)
class Setup:
    """What is measured, and how long."""

    scratch: Path
    """The app's folder, in the place of the user's."""
    starts: int = 5
    helps: int = 10
    """Starts of ``spec --help``."""
    loads: int = 5
    """Of the model, in each number format."""
    blocks: int = 3
    """Times A B B A."""
    tokens: int = 400
    """Of one run: enough for the frames to find their pace."""
    selections: int = 30
    """Presses that move the cursor in the rounds; as many letters are typed."""
    frames: int = 40
    repeats: int = 3
    """Of the frames, in a process each."""
    recorded: int = 100_000
    """Rounds of the long recording."""
    seeks: int = 100
    rest_s: float = 4.0
    screens: tuple[str, ...] = ()
    """Which are left at rest; empty: all."""
    sizes: tuple[int, ...] = SIZES
    model: str = ""
    """Another one than the built-in one."""
    question: str = ""
    """Another one than the preset's conversation."""

    def terminal(self, mode: str, **plan: Any) -> Terminal:
        """Run a mode of ``tui.bench.child`` on a terminal."""
        names = ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        environment = {name: str(self.scratch) for name in names}
        return Terminal(["-m", "tui.bench.child", mode, json.dumps(plan)], environment)

    def live(self, **plan: Any) -> Terminal:
        """Run the real model."""
        fixed = {
            "folder": str(self.scratch),
            "tokens": self.tokens,
            "model": self.model,
            "question": self.question,
        }
        off = {"blocks": 0, "keys": False, "rest_s": 0.0, "screens": self.screens}
        return self.terminal("live", **fixed, **(off | plan))


def speed_rows(setup: Setup) -> Iterator[Row]:
    """Tokens a second with the app open, against the same run without it."""
    with setup.live(blocks=setup.blocks) as terminal:
        facts = [terminal.fact() for _ in range(4 * setup.blocks)]
    # A B B A: two neighbours each, so that a machine that gets slower or faster harms neither arm.
    ratios = []
    for one, other in zip(facts[::2], facts[1::2], strict=True):
        rates = {fact["arm"]: fact["rate"] for fact in (one, other)}
        ratios.append(rates["app"] / rates["headless"])
    ours = [fact for fact in facts if fact["arm"] == "app"]
    theirs = [fact["rate"] for fact in facts if fact["arm"] == "headless"]
    mean = {
        name: fmean(fact[name] for fact in ours)
        for name in ("rate", "screen_share", "frames_per_s", "frame_ms")
    }
    note = (
        f"{mean['rate']:.1f} against {fmean(theirs):.1f} tok/s, {setup.tokens} tokens, {len(ratios)} pairs; "
        f"{mean['frames_per_s']:.1f} frames/s of {mean['frame_ms']:.1f} ms, "
        f"screen's thread {mean['screen_share']:.1%}; aim 0.97"
    )
    yield ratio_row("tokens/s, app open / headless", median_ratio(ratios), 0.95, note)


def key_rows(setup: Setup) -> Iterator[Row]:
    """From a key to what it changes on the screen, while the engine generates."""
    with setup.live(keys=True) as terminal:
        fact = terminal.fact()
        assert fact == {"keys": "ready"}, fact
        moved = [_move(terminal, number) for number in range(1, setup.selections + 1)]
        terminal.send("0")
        time.sleep(0.5)
        typed = [_press(terminal, letter, letter) for letter in LETTERS[: setup.selections]]
        terminal.send("\x11")
        terminal.fact()
    times = sorted(1e3 * seconds for seconds in (*moved, *typed))
    yield Row(
        *("key to paint, 95th percentile", quantiles(times, n=20)[-1], "ms"),
        at_most=50,
        note=f"{len(times)} presses: median {median(times):.0f}, most {times[-1]:.0f} ms; "
        f"median of moves {1e3 * median(moved):.0f}, of letters {1e3 * median(typed):.0f} ms",
    )


def _move(terminal: Terminal, number: int) -> float:
    """The cursor to a round: the first one, then from each to the next."""
    return _press(terminal, "g" if number == 1 else "j", rf"{_CURSOR} *{number}[ •]")


def _press(terminal: Terminal, key: str, pattern: str) -> float:
    """Seconds from a key to a change; as long as is waited where it does not come."""
    # Not in step with the frames.
    time.sleep(random.uniform(0.1, 0.3))
    since, pressed = terminal.send(key)
    came = terminal.drawn_at(pattern, since, _TIMEOUT_S)
    return _TIMEOUT_S if came is None else came - pressed


def frame_rows(setup: Setup) -> Iterator[Row]:
    """Whether a frame costs more with more tokens in the panes."""
    medians: dict[int, list[float]] = {size: [] for size in setup.sizes}
    slowest = dict.fromkeys(setup.sizes, 0.0)
    for _ in range(setup.repeats):
        plan = {"folder": str(setup.scratch), "sizes": setup.sizes, "times": setup.frames}
        with setup.terminal("frames", **plan) as terminal:
            for size in setup.sizes:
                fact = terminal.fact()
                assert fact["tokens"] == size, fact
                medians[size].append(median(fact["ms"]))
                slowest[size] = max(slowest[size], *fact["ms"])
    first, last = setup.sizes[0], setup.sizes[-1]
    grown = [high / low for high, low in zip(medians[last], medians[first], strict=True)]
    estimate = median_ratio(grown)
    told = ", ".join(f"{median(medians[size]):.1f} (most {slowest[size]:.1f})" for size in setup.sizes)
    yield Row(
        *(f"cost of a frame, {last:,} / {first:,} tokens", estimate.value, "x"),
        at_most=1.2,
        low=estimate.low,
        high=estimate.high,
        note=f"{told} ms at {', '.join(f'{size:,}' for size in setup.sizes)} tokens",
    )


def replay_rows(setup: Setup) -> Iterator[Row]:
    """A long recording: opened, gone through, held."""
    plan = {"folder": str(setup.scratch), "rounds": setup.recorded, "seeks": setup.seeks}
    with setup.terminal("replay", **plan) as terminal:
        fact = terminal.fact(_LONG_S)
    opened, sought = fact["opened"], sorted(1e3 * seconds for seconds in fact["sought"])
    yield Row(
        *(f"a recording of {setup.recorded:,} rounds opens", median(opened), "s"),
        at_most=1,
        note=f"{fact['size'] / 1e6:.0f} MB; median of {len(opened)}, most {max(opened):.2f} s",
    )
    yield Row(
        *("seek in it to paint, 95th percentile", quantiles(sought, n=20)[-1], "ms"),
        at_most=50,
        note=f"{len(sought)} places at random: median {median(sought):.0f}, most {sought[-1]:.0f} ms",
    )
    yield Row(
        *("memory it takes", fact["grown"] / 1e6, "MB"),
        at_most=100,
        note="after its rounds were looked up and all those seeks",
    )


def rest_rows(setup: Setup) -> Iterator[Row]:
    """What each screen costs while nothing happens."""
    from tui.bench.live import SCREENS

    with setup.live(rest_s=setup.rest_s) as terminal:
        floor = 100 * terminal.fact()["floor"]
        note = "ten waits for input a second, as Textual's input thread does: part of each row below"
        yield Row("at rest: a bare loop", floor, "%", note=note)
        for name in setup.screens or SCREENS:
            fact = terminal.fact()
            assert fact["screen"] == name, fact
            note = f"{fact['top']}, {setup.rest_s:g} s"
            yield Row(f"at rest: {name}", 100 * fact["share"], "%", at_most=1, note=note)


ROWS: Mapping[str, Callable[[Setup], Iterator[Row]]] = {
    "start": start_rows,
    "load": load_rows,
    "speed": speed_rows,
    "keys": key_rows,
    "frames": frame_rows,
    "replay": replay_rows,
    "rest": rest_rows,
}
"""Every group of measures by its name."""

SECONDS: Mapping[str, float] = {
    "start": 10,
    "speed": 170,
    "keys": 25,
    "frames": 45,
    "replay": 50,
    "rest": 110,
}
"""What a group takes on two cores; only the time left is told from it."""
