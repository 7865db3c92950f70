"""What a pane is for, and what every key does now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from tui.key_text import key_text
from tui.safe_text import visible
from tui.screens.dialog import Dialog, plain

_KEYS = 16
"""Columns of the keys."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One part of the help."""

    title: str
    text: str
    keys: tuple[tuple[str, str], ...] = ()
    """Keys as Textual calls them, separated by commas; what they do."""


def topic_of(widget: Widget, title: str | None = None) -> Topic | None:
    """The help of a pane from its ``HELP`` and its own keys; None if it has neither."""
    text = str(getattr(type(widget), "HELP", "") or "")
    keys = tuple(
        (binding.key, binding.tooltip or binding.description) for binding in own_bindings(type(widget))
    )
    if not text and not keys:
        return None
    return Topic(title or _title(widget), text, keys)


def _title(widget: Widget) -> str:
    title: Any = widget.border_title
    return str(title or type(widget).__name__.removesuffix("Pane"))


def own_bindings(kind: type[Any]) -> Iterable[Binding]:
    """Bindings of a class and of those of this program that it inherits from, its own first."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("tui."):
            continue
        for binding in base.__dict__.get("BINDINGS", ()):
            made = binding if isinstance(binding, Binding) else Binding(*binding)
            if made.key not in seen:
                seen.add(made.key)
                yield made


class HelpScreen(Dialog[None]):
    """Topics below each other, the first one for where the focus was."""

    KEYS = (("up down pgup pgdn", "scroll"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark,q", "leave", "Close", id="help.close", tooltip="Close the help"),
        Binding("j", "scroll(1)", "Down", id="help.down", tooltip="A line down", show=False),
        Binding("k", "scroll(-1)", "Up", id="help.up", tooltip="A line up", show=False),
    ]
    DEFAULT_CSS = """
    HelpScreen > .box { width: 94%; max-width: 96; height: 92%; }
    HelpScreen .title { margin-bottom: 0; }
    HelpScreen VerticalScroll { height: 1fr; scrollbar-gutter: stable; scrollbar-size-vertical: 1; }
    HelpScreen .topic { height: auto; margin: 1 0 0 0; text-style: bold; color: $text-primary; }
    HelpScreen .text { height: auto; }
    HelpScreen .keys { height: auto; margin-top: 1; }
    HelpScreen .buttons { margin: 0; }
    """

    def __init__(self, topics: Sequence[Topic]) -> None:
        super().__init__()
        self._topics = tuple(topics)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("Help", "title")
            with VerticalScroll():
                for topic in self._topics:
                    yield plain(topic.title, "topic")
                    if topic.text:
                        yield plain(topic.text, "text")
                    if topic.keys:
                        yield Static(_table(topic.keys), classes="keys", markup=False)
            with Horizontal(classes="buttons"):
                yield Button("Close", id="close", variant="primary", compact=True)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_scroll(self, by: int) -> None:
        """Lines up or down."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    @on(Button.Pressed)
    def _close(self) -> None:
        self.dismiss(None)


def _table(keys: Iterable[tuple[str, str]]) -> Content:
    rows: list[Content] = []
    for key, does in keys:
        name = visible(key_text(key), "")
        gap = " " * max(_KEYS - len(name), 2)
        rows.append(Content.assemble((name, "bold $text-accent"), gap, visible(does, "")))
    return Content("\n").join(rows)
