"""The app's own lines: what goes on, the tabs, the keys that apply now, an offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from engine.config import Config
from engine.config_tables import AUTO
from tui.drafting import drafter_words, is_synthetic, loads_model, rule_words
from tui.glyphs import Glyphs, bar, glyph_set
from tui.playable import Made
from tui.safe_text import visible
from tui.state import Phase, ViewState

_BAR = 12
_SHORT_BELOW = 100
"""Columns of the screen below which a long phase is told in fewer words."""
_ROOMY = 70
"""Columns of the screen from which the tabs have a space before them too."""
Part = tuple[str, str]
"""A text, safe to show, and its style."""


class OneLine(Widget):
    """A line that is painted only when its text changes; what has no room is cut at its end."""

    DEFAULT_CSS = """
    OneLine { height: 1; width: 1fr; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._parts: tuple[Part, ...] = ()

    @property
    def glyphs(self) -> Glyphs:
        """The signs this terminal can show."""
        return glyph_set(bool(getattr(self.app, "ascii", False)))

    def set_parts(self, parts: Sequence[Part]) -> None:
        """Show other texts."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self.refresh()

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(text for text, _ in self._parts)

    def render(self) -> Content:
        return Content.assemble(*self._parts)

    def part_at(self, column: int) -> int | None:
        """Which part stands at a column."""
        for at, (text, _) in enumerate(self._parts):
            column -= cell_len(text)
            if column < 0:
                return at
        return None


_SHORT = {Phase.PREFILL: "prompt", Phase.PLAIN_RUN: "plain first", Phase.BASELINE: "timing plain"}
_PHASES = {
    Phase.EMPTY: "no model",
    Phase.LOADING: "loading",
    Phase.READY: "ready",
    Phase.PREFILL: "reading the prompt",
    Phase.PLAIN_RUN: "plain decoding first",
    Phase.RUNNING: "running",
    Phase.PAUSED: "paused",
    Phase.BASELINE: "timing plain decoding",
    Phase.FAILED: "failed",
}


class TransportBar(OneLine):
    """Phase, run and segment, settings, models and device. The first parts matter most."""

    DEFAULT_CSS = """
    TransportBar { text-wrap: nowrap; text-overflow: clip; }
    """

    HELP: ClassVar[str] = (
        "The first line says what goes on, which run and segment it is, and with which models."
    )

    recording = ""
    """What the next ``show`` says of a recording that is being made; "" for none."""

    def show(self, state: ViewState, config: Config, made: Made | None = None) -> None:
        """Show a state.

        Args:
            made: what the recording that is shown was made with; its models are not loaded.
        """
        glyphs = self.glyphs
        parts: list[Part] = [(f" {self._sign(state, glyphs)} ", "bold")]
        if state.replay:
            parts.append(("REPLAY ", "bold $text-warning"))
        if self.recording:
            parts.append((f"{glyphs.record} {self.recording} ", "bold $text-error"))
        parts += [(f"{self._phase(state, glyphs)} ", self._style(state.phase)), *self._run(state)]
        gap = f" {glyphs.separator} "
        machine = [made.machine] if made is not None and made.machine else self._device(state)
        details = [self._settings(state, config), self._pair(state, config, made), *machine]
        for text in details:
            parts += [(gap, "$foreground 50%"), (visible(text, "", ascii_only=glyphs.ascii_only), "")]
        self.set_parts(parts)

    @staticmethod
    def _sign(state: ViewState, glyphs: Glyphs) -> str:
        if state.phase is Phase.PAUSED or state.pausing:
            return glyphs.pause
        working = state.phase in {
            Phase.RUNNING,
            Phase.PREFILL,
            Phase.PLAIN_RUN,
            Phase.BASELINE,
            Phase.LOADING,
        }
        return glyphs.cross if state.phase is Phase.FAILED else glyphs.play if working else glyphs.stop

    @staticmethod
    def _style(phase: Phase) -> str:
        styles = {Phase.FAILED: "bold $text-error", Phase.PAUSED: "bold $text-warning"}
        return styles.get(phase, "bold $text-primary")

    def _phase(self, state: ViewState, glyphs: Glyphs) -> str:
        names = _PHASES | _SHORT if self.app.size.width < _SHORT_BELOW else _PHASES
        text = "pausing" if state.pausing else names[state.phase]
        load, baseline = state.load, state.baseline
        if state.phase is Phase.LOADING and load is not None:
            text = f"loading {load.role}"
            if load.stage and load.total:
                share = load.done / load.total
                text += f": {visible(load.stage, '')} {bar(share, _BAR, glyphs)} {share:.0%}"
        elif state.phase in {Phase.PREFILL, Phase.PLAIN_RUN} and state.prefill_total:
            text += f" {state.prefill_done:,}/{state.prefill_total:,}"
        elif state.phase is Phase.BASELINE and baseline is not None:
            text += f" {baseline.done:,}/{baseline.total:,}"
        elif state.phase is Phase.READY and state.finished is not None:
            text = f"ended: {state.finished.reason.value.replace('_', ' ')}"
        elif state.phase is Phase.READY and state.replay and not state.run:
            text = "a recording"
        return text

    @staticmethod
    def _run(state: ViewState) -> list[Part]:
        if not state.run:
            return []
        segment = f"/{state.settings_id}" if state.settings_id > 1 else ""
        return [(f" run {state.run}{segment}  round {len(state.rounds)}  {len(state.output)} tok", "")]

    @staticmethod
    def _pair(state: ViewState, config: Config, made: Made | None) -> str:
        """Target and drafter by their short names."""
        held = None if state.drafter is None else state.drafter.name
        if made is not None:
            # A recording that began with models loaded tells of no load.
            target = state.target.name if state.target else made.target
            method = "model" if state.settings is None else state.settings.drafter
            model = (held or made.drafter) if loads_model(method) else None
        else:
            target = state.target.name if state.target else config.verify.model_name
            method = config.draft.method
            model = held or config.draft.model_name
            if held is not None and not loads_model(method) and not is_synthetic(method):
                method = "model"  # the one that is still held goes on drafting until it is exchanged
            elif not loads_model(method):
                model = None
        drafter = drafter_words(method, None if model is None else short_name(model))
        return f"{short_name(target)} + {drafter}"

    @staticmethod
    def _device(state: ViewState) -> list[str]:
        return [f"{state.target.device} {state.target.dtype}"] if state.target else []

    @staticmethod
    def _settings(state: ViewState, config: Config) -> str:
        """What is asked for now; a run in progress takes it over at the next round."""
        settings = state.settings
        drafts = str(config.draft.num_draft_tokens)
        rule = config.verify.verify_strategy
        temperature: float | None = 0.0 if rule == "greedy_match" else config.sampling.temperature
        if state.replay and settings is not None:
            drafts = AUTO if settings.adaptive else str(settings.num_draft_tokens)
            temperature = settings.temperature
            rule = settings.verify_strategy
        if temperature is None and settings is not None:
            temperature = settings.temperature
        shown = "T auto" if temperature is None else f"T {temperature:g}"
        seed = "" if settings is None else f" seed {settings.seed}"
        return f"K {drafts} {shown}{seed} {rule_words(rule)}"


def short_name(name: str) -> str:
    """A model's name without where it comes from."""
    return name.rstrip("/").rpartition("/")[2].removeprefix("builtin:") or name


class TabBar(OneLine):
    """The panes by name, one of them active; for screens that have room for one.

    Args:
        keys: the key of each pane.
    """

    class Chosen(Message):
        """A pane was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, keys: Mapping[str, int], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys = dict(keys)
        self._names = tuple(keys)

    def place(self, name: str) -> Region | None:
        """Where a pane's number and the blanks round it stand on the screen; None if it cannot be seen."""
        if not self.region or name not in self._names:
            return None
        at = self._names.index(name)
        before = sum(cell_len(text) for text, _ in self._parts[:at])
        label = self._parts[at][0]
        word = label.split()[1]
        return Region(self.region.x + before, self.region.y, label.index(word), 1)

    def show(self, active: str) -> None:
        """Mark a pane."""
        width = self.app.size.width
        lead = " " if width >= _ROOMY else ""
        labels = {name: f"{lead}{number} {name.capitalize()} " for name, number in self._keys.items()}
        if sum(map(len, labels.values())) > width:
            labels = {name: label.replace("Inspector", "Inspect") for name, label in labels.items()}
        self.set_parts(
            [
                (label, "bold reverse" if name == active else "$foreground 80%")
                for name, label in labels.items()
            ]
        )

    def on_click(self, event: events.Click) -> None:
        at = self.part_at(event.x)
        if at is not None:
            self.post_message(self.Chosen(self._names[at]))


Key = tuple[str, str, str]
"""A key as shown, what it does, and the action as Textual calls it."""


def keys_of(screen: Screen[Any]) -> list[Key]:
    """The keys that a screen and what has the focus there show, each action once."""
    found: dict[str, Key] = {}
    app = screen.app
    for key, active in screen.active_bindings.items():
        binding = active.binding
        if not binding.show or not active.enabled or binding.system or active.node is app:
            continue
        label = visible(binding.description, "")
        found.setdefault(binding.action, (app.get_key_display(binding), label, f"press('{key}')"))
    return list(found.values())


class KeyLine(OneLine):
    """The keys that apply now, the most useful first; a click presses them.

    While another screen is on top, that one's keys are shown, unless it has such a line itself.

    Args:
        keys: what applies on this line's own screen; None: what the screen's bindings say.
    """

    def __init__(self, keys: Callable[[], Sequence[Key]] | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys = keys
        self._actions: list[str] = []

    def on_mount(self) -> None:
        self.app.screen_change_signal.subscribe(self, self._follow)
        self._follow(self.screen)
        self.update_keys()

    def _follow(self, top: Screen[Any]) -> None:
        """A screen is on top now: its keys change with its focus."""
        top.bindings_updated_signal.subscribe(self, self._changed)
        self.call_after_refresh(self.update_keys)

    def _changed(self, screen: Screen[Any]) -> None:
        if screen.is_current:
            self.update_keys()

    def update_keys(self) -> None:
        """Look again."""
        if not self.app.screen_stack:
            return  # the app is closing
        parts: list[Part] = []
        self._actions = []
        for key, label, action in self._applying():
            parts += [(f" {key} ", "bold $text-accent"), (f"{label} ", "")]
            self._actions += [action, action]
        self.set_parts(parts)

    def render(self) -> Content:
        """As many keys as have room, each with what it does."""
        shown: list[Part] = []
        room = self.size.width
        for key, label in zip(self._parts[::2], self._parts[1::2], strict=True):
            room -= cell_len(key[0] + label[0])
            if room < -1:  # the last blank may be missing
                break
            shown += [key, label]
        return Content.assemble(*shown)

    def _applying(self) -> Sequence[Key]:
        top = self.app.screen
        if top is self.screen:
            return keys_of(top) if self._keys is None else self._keys()
        return () if top.query(KeyLine) else keys_of(top)

    async def on_click(self, event: events.Click) -> None:
        at = self.part_at(event.x)
        if at is not None:
            await self.app.run_action(self._actions[at])
