"""What the two output streams can show: colour, width, one line that is rewritten."""

from __future__ import annotations

import os
import shutil
import time
import unicodedata
from typing import TextIO

RESET = "\x1b[0m"
WIDTH = 80
"""Columns where the terminal does not say; no line of ours is wider than this."""


class Output:
    """One stream, standard output or standard error."""

    def __init__(self, stream: TextIO, color: str = "auto") -> None:
        """``color``: "auto", "always" or "never"."""
        self.stream = stream
        self.is_terminal = stream.isatty()
        dumb = os.environ.get("TERM", "") in {"", "dumb"}
        wanted = self.is_terminal and not dumb and not os.environ.get("NO_COLOR")
        self.color = color == "always" or (color == "auto" and wanted)
        self.can_rewrite = self.is_terminal and not dumb
        self.ascii_only = not (stream.encoding or "ascii").lower().replace("-", "").startswith("utf")

    @property
    def width(self) -> int:
        """Columns to use, at most ``WIDTH``."""
        return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)

    def styled(self, text: str, style: str) -> str:
        """``text`` in a style (SGR parameters such as "1;4"), if colour is on; a style of "" is none."""
        return f"\x1b[{style}m{text}{RESET}" if self.color and style and text else text

    def write(self, text: str) -> None:
        """Write and flush, so that text is seen when it comes. Raises BrokenPipeError."""
        if text:
            self.stream.write(text)
            self.stream.flush()


class Progress:
    """What is going on, in one line that is rewritten; where that is not possible, a few lines."""

    def __init__(self, output: Output, min_interval_s: float = 0.1) -> None:
        self._output = output
        self._interval = min_interval_s
        self._last = 0.0
        self._shown = False
        self._label = ""
        self._quarter = 0

    def update(self, label: str, detail: str = "", fraction: float | None = None) -> None:
        """Show where things stand. ``label`` names the work, ``fraction`` is 0..1 of it."""
        is_new = label != self._label
        self._label = label
        if self._output.can_rewrite:
            now = time.monotonic()
            if is_new or now - self._last >= self._interval:
                self._last = now
                self._rewrite(f"{label} {detail}".rstrip())
            return
        quarter = int((fraction or 0.0) * 4)
        if is_new or quarter > self._quarter:
            self._quarter = quarter
            self._output.write(f"{label} {detail}".rstrip() + "\n")

    def clear(self) -> None:
        """Take the line away."""
        self._label = ""
        if self._shown:
            self._output.write("\r\x1b[K")
        self._shown = False

    def _rewrite(self, line: str) -> None:
        self._output.write(f"\r{clipped(line, self._output.width - 1)}\x1b[K")
        self._shown = True


def cell_width(text: str) -> int:
    """Terminal columns of a text without control characters, near enough for layout."""
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def clipped(text: str, width: int) -> str:
    """``text`` cut to ``width`` columns, "..." at the end where something is missing."""
    if cell_width(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += _char_width(char)
        if used > width - 3:
            break
        kept.append(char)
    return "".join(kept) + "..."
