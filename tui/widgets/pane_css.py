"""How the panes look: component classes for their rows, and the CSS. The theme has the colours."""

from __future__ import annotations

from tui.marks import MARK_CLASSES, marks_css

_RULES = {
    "dim": "color: $foreground 60%;",
    "faint": "color: $foreground 20%;",
    "strong": "text-style: bold;",
    "foot": "color: $foreground 70%; background: $panel;",
    "cursor": "text-style: reverse;",
    "match": "background: $warning 35%; text-style: underline;",
    "found": "text-style: reverse bold;",
    "target": "color: $primary;",
    "drafter": "color: $secondary;",
    "host": "color: $foreground 60%;",
    "good": "color: $mark-accepted; text-style: bold;",
    "bad": "color: $mark-rejected; text-style: bold;",
}
PANE_CLASSES = MARK_CLASSES | {f"lines--{name}" for name in _RULES}
"""Component classes of every pane."""
_FRAME = """
PANE {
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-gutter: stable;
    scrollbar-size-vertical: 1;
    background: $surface;
    color: $foreground;
    border: round $foreground 30%;
    border-title-color: $foreground;
    &:focus { border: round $primary; border-title-style: bold; }
    &.-ascii { border: ascii $foreground 30%; }
    &.-ascii:focus { border: ascii $primary; }
}
"""


def pane_css(widget: str) -> str:
    """The CSS of a type of widget that is the base of panes."""
    # The rules of the marks come first: a cursor or a match on a marked token wins.
    rules = [f"{widget} > .lines--{name} {{ {rule} }}" for name, rule in _RULES.items()]
    return "\n".join([_FRAME.replace("PANE", widget), marks_css(widget), *rules])
