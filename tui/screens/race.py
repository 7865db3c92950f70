"""Plain against speculative decoding, side by side."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from engine.race import Arm, RaceEvent
from tui.lab_core import DRAIN_S
from tui.pump import INTERVAL_S, Pump
from tui.race_state import RaceState, reduce_race, sides
from tui.race_words import headline
from tui.screens.dialog import Dialog, plain
from tui.source import ReplayClock
from tui.widgets.race_lane import RaceLane
from tui.widgets.race_result import RaceResult

SHARE = 0.02
"""Of the time, that goes into drawing while an arm runs."""
LONGEST_S = 0.75
"""Between two frames then: a clock that moves less often looks stuck."""


class RacePump(Pump):
    """Takes the same share of the time from either arm.

    Beside the second arm the first one is played, so more is drawn; but frames come as seldom as their cost
    asks for, so what they take from the engine is the same.
    """

    timed = True
    """Whether an arm runs, or is to run."""

    @property
    def interval(self) -> float:
        return min(max(INTERVAL_S, self.cost / SHARE), LONGEST_S) if self.timed else INTERVAL_S


class RaceScreen(Dialog[None]):
    """Shows the arm that runs as it writes, and beside it the one that has finished, from memory, at the same
    time of its clock; then what came of it, and both again as often as is wished, without the engine.

    Args:
        drafter: K and the drafter, for the title of the speculative side; its end may be cut.
        dtype: number format of the target.
        now: a monotonic clock in seconds.
    """

    HELP: ClassVar[str] = (
        "Both ways of decoding write the same context, one after the other, each alone. While the second one "
        "runs, the first is played beside it on its own clock."
    )
    KEYS = (("tab", "the other text"), ("m", "marks"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r,space", "replay", "Again", id="race.replay", tooltip="Play both from the start"),
    ]
    DEFAULT_CSS = """
    RaceScreen > .box {
        width: 100%; max-width: 100%; height: 100%; max-height: 100%; border: none; padding: 0;
    }
    RaceScreen.-ascii > .box { border: none; }
    RaceScreen .title { height: 1; margin: 0; padding: 0 1; text-wrap: nowrap; background: $panel; }
    RaceScreen .lanes { height: 1fr; }
    RaceScreen .keys-line { padding: 0 1; background: $panel; }
    """

    def __init__(self, drafter: str, dtype: str, now: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self.state = RaceState()
        self._drafter, self._dtype, self._now = drafter, dtype, now
        self._told: SimpleQueue[tuple[float, RaceEvent]] = SimpleQueue()
        self._newest = 0.0  # when the newest event came
        self._replay = ReplayClock(now)
        self._pump = RacePump(self._take, self._draw, self._later, self._after_paint)
        self._title = ""

    def tell(self, event: RaceEvent) -> None:
        """Take an event, from any thread. It is shown with the next frame: nobody is woken for it."""
        self._told.put((self._now(), event))

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield plain("", "title", id="headline")
            with Horizontal(classes="lanes"):
                yield RaceLane("plain", "Plain")
                yield RaceLane("speculative", self.safe(f"Speculative, {self._drafter}", ""))
            yield RaceResult(self._dtype)

    def on_mount(self) -> None:
        self.lane("speculative").text.focus()
        self._pump.wake()

    def lane(self, arm: Arm) -> RaceLane:
        """One of both sides."""
        return self.query_one(f"#{arm}", RaceLane)

    # -- the clock

    @property
    def seconds(self) -> float:
        """The time that is shown: of the arm that runs, or of the replay."""
        state = self.state
        if state.result is not None:
            return min(self._replay.time, state.end)
        if state.running is None:
            return 0.0
        arm = state.arm(state.running)
        return arm.seconds if arm.finished is not None else arm.seconds + self._now() - self._newest

    @property
    def resting(self) -> bool:
        """Whether nothing moves any more."""
        return self.state.result is not None and self._replay.time >= self.state.end

    def action_replay(self) -> None:
        """Both again, from the start."""
        self._replay.jump(0.0)
        self._replay.play()
        self._pump.wake()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "replay":
            return self.state.result is not None
        return super().check_action(action, parameters)

    # -- frames

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if seconds > 0:
            self.set_timer(seconds, call)
        else:
            self.call_later(call)

    def _after_paint(self, call: Callable[[], None]) -> None:
        self.call_after_refresh(call)

    def _take(self) -> bool:
        """Take what was told; whether more waits."""
        end = monotonic() + DRAIN_S
        while monotonic() < end:
            try:
                self._newest, event = self._told.get_nowait()
            except Empty:
                return False
            before, self.state = self.state, reduce_race(self.state, event)
            if self.state.result is not before.result:
                self._over()
        return True

    def _over(self) -> None:
        """Nothing runs any more: the clock goes on until the slower one has finished, from memory too."""
        self._pump.timed = False
        self._replay.jump(self.state.speculative.seconds)
        self._replay.play()
        self.refresh_bindings()

    def _draw(self) -> None:
        if not self.is_attached:
            return
        state, seconds = self.state, self.seconds
        with self.app.batch_update():
            for side in sides(state, seconds):
                self.lane(side.arm).show(side, self._note(side.arm))
            self.query_one(RaceResult).show(state)
            self._say(headline(state, resting=self.resting))
        if not self.resting:
            self._pump.wake()

    def _note(self, arm: Arm) -> str:
        """Whether a side runs now, or is played."""
        if self.state.running == arm and self.state.arm(arm).finished is None:
            return "live"
        return "from memory" if self.state.arm(arm).finished is not None else ""

    def _say(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self.query_one("#headline", Static).update(Content(title))
