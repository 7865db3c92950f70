"""How tokens are marked by what became of them and where they come from.

A mark is a component class (colour and text style, from the theme) and a glyph, so that it can be told
without colour. A widget that shows marks takes both from here::

    class RoundsPane(ScrollView):
        COMPONENT_CLASSES = MARK_CLASSES
        DEFAULT_CSS = marks_css("RoundsPane")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from engine.events import DraftToken, Origin, TargetToken, Verdict
from tui.glyphs import Glyphs
from tui.safe_text import visible_bytes
from tui.view import OutputToken

NO_PIECE = "(nothing)"
"""Shown for a token without bytes."""


class Mark(StrEnum):
    """What a token is marked as."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    IGNORED = "ignored"
    CORRECTION = "correction"
    BONUS = "bonus"
    PLAIN = "plain"
    GIVEN = "given"
    PENDING = "pending"
    """A draft that is not judged yet, while a round is stepped through."""

    @property
    def component(self) -> str:
        """The component class."""
        return f"mark--{self.value}"


MARK_CLASSES = frozenset(mark.component for mark in Mark)

TEXT_STYLES: dict[Mark, str] = {
    Mark.ACCEPTED: "none",
    Mark.REJECTED: "strike",
    Mark.IGNORED: "dim",
    Mark.CORRECTION: "bold underline",
    Mark.BONUS: "bold",
    Mark.PLAIN: "none",
    Mark.GIVEN: "italic",
    Mark.PENDING: "italic",
}
"""``text-style`` of each mark."""

_GLYPHS: dict[Mark, Callable[[Glyphs], str]] = {
    Mark.ACCEPTED: lambda _: "",
    Mark.REJECTED: lambda glyphs: glyphs.rejected,
    Mark.IGNORED: lambda glyphs: glyphs.ignored,
    Mark.CORRECTION: lambda glyphs: glyphs.correction,
    Mark.BONUS: lambda glyphs: glyphs.bonus,
    Mark.PLAIN: lambda _: "",
    Mark.GIVEN: lambda glyphs: glyphs.given,
    Mark.PENDING: lambda glyphs: glyphs.pending,
}
_NO_LINES = Style(underline=False, strike=False)

LEGEND_ORDER = (Mark.ACCEPTED, Mark.REJECTED, Mark.IGNORED, Mark.CORRECTION, Mark.BONUS)

_VERDICTS = {
    Verdict.ACCEPTED: Mark.ACCEPTED,
    Verdict.REJECTED: Mark.REJECTED,
    Verdict.IGNORED: Mark.IGNORED,
    None: Mark.PENDING,
}
_ORIGINS = {
    Origin.ACCEPTED: Mark.ACCEPTED,
    Origin.CORRECTION: Mark.CORRECTION,
    Origin.BONUS: Mark.BONUS,
    Origin.PLAIN: Mark.PLAIN,
    Origin.GIVEN: Mark.GIVEN,
}


def mark_of_verdict(verdict: Verdict | None) -> Mark:
    """The mark of a draft; None: not judged yet."""
    return _VERDICTS[verdict]


def mark_of_origin(origin: Origin) -> Mark:
    """The mark of a token of the answer."""
    return _ORIGINS[origin]


def glyph_of(mark: Mark, glyphs: Glyphs) -> str:
    """The sign before a marked token; "" for accepted and plain ones."""
    return _GLYPHS[mark](glyphs)


@dataclass(frozen=True, slots=True)
class Marked:
    """A token's text, safe to show, with its mark."""

    glyph: str
    text: str
    mark: Mark

    @property
    def plain(self) -> str:
        """Glyph and text."""
        return f"{self.glyph} {self.text}" if self.glyph else self.text

    @property
    def width(self) -> int:
        """Columns of ``plain``."""
        return cell_len(self.plain)

    @property
    def component(self) -> str:
        """The component class."""
        return self.mark.component

    def content(self, styles: Mapping[Mark, Style]) -> Content:
        """Glyph and text in their styles (see ``mark_styles``). The glyph has no line through or under it."""
        style = styles[self.mark]
        if not self.glyph:
            return Content.styled(self.text, style)
        return Content.assemble((f"{self.glyph} ", style + _NO_LINES), (self.text, style))


def marked(piece: bytes, mark: Mark, glyphs: Glyphs) -> Marked:
    """A token with a mark."""
    return Marked(glyph_of(mark, glyphs), piece_text(piece, glyphs), mark)


def marked_draft(draft: DraftToken, verdict: Verdict | None, glyphs: Glyphs) -> Marked:
    """A draft with the verdict that may be shown."""
    return marked(draft.piece, mark_of_verdict(verdict), glyphs)


def marked_target(token: TargetToken, glyphs: Glyphs, *, drafted: bool = True) -> Marked:
    """The target's own token; where nothing was ``drafted`` it is a plain one, and a bonus to nothing."""
    return marked(token.piece, mark_of_origin(token.origin) if drafted else Mark.PLAIN, glyphs)


def marked_output(token: OutputToken, glyphs: Glyphs) -> Marked:
    """A token of the answer."""
    return marked(token.piece, mark_of_origin(token.origin), glyphs)


def piece_text(piece: bytes, glyphs: Glyphs) -> str:
    """A token's bytes on one line, safe to show and never empty."""
    return visible_bytes(piece, ascii_only=glyphs.ascii_only) or NO_PIECE


def legend(glyphs: Glyphs, marks: tuple[Mark, ...] = LEGEND_ORDER) -> tuple[Marked, ...]:
    """The marks with their names for text, in the order they are explained."""
    return tuple(Marked(glyph_of(mark, glyphs), mark.value, mark) for mark in marks)


def mark_styles(widget: Widget) -> dict[Mark, Style]:
    """The styles of a widget's marks, for ``Marked.content``; they change with the theme."""
    return {mark: widget.get_visual_style(mark.component, partial=True) for mark in Mark}


def marks_css(widget: str) -> str:
    """CSS rules of the component classes for a type of widget. The theme has the colours (``tui.themes``)."""
    return "\n".join(
        f"{widget} > .{mark.component} {{ color: $mark-{mark.value}; text-style: {TEXT_STYLES[mark]}; }}"
        for mark in Mark
    )
