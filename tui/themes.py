"""The four themes: the only place with literal colours.

Each one gives the marks their colours as CSS variables, ``$mark-accepted`` and so on. A colour never carries
a meaning alone: glyphs and text styles do (``tui.marks``). Every mark has a contrast of at least 4.5 : 1 with
each background of its theme and with selected text's, 7 : 1 in the one of high contrast; where there are only
16 colours, what was accepted has another one than plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from textual.app import App
from textual.filter import LineFilter
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.theme import Theme

from tui.ascii_look import AsciiFilter, AsciiScrollBarRender

ReturnType = TypeVar("ReturnType")
_MARK = "mark-"
_ASCII_FILTER = AsciiFilter()


def _theme(name: str, *, dark: bool, colors: dict[str, str], marks: dict[str, str]) -> Theme:
    return Theme(
        name=name,
        dark=dark,
        primary=colors["primary"],
        secondary=colors["secondary"],
        accent=colors["accent"],
        foreground=colors["foreground"],
        background=colors["background"],
        surface=colors["surface"],
        panel=colors["panel"],
        success=marks["accepted"],
        error=marks["rejected"],
        warning=marks["correction"],
        variables={
            **{f"{_MARK}{mark}": color for mark, color in marks.items()},
            "screen-selection-background": colors["selection"],
        },
    )


DARK = _theme(
    "spec-dark",
    dark=True,
    colors={
        "primary": "#7aa2f7",
        "secondary": "#9d8cf0",
        "accent": "#7dcfff",
        "foreground": "#d5daea",
        "background": "#14161f",
        "surface": "#1a1d29",
        "panel": "#232737",
        "selection": "#1f2f86",
    },
    marks={
        "accepted": "#8ce06a",
        "rejected": "#ff8196",
        "ignored": "#9aa1b9",
        "correction": "#e8b872",
        "bonus": "#7dcfff",
        "plain": "#d5daea",
        "given": "#b9a8ee",
        "pending": "#b4bcdc",
    },
)

LIGHT = _theme(
    "spec-light",
    dark=False,
    colors={
        "primary": "#2257a8",
        "secondary": "#5b3f9e",
        "accent": "#005f87",
        "foreground": "#23262e",
        "background": "#f7f7f4",
        "surface": "#efefeb",
        "panel": "#e4e5e0",
        "selection": "#c0d6f5",
    },
    marks={
        "accepted": "#006b1b",
        "rejected": "#a8201a",
        "ignored": "#565b64",
        "correction": "#7d4400",
        "bonus": "#00587d",
        "plain": "#23262e",
        "given": "#623a94",
        "pending": "#474e58",
    },
)

CONTRAST = _theme(
    "spec-contrast",
    dark=True,
    colors={
        "primary": "#8fc7ff",
        "secondary": "#e0b0ff",
        "accent": "#ffff5f",
        "foreground": "#ffffff",
        "background": "#000000",
        "surface": "#000000",
        "panel": "#121212",
        "selection": "#002f8a",
    },
    marks={
        "accepted": "#6cff6c",
        "rejected": "#ff9090",
        "ignored": "#c8c8c8",
        "correction": "#ffdf5f",
        "bonus": "#5fd7ff",
        "plain": "#ffffff",
        "given": "#e4bcff",
        "pending": "#eeeeee",
    },
)

COLOR_BLIND = _theme(
    "spec-color-blind",
    dark=True,
    # Okabe and Ito's colours: told apart with every common kind of colour blindness.
    colors={
        "primary": "#56b4e9",
        "secondary": "#cc9ab8",
        "accent": "#f0e442",
        "foreground": "#dcdfe6",
        "background": "#14161c",
        "surface": "#1a1d24",
        "panel": "#242832",
        "selection": "#1b2f86",
    },
    marks={
        "accepted": "#56b4e9",
        "rejected": "#e69f00",
        "ignored": "#a0a5b0",
        "correction": "#f0e442",
        "bonus": "#d9a3c4",
        "plain": "#dcdfe6",
        "given": "#5fcfae",
        "pending": "#bcc2ce",
    },
)

THEMES = (DARK, LIGHT, CONTRAST, COLOR_BLIND)


def mark_colors(theme: Theme) -> dict[str, str]:
    """The marks' colours in one of the four, by CSS variable."""
    return {name: color for name, color in theme.variables.items() if name.startswith(_MARK)}


MARK_DEFAULTS = mark_colors(DARK)
"""For ``App.get_theme_variable_defaults``: another theme has no colours for the marks."""


class ThemedApp(App[ReturnType]):
    """An app with the four themes, the dark one chosen. CSS that uses the marks needs such an app."""

    ascii: bool = False
    """Whether it is drawn with ASCII only; chosen before it runs."""

    def __init__(self) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def on_load(self) -> None:
        """Before the first paint."""
        ScrollBar.renderer = AsciiScrollBarRender if self.ascii else ScrollBarRender

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every line passes before it is written."""
        filters = super().get_line_filters()
        return [*filters, _ASCII_FILTER] if self.ascii else filters

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The marks' colours in a theme that is not one of the four."""
        return MARK_DEFAULTS if self.current_theme.dark else mark_colors(LIGHT)
