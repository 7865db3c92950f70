"""A real model under the app: how much it slows the engine, how fast keys answer, what rest costs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import selectors
import struct
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, thread_time

from engine.config import Config, load_config
from engine.context import Message, preset_context
from engine.errors import DoesNotFit, EngineError
from engine.events import Alternative, Event, Failed, Round
from engine.session import Session
from tui.bench.played import PRESET, Played, Script, play, quiet, until
from tui.engine_thread import EngineThread, Generate, Load

WARM_UP_TOKENS = 16
ROUNDS_FOR_KEYS = 24
SETTLE_S = 1.0
_LONG = 4000
"""Tokens; longer than the keys take."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    folder: str
    blocks: int
    """Times A B B A."""
    tokens: int
    """Of one run."""
    keys: bool
    rest_s: float
    """For each screen; 0: none."""
    screens: Sequence[str] = ()
    """Which ones; empty: all."""
    model: str = ""
    """Another target than the preset's."""
    question: str = ""
    """Another one than the preset's conversation."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is answered."""
        return (Message("user", self.question),) if self.question else preset_context(PRESET)


class Kept(Session):
    """A session that keeps its models when the app that used it ends, and notes when its rounds came."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.ended = threading.Event()
        self.came: list[tuple[int, int]] = []
        """Nanoseconds and tokens of each round of the last run."""

    def generate(
        self, messages: Sequence[Message], given: Sequence[int] = (), *, resumed: bool = False
    ) -> Iterator[Event]:
        """As it does, with a note of every round."""
        self.came = []
        for event in super().generate(messages, given, resumed=resumed):
            if isinstance(event, Round):
                self.came.append((event.t_ns, len(event.tokens)))
            yield event
        self.ended.set()

    def close(self) -> None:
        """Nothing: there is another app to come."""

    @property
    def rate(self) -> float:
        """Tokens a second of wall time, from the first round's end to the last one's."""
        (first, _), (last, _) = self.came[0], self.came[-1]
        return 1e9 * sum(tokens for _, tokens in self.came[1:]) / (last - first)


class Live:
    """One process that does all of it with one loaded model."""

    def __init__(self, tell: Callable[[dict[str, object]], None], plan: Plan) -> None:
        self.tell = tell
        self.plan = plan
        self.session = Kept(self._config(WARM_UP_TOKENS))

    def _config(self, tokens: int) -> Config:
        model = [f"verify.model_name={self.plan.model}"] if self.plan.model else []
        fixed = ["run.ignore_eos=true", "run.baseline=off", "sampling.seed=1"]
        return load_config(PRESET, [*fixed, *model, f"run.max_new_tokens={tokens}"])

    def run(self) -> None:
        """Everything, in order."""
        quiet()
        plan = self.plan
        if plan.blocks:
            self.headless(WARM_UP_TOKENS)
            self.with_app(WARM_UP_TOKENS)
        for _ in range(plan.blocks):
            for arm in (self.with_app, self.headless, self.headless, self.with_app):
                self.tell(arm(plan.tokens))
        if plan.keys:
            self._play(self._generating, _LONG)
            self.tell({"keys": "over"})
        if plan.rest_s:
            self.tell({"floor": waiting_share(plan.rest_s)})
            self._play(self._resting, WARM_UP_TOKENS * 4)

    def _play(self, script: Script, tokens: int) -> None:
        folder, plan = Path(self.plan.folder), self.plan
        play(script, self._config(tokens), folder, lambda _: self.session, messages=plan.messages)

    # -- speed

    def with_app(self, tokens: int) -> dict[str, object]:
        """One answer with the app open, and what the app did meanwhile."""
        fact: dict[str, object] = {"arm": "app"}

        async def script(app: Played) -> None:
            await self._begin(app)
            began, spent, frames = perf_counter(), thread_time(), app.pump.frames
            await until(self.session.ended.is_set)
            wall = perf_counter() - began
            fact["screen_share"] = (thread_time() - spent) / wall
            fact["frames_per_s"] = (app.pump.frames - frames) / wall
            fact["frame_ms"] = 1e3 * app.pump.cost
            await asyncio.sleep(0.3)
            app.exit()

        self._play(script, tokens)
        return {**fact, "rate": self.session.rate}

    def headless(self, tokens: int) -> dict[str, object]:
        """The same answer by the same thread, with nobody who looks."""
        self.session.ended.clear()
        engine = EngineThread(self._config(tokens), session_factory=lambda _: self.session)
        engine.start()
        engine.send(Load(self._config(tokens)))
        engine.send(Generate(self.plan.messages))
        while not self.session.ended.wait(1.0):
            for event in engine.drain():
                if isinstance(event, Failed):
                    raise EngineError(event.message, event.hint)
        assert engine.stop(60), "the engine did not end"
        return {"arm": "headless", "rate": self.session.rate}

    async def _begin(self, app: Played) -> None:
        await until(lambda: app.lab.loaded and not app.lab.loading and app.lab.state.busy is None)
        self.session.ended.clear()
        app.lab.start()
        await until(lambda: self.session.came or self.session.ended.is_set())

    # -- keys

    async def _generating(self, app: Played) -> None:
        """Generate, with the focus on the rounds, until the user quits."""
        await self._begin(app)
        await until(lambda: self.session.ended.is_set() or len(app.lab.state.rounds) >= ROUNDS_FOR_KEYS)
        app.live.go_to("rounds")
        await asyncio.sleep(SETTLE_S)
        self.tell({"keys": "ready"})

    # -- rest

    async def _resting(self, app: Played) -> None:
        await self._begin(app)
        await until(lambda: self.session.ended.is_set() and app.lab.state.busy is None)
        wanted = self.plan.screens or SCREENS
        for name in wanted:
            SCREENS[name](app)
            await asyncio.sleep(SETTLE_S)
            began, spent = perf_counter(), process_time()
            await asyncio.sleep(self.plan.rest_s)
            share = (process_time() - spent) / (perf_counter() - began)
            top = type(app.screen).__name__
            self.tell({"screen": name, "top": top, "share": share})
            while len(app.screen_stack) > 1:
                app.pop_screen()
            await asyncio.sleep(0.2)
        app.exit()


def waiting_share(seconds: float) -> float:
    """Share of a core that a bare loop takes which waits ten times a second for input, as Textual's does."""
    reading, writing = os.pipe()
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        began, spent = perf_counter(), process_time()
        while perf_counter() - began < seconds:
            selector.select(0.1)
        share = (process_time() - spent) / (perf_counter() - began)
    os.close(reading)
    os.close(writing)
    return share


def _sized(columns: int, rows: int, pane: str) -> Callable[[Played], None]:
    def show(app: Played) -> None:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        app.live.go_to(pane)

    return show


def _editor(app: Played) -> None:
    from tui.screens.editor import EditorModal

    app.push_screen(EditorModal(Message("user", "A text.\n" * 40), "Edit"))


def _error(app: Played) -> None:
    app.show_error(DoesNotFit("it does not fit", hint="take a smaller one"))


def _alternatives(app: Played) -> None:
    from tui.screens.branch import AlternativesModal

    entries = [Alternative(number, b" word", 0.2) for number in range(4)]
    app.push_screen(AlternativesModal(entries, 0, "here"))


SCREENS: dict[str, Callable[[Played], None]] = {
    "live": lambda app: app.live.go_to("output"),
    "live, writing": lambda app: app.live.go_to("write"),
    "live, prompt": lambda app: app.live.go_to("prompt"),
    "settings": lambda app: app.action_settings_open(),
    "models": lambda app: app.action_models_pick(),
    "conversations": lambda app: app.action_talk_list(),
    "help": lambda app: app.action_app_help(),
    "jump": lambda app: app.action_view_jump(),
    "palette": lambda app: app.action_command_palette(),
    "editor": _editor,
    "error": _error,
    "question": lambda app: app.action_change_drafter(),
    "text question": lambda app: app.action_change_temperature(),
    "alternatives": _alternatives,
    "live, 80 columns": _sized(80, 24, "output"),
    "live, 60 columns": _sized(60, 20, "context"),
}
"""How each screen is brought up."""
