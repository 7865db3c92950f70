"""Reports to export: the shipped recording, and one whose every text is meant to harm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.nasty import NASTY
from support.scripted import make_round
from support.story import opening

from engine.events import Event
from engine.recording import read_recording
from tui.export.report import Report, build_report
from tui.playable import PATH

MARKUP = (
    "<script>alert(1)</script>",
    "</pre></td></table><h1>taken over",
    '" onmouseover="alert(1)',
    "&lt;b&gt; & <b>",
    "{{ 7 * 7 }}{% for x in y %}",
    "[link](http://example.org) ![](http://example.org/x.png)",
    "```\n# heading\n```",
    "| a | b |\n|---|---|",
    "=HYPERLINK(1)",
    "+1",
    "@SUM(A1)",
    "-1",
    "\n\nlines before it are empty",
)
TEXTS = (*MARKUP, *NASTY)


def story() -> list[Event]:
    return [event for event in opening() if isinstance(event, Event)]


def demo() -> Report:
    recording = read_recording(PATH)
    return build_report(recording.header, recording.events)


def hostile() -> Report:
    """Every text of the recording is meant to harm."""
    return saying(TEXTS)


def saying(texts: Sequence[str]) -> Report:
    """A report of a recording whose every text is one of these; its shape depends on their number only."""
    header, events = told_by(texts)
    return build_report(header, events, incomplete=True)


def told_by(texts: Sequence[str]) -> tuple[dict[str, Any], list[Event]]:
    """Header and events of such a recording."""
    pieces = [text.encode("utf-8", "surrogatepass")[:80] for text in texts]
    rounds = [
        make_round(number, 3, number % 4, pieces=[(pieces * 4)[number + slot] for slot in range(4)])
        for number in range(1, len(pieces) + 1)
    ]
    header = {
        "context": [{"role": text, "content": text} for text in texts],
        "machine": {"system": texts[0], "processor": texts[2]},
        "versions": {text: text for text in texts},
    }
    return header, [*story(), *rounds]
