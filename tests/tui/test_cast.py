"""Recordings as casts: read by the format's rules, and played on an emulated terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pyte
import pytest
from support.documents import TEXTS, told_by
from support.nasty import OBEYED

from engine.events import Event, Round, Verdict
from engine.recording import Recording, read_recording
from tui.export.cast import as_cast
from tui.playable import PATH
from tui.safe_text import visible_bytes

_STYLE = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(scope="module")
def demo() -> Recording:
    return read_recording(PATH)


def parsed(cast: str) -> tuple[dict[str, Any], list[tuple[float, str]]]:
    """Header and writes of a cast, checked against the format."""
    assert cast.isascii()
    header, *lines = map(json.loads, cast.splitlines())
    assert header["version"] == 2
    assert isinstance(header["width"], int) and isinstance(header["height"], int)
    assert isinstance(header["title"], str)
    assert all(kind == "o" and isinstance(text, str) for _, kind, text in lines)
    times = [time for time, _, _ in lines]
    assert times == sorted(times) and min(times) >= 0
    return header, [(time, text) for time, _, text in lines]


def played(cast: str, rows: int = 4000) -> pyte.Screen:
    """A terminal after the cast, high enough that nothing leaves it."""
    header, writes = parsed(cast)
    screen = pyte.Screen(header["width"], rows)
    stream = pyte.Stream(screen)
    for _, text in writes:
        stream.feed(text)
    return screen


def runs_of(screen: pyte.Screen, **style: Any) -> list[str]:
    """The stretches of text in a style."""
    found = []
    for row in range(screen.lines):
        cells = (screen.buffer[row][column] for column in range(screen.columns))
        for has, group in groupby(
            cells, lambda cell: all(getattr(cell, name) == value for name, value in style.items())
        ):
            if has:
                found.append("".join(cell.data for cell in group))
    return found


def test_the_rounds_are_played_with_their_colours(demo: Recording) -> None:
    screen = played(as_cast(demo.header, demo.events))
    shown = "\n".join(line.rstrip() for line in screen.display)
    rounds = [event for event in demo.events if isinstance(event, Round)]
    heads = re.findall(r"^round (\d+): (\d+)/", shown, re.MULTILINE)
    assert heads == [(str(each.number), str(each.n_accepted)) for each in rounds]
    rejected = [
        visible_bytes(draft.piece)
        for each in rounds
        for draft in each.drafts
        if draft.verdict is Verdict.REJECTED
    ]
    assert runs_of(screen, strikethrough=True) == rejected
    assert runs_of(screen, strikethrough=True, fg="red") == rejected
    assert len("".join(runs_of(screen, fg="green"))) > 100
    assert runs_of(screen, bold=True, underscore=True)
    assert runs_of(screen, bold=True, underscore=False)
    assert "builtin:smollm2-135m" in json.loads(as_cast(demo.header, ()).splitlines()[0])["title"]


def test_it_takes_the_time_that_the_run_took(demo: Recording) -> None:
    _, writes = parsed(as_cast(demo.header, demo.events))
    times = [time for time, text in writes if "round " in text]
    rounds = [event for event in demo.events if isinstance(event, Round)]
    recorded = [(event.t_ns - rounds[0].t_ns) / 1e9 for event in rounds]
    assert [time - times[0] for time in times] == pytest.approx(recorded, abs=1e-5)


@pytest.mark.parametrize(("waited_s", "played_s"), [(3600.0, 2.0), (1.5, 1.5), (-5.0, 0.0)])
def test_a_wait_is_cut(demo: Recording, waited_s: float, played_s: float) -> None:
    first = next(event for event in demo.events if isinstance(event, Round))
    second = replace(first, number=2, t_ns=first.t_ns + int(waited_s * 1e9))
    _, writes = parsed(as_cast({}, [first, second]))
    assert [time for time, _ in writes][:2] == [0.0, played_s]


def test_no_text_of_a_recording_is_obeyed() -> None:
    header, events = told_by(TEXTS)
    hostile = {**header, "target": {"name": "".join(TEXTS)}}
    told, writes = parsed(as_cast(hostile, events))
    assert not OBEYED.search(told["title"])
    for _, text in writes:
        rest = _STYLE.sub("", text)
        assert not OBEYED.search(re.sub(r"[\t\n\r]", "", rest)), text
        assert "\r" not in rest.replace("\r\n", "")


def test_a_cast_of_nothing_is_a_cast() -> None:
    nothing: Sequence[Event] = ()
    assert len(as_cast({"target": 7}, nothing).splitlines()) == 1
