"""Text that must not do anything, and a look at what a screen really draws."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot

NASTY = (
    "[/] [red]x[/blue] [b",
    "\x1b]52;c;aGk=\x07 clipboard",
    "\x1b[2J\x1b[H cleared",
    "\x9b31m \x85 \x7f \x00 \x08",
    "\u202eevil\u202c\u2066\u061c\u200b\ufeff",
    "e\u0301\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u845b\U000e0100",
    "\U000e0041\U000e007f \ufdd0 \u2028 \u2029",
    "tab\there\r\nand \\[there]",
    "$text-error ${x} %s {0}",
)
"""Markup, terminal escapes, bidi controls, tags, joiners."""
OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def drawn(app: App[Any]) -> str:
    """The text of the screen, a line for each row."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip if not segment.control) for strip in strips)


def assert_harmless(app: App[Any]) -> None:
    """No character that a terminal obeys, or that hides, is on the screen."""
    for row in drawn(app).split("\n"):
        found = OBEYED.search(row)
        assert found is None, f"{found[0]!r} in {row!r}"


async def wait_until(pilot: Pilot[Any], condition: Callable[[], bool], turns: int = 200) -> None:
    """Let the app work until something holds."""
    for _ in range(turns):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came true")
