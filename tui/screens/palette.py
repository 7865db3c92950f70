"""The command palette: what the app and its panes can do, the presets and the themes, each with its key.

Its field is safe to paste into, and rests while nothing is typed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import (
    CommandInput,
    CommandList,
    CommandPalette,
    DiscoveryHit,
    Hit,
    Hits,
    Provider,
    SearchIcon,
)
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, LoadingIndicator
from textual.worker import Worker

from engine import presets
from engine.config import load_config
from tui.actions import ACTIONS, PANES
from tui.key_text import first_key
from tui.screens.dialog import Dialog
from tui.screens.help import own_bindings
from tui.screens.live import LiveScreen
from tui.themes import THEMES
from tui.widgets.inputs import SafeInput

if TYPE_CHECKING:
    from tui.app_commands import CommandApp

PALETTE_ID = "--command-palette"
"""The one that Textual gives its own."""
_TITLE_COLUMNS = 30
_PANES_COME_SECOND = 0.9
_BY_TOOLTIP = 0.05
_LINE_ACTIONS = {"lines.search", "lines.next", "lines.previous"}
"""Of what all panes can do; the rest only moves about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the palette."""

    title: str
    help: str
    run: Callable[[], Awaitable[object] | object]
    key: str = ""
    weight: float = 1.0

    def line(self, title: Content) -> Content:
        """The title, and the key in a column of its own."""
        gap = " " * max(_TITLE_COLUMNS - title.cell_length, 2)
        return Content.assemble(title, gap, (self.key, "$text-accent bold")) if self.key else title


class Commands(Provider):
    """What can be done on the screen below the palette."""

    async def discover(self) -> Hits:
        """Everything, in the order of the help."""
        for entry in self._entries():
            yield DiscoveryHit(entry.line(Content(entry.title)), entry.run, entry.title, entry.help)

    async def search(self, query: str) -> Hits:
        """What has the letters in its title, or the words in its explanation."""
        for hit in self.hits(query):
            yield hit

    def hits(self, query: str) -> Iterator[Hit]:
        """What ``search`` finds, at once."""
        matcher = self.matcher(query)
        for entry in self._entries():
            score = matcher.match(entry.title) * entry.weight
            if score > 0:
                line = entry.line(matcher.highlight(entry.title))
                yield Hit(score, line, entry.run, entry.title, entry.help)
            elif query.lower() in entry.help.lower():
                yield Hit(_BY_TOOLTIP, entry.line(Content(entry.title)), entry.run, entry.title, entry.help)

    def _entries(self) -> Iterator[Entry]:
        screen = self.screen
        if isinstance(screen, LiveScreen):
            yield from self._of_the_app()
            for name in PANES:
                yield from self._of_a_pane(screen, name)
            yield from self._presets()
        elif isinstance(screen, Dialog):
            yield from self._of_a_dialog(screen)
        for theme in THEMES:
            title = f"Theme: {theme.name.removeprefix('spec-')}"
            yield Entry(title, "Use these colours", partial(setattr, self.app, "theme", theme.name))

    @property
    def _app(self) -> CommandApp:
        return cast("CommandApp", self.app)

    def _key(self, id_: str | None, keys: str) -> str:
        """The first key, the user's own where there is one."""
        return first_key(self.app._keymap.get(id_ or "", keys))

    def _of_the_app(self) -> Iterator[Entry]:
        now = self._app.now
        for action in ACTIONS:
            if action.when(now):
                run = partial(self.app.call_later, self.app.run_action, action.name)
                yield Entry(action.title, action.tooltip, run, self._key(action.id, action.keys))

    def _of_a_pane(self, live: LiveScreen, name: str) -> Iterator[Entry]:
        pane = live.pane(name)
        own = [each for each in own_bindings(type(pane)) if _is_wanted(each)]
        labels = [each.description for each in own]
        everywhere = {action.title for action in ACTIONS if action.keys}
        for binding in own:
            if binding.description in everywhere:
                continue
            # Two of a pane may share a short name; the long one tells them apart.
            shared = labels.count(binding.description) > 1
            label = binding.tooltip if shared else binding.description
            run = partial(self._on_pane, live, name, binding.action)
            key = self._key(binding.id, binding.key)
            yield Entry(f"{name.capitalize()}: {label}", binding.tooltip, run, key, _PANES_COME_SECOND)

    async def _on_pane(self, live: LiveScreen, name: str, action: str) -> None:
        live.go_to(name)
        self.app.call_later(self.app.run_action, action, live.pane(name))

    def _of_a_dialog(self, screen: Dialog[Any]) -> Iterator[Entry]:
        owners: tuple[Widget, ...] = (screen,) if screen.focused is None else (screen.focused, screen)
        for owner in owners:
            for binding in own_bindings(type(owner)):
                if not binding.show and not (binding.id or "").startswith("app."):
                    continue
                run = partial(self.app.call_later, self.app.run_action, binding.action, owner)
                yield Entry(binding.description, binding.tooltip, run, self._key(binding.id, binding.key))

    def _presets(self) -> Iterator[Entry]:
        for name, sentence in presets.PRESETS.items():
            yield Entry(f"Preset: {name}", f"Settings: {sentence}", partial(self._use_preset, name))

    def _use_preset(self, name: str) -> None:
        app = self._app
        app.config_path = None  # a file the settings came from before is another one
        app.lab.change(load_config(name))
        app.say(f"The settings are those of the preset {name}.")


def _is_wanted(binding: Binding) -> bool:
    id_ = binding.id or ""
    return not id_.startswith("lines.") or id_ in _LINE_ACTIONS


class PaletteInput(CommandInput, SafeInput):
    """What is looked for."""


class Palette(CommandPalette):
    """Every action that applies, and the themes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f12", "picture", "Screenshot", id="app.picture", tooltip="Save the screen", show=False),
        Binding("ctrl+q", "app.quit", "Quit", id="app.leave", tooltip="Leave the program", show=False),
    ]
    DEFAULT_CSS = """
    Palette.-ascii #--input { border: ascii $primary; }
    Palette.-ascii LoadingIndicator { border-bottom: ascii $primary; }
    Palette.-ascii CommandList, Palette.-ascii CommandList:focus { border: none; }
    Palette.-ascii Input, Palette.-ascii Input:focus { border: none; height: 1; margin: 1 0; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__([Commands], id=id)

    def compose(self) -> ComposeResult:
        ascii_only = bool(getattr(self.app, "ascii", False))
        self.set_class(ascii_only, "-ascii")
        icon = SearchIcon()
        if ascii_only:
            icon.icon = ">"
        with Vertical(id="--container"):
            with Horizontal(id="--input"):
                yield icon
                yield PaletteInput(placeholder="Search for commands", select_on_focus=False)
            with Vertical(id="--results"):
                yield CommandList()
                yield LoadingIndicator()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        """Where keys come fast, the list shows what earlier letters found: enter means the newest ones."""
        query = event.value.strip()
        searching = any(worker.group == self._GATHER_COMMANDS_GROUP for worker in self._searches())
        if not query or not searching or self._calling_screen is None:
            return  # the base class takes what is highlighted
        event.stop()
        event.prevent_default()
        found = sorted(Commands(self._calling_screen).hits(query), key=lambda hit: hit.score)
        if found:
            self._cancel_gather_commands()
            self.app.post_message(CommandPalette.Closed(option_selected=True))
            self.dismiss()
            self.app.call_later(found[-1].command)

    def _searches(self) -> Iterator[Worker[Any]]:
        return (worker for worker in self.workers if worker.node is self and worker.is_running)

    def action_picture(self) -> None:
        """Have the app save a picture of the screen, the palette with it."""
        take = getattr(self.app, "action_app_picture", None)
        if take is not None:
            take()
