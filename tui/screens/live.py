"""The live screen: its panes, in columns where there is room, one at a time where there is not."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from engine.config import Config
from tui.actions import PANE_KEYS, PANES
from tui.clipboard import say_copied
from tui.conversation import Conversation
from tui.playable import Made
from tui.source import ReplaySource
from tui.state import Phase, ViewState
from tui.survey import Survey
from tui.widgets.context import ContextPane
from tui.widgets.gauge import GaugePane
from tui.widgets.inputs import ChatInput
from tui.widgets.inspector import InspectorPane
from tui.widgets.lines import LineView
from tui.widgets.messages import DraftSelected, RoundSelected, TokenSelected
from tui.widgets.output import OutputPane
from tui.widgets.prompt import PromptPane
from tui.widgets.rounds import RoundsPane
from tui.widgets.timeline import Timeline
from tui.widgets.transport import KeyLine, TabBar, TransportBar
from tui.widgets.why import WhyPane

COLUMNS_FROM = 110
"""Columns of the screen from which the panes stand side by side."""
WRITE = "write"
"""Name of the line for the next message, among the panes."""
TIMELINE = "timeline"
"""Name of the line of a replay, among the panes."""
UNHURRIED = frozenset({"context", "gauge", "inspector", "why"})
"""Panes that change in most of their lines with every round: while the engine works in this process, they are
drawn this seldom, as what they cost it goes (docs/log.md)."""
UNHURRIED_S = 1.0
_LETTERS = {
    "c": "context",
    "o": "output",
    "r": "rounds",
    "i": "inspector",
    "g": "gauge",
    "p": "prompt",
    "y": "why",
    "w": WRITE,
    "t": TIMELINE,
}


class MessageLine(ChatInput):
    """The line for the next message; enter on an empty one starts the run."""

    class Empty(Message):
        """Enter was pressed, and nothing was written."""

    def action_submit(self) -> None:
        """Send what is written."""
        if self.text.strip():
            super().action_submit()
        else:
            self.post_message(self.Empty())


class LiveScreen(Screen[None]):
    """Arranges the panes, hands them the state, and keeps what is selected in step."""

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (COLUMNS_FROM, "-wide"), (140, "-very-wide")]
        self.active = "context"
        """The pane that is shown where there is room for one."""
        self.maximised = False
        self.timeline = Timeline(id=TIMELINE)
        self.timeline.display = False
        self._state = ViewState()
        self._offered = ""
        self._left = "context"  # or the prompt, in its place
        self._right = "inspector"  # or why
        self._all_at = float("-inf")
        self._follow_up: Timer | None = None

    def compose(self) -> ComposeResult:
        yield TransportBar(id="transport")
        yield Static("", id="offer", markup=False)
        yield TabBar(PANE_KEYS, id="tabs")
        with Horizontal(id="body"):
            with Vertical(id="middle"):
                yield OutputPane(id="output")
                yield RoundsPane(id="rounds")
            with Vertical(id="right"):
                yield GaugePane(id="gauge")
                yield InspectorPane(id="inspector")
                yield WhyPane(id="why")
            with Vertical(id="left"):
                yield ContextPane(id="context")
                yield PromptPane(id="prompt")
                yield MessageLine(id=WRITE)
        line = GaugePane(id="line")
        line.compact = True
        line.can_focus = False
        yield line
        yield self.timeline
        yield KeyLine(self._keys, id="keys")

    def on_mount(self) -> None:
        self._arrange()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._arrange()

    # -- what is shown

    def pane(self, name: str) -> LineView:
        """A pane by its name."""
        return self.query_one(f"#{name}", LineView)

    @property
    def output(self) -> OutputPane:
        return self.query_one("#output", OutputPane)

    @property
    def message_line(self) -> MessageLine:
        return self.query_one(MessageLine)

    @property
    def single(self) -> bool:
        """Whether one pane is shown at a time."""
        return self.size.width < COLUMNS_FROM or self.maximised

    def show(self, state: ViewState, config: Config, made: Made | None = None) -> None:
        """Show a state in all panes that can be seen; the others follow when they are."""
        self._state = state
        self.query_one(TransportBar).show(state, config, made)
        wait = self._all_at + UNHURRIED_S - monotonic()
        if wait > 0 and state.phase is Phase.RUNNING and not state.replay and not self.single:
            self._show_panes(UNHURRIED)
            if self._follow_up is None:
                self._follow_up = self.set_timer(wait, self._show_panes)
        else:
            self._show_panes()

    def _show_panes(self, later: frozenset[str] = frozenset()) -> None:
        """Show the state in the panes that can be seen, but in those that come later."""
        if not later:
            self._all_at = monotonic()
            if self._follow_up is not None:
                self._follow_up.stop()
                self._follow_up = None
        for pane in self.query(LineView):
            if pane.id not in later and self._is_shown(pane):
                _show(pane, self._state)

    def show_timeline(
        self,
        source: ReplaySource | None,
        survey: Survey | None = None,
        bookmarks: Sequence[int] = (),
        kind: str = "",
    ) -> None:
        """Show where a replay is; None: there is none."""
        timeline = self.timeline
        if source is None or survey is None:
            if not timeline.display:
                return  # as with every frame of a live run
            if timeline.has_focus:
                self.go_to("output")
            timeline.display = False
            return
        timeline.display = True
        timeline.show(source, survey, bookmarks, kind)

    def show_conversation(self, conversation: Conversation, live_at: int | None) -> None:
        """Show the messages."""
        self.query_one(ContextPane).show_conversation(conversation, live_at=live_at)

    def select_message(self, index: int) -> None:
        """Choose a message."""
        self.query_one(ContextPane).select(index)

    def show_memory(self, count: int) -> None:
        """Show how much memory the process holds."""
        for gauge in self.query(GaugePane):
            gauge.show_memory(count)

    def offer(self, text: str) -> None:
        """One line of advice under the first one; "" takes it away."""
        if text == self._offered:
            return  # an update lays out the whole screen
        self._offered = text
        line = self.query_one("#offer", Static)
        line.update(Content(text))
        line.display = bool(text)

    def _is_shown(self, widget: Widget) -> bool:
        return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))

    # -- layout

    def _arrange(self) -> None:
        single = self.single
        self.set_class(single, "-single")
        hidden = {"context", "prompt", "inspector", "why"} - {self._left, self._right}
        shown = {self.active} if single else {*PANES} - hidden
        for name in PANES:
            self.pane(name).display = name in shown
        for column, names in (("middle", ("output", "rounds")), ("right", ("gauge", "inspector", "why"))):
            self.query_one(f"#{column}").display = bool(shown & {*names})
        self.query_one("#left").set_class(not shown & {"context", "prompt"}, "-line-only")
        self.query_one("#tabs").display = single
        self.query_one("#line").display = single and self.active != "gauge"
        self.query_one(TabBar).show(self.active)
        self._show_panes()

    def go_to(self, name: str) -> None:
        """Show a pane, and give it the focus."""
        if name == WRITE:
            self.message_line.focus()
            return
        if name == TIMELINE:
            self.timeline.focus()
            return
        self.active = name
        if name in {"context", "prompt"}:
            self._left = name
        elif name in {"inspector", "why"}:
            self._right = name
        self._arrange()
        self.pane(name).focus()

    def cycle(self, by: int) -> None:
        """To another place, in the order of the keys."""
        places = [*PANES, WRITE, *([TIMELINE] if self.timeline.display else [])]
        focused = self.focused.id if self.focused is not None else None
        at = places.index(focused) if focused in places else -1 if by > 0 else 0
        self.go_to(places[(at + by) % len(places)])

    def maximise(self) -> None:
        """The pane with the focus alone, or all of them again."""
        focused = self.focused.id if self.focused is not None else None
        if focused in PANES:
            self.active = focused
        self.maximised = not self.maximised
        self._arrange()

    @on(TabBar.Chosen)
    def _tab(self, event: TabBar.Chosen) -> None:
        self.go_to(event.name)

    @property
    def places(self) -> dict[str, tuple[str, Widget]]:
        """Where jump mode can go, by letter."""
        found = {letter: (name, self.query_one(f"#{name}")) for letter, name in _LETTERS.items()}
        if not self.timeline.display:
            del found["t"]
        if self.single:
            return found
        return {letter: entry for letter, entry in found.items() if self._is_shown(entry[1])}

    def action_copy_text(self) -> None:
        """Copy what is selected with the mouse, and say so."""
        super().action_copy_text()
        say_copied(self, self.get_selected_text() or "")

    # -- selection: what is chosen in one pane is shown in the others

    @on(RoundSelected)
    def _round(self, event: RoundSelected) -> None:
        self._show_panes()
        self.query_one(InspectorPane).select(event.index)

    @on(TokenSelected)
    def _token(self, event: TokenSelected) -> None:
        if event.index >= len(self._state.output):
            return  # the answer was replaced, or its end withdrawn, since the message was sent
        if self.single:
            self.go_to("inspector")
        elif self._right == "inspector":
            self._show_panes()
        else:
            self._right = "inspector"
            self._arrange()
        self.query_one(InspectorPane).select_token(event.index)
        token = self._state.output[event.index]
        self.query_one(RoundsPane).select(token.round if token.round >= 0 else None)

    @on(DraftSelected)
    def _draft(self, event: DraftSelected) -> None:
        self.query_one(RoundsPane).select(event.index)

    # -- the keys that apply

    def _keys(self) -> Sequence[tuple[str, str, str]]:
        """Key, label and action of what is worth showing; where a text is typed, keys that type are not."""
        typing = isinstance(self.focused, MessageLine)
        found: dict[str, tuple[str, str, str]] = {}
        own: list[str] = []
        for key, active in self.active_bindings.items():
            binding = active.binding
            if not binding.show or not active.enabled or binding.system:
                continue
            if typing and (len(key) == 1 or key in _TYPED):
                continue
            if binding.action in found:
                continue
            call = binding.action
            if active.node is not self.app:
                own.append(call)
            display = self.app.get_key_display(binding)
            found[call] = (
                display,
                binding.description,
                call if active.node is self.app else f"press('{key}')",
            )
        general = [entry for call, entry in found.items() if call not in own]
        return [*general, *(found[call] for call in own)]


_TYPED = {"space", "full_stop", "comma", "plus", "minus", "equals_sign", "question_mark", "slash"}


def _show(pane: LineView, state: ViewState) -> None:
    show = getattr(pane, "show", None)
    assert show is not None, f"{pane} shows no state"
    show(state)
