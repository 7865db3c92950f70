"""The one thread that owns the session, and so torch, the models and their caches.

Commands go in through a mailbox, events come out through a queue; neither side waits for the other. A gate
between two rounds lets a run pause, go on by one round, or end. The thread outlives a crash of the screen and
is a daemon, so that a hung pass cannot keep the program from ending.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from queue import Empty, SimpleQueue

from engine.config import Config
from engine.errors import Cancelled, EngineError, SpeculateError
from engine.events import EndReason, PlainRunProgress, PlainStep, PrefillProgress, Round, RunFinished
from engine.race import race
from engine.session import Session
from tui.engine_commands import (
    BETWEEN_ROUNDS,
    Ask,
    Change,
    Command,
    Eject,
    Generate,
    Load,
    Measure,
    Race,
    Record,
    Shutdown,
)
from tui.failures import write_log
from tui.state import Busy, Held, Idle, Loaded, PauseReached, Told

__all__ = ["Ask", "Change", "Eject", "EngineThread", "Generate", "Load", "Measure", "Mode", "Race", "Record"]


class Mode(Enum):
    """How far the gate is open."""

    RUN = auto()
    PAUSE = auto()
    STEP = auto()
    """So many rounds as were asked for, then PAUSE."""


class EngineThread:
    """Runs a session.

    Args:
        config: of the session; nothing is loaded before ``Load``.
        wake: called from the engine's thread when the first event after a ``drain`` is there.
        session_factory: what makes the session; a scripted one in tests.
    """

    def __init__(
        self,
        config: Config,
        wake: Callable[[], None] = lambda: None,
        session_factory: Callable[[Config], Session] = Session,
    ) -> None:
        self.wake = wake
        self._session = session_factory(config)
        self._events: SimpleQueue[Told] = SimpleQueue()
        self._awake = threading.Event()
        self._changed = threading.Condition()
        self._mail: deque[tuple[int, Command]] = deque()
        self._sent = 0  # number of the newest command
        self._number = 0  # of the one that is carried out
        self._called_off = 0  # commands up to this number are to end
        self._orders = 0  # given to the gate
        self._mode = Mode.RUN
        self._steps = 0  # rounds that were asked for and did not end yet
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # -- called from the screen's thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def send(self, command: Command) -> None:
        """Have a command carried out; they are taken in order."""
        with self._changed:
            self._put(command)

    def pause(self) -> None:
        """Stop before the next round; ``PauseReached`` tells when."""
        self._set(Mode.PAUSE)

    def resume(self) -> None:
        """Go on."""
        self._set(Mode.RUN)

    def step_round(self) -> None:
        """Go on by one round; asked for again before it ended, by one more."""
        with self._changed:
            self._steps = self._steps + 1 if self._mode is Mode.STEP else 1
            self._set(Mode.STEP)

    def cancel(self) -> None:
        """End the run, measurement or load in progress, paused or not, and those that were sent and did not
        begin yet; what a run has written is kept. Other commands are carried out all the same."""
        with self._changed:
            self._called_off = self._sent
            self._session.cancel()
            self._set(Mode.RUN)

    def drain(self) -> Iterator[Told]:
        """The events so far, oldest first; stop drawing whenever time is up."""
        self._awake.clear()  # before the queue is looked at, so that an event after the last look wakes again
        while True:
            try:
                yield self._events.get_nowait()
            except Empty:
                return

    @property
    def backlog(self) -> bool:
        """Whether events wait."""
        return not self._events.empty()

    def stop(self, timeout: float) -> bool:
        """Cancel, end the thread, wait for it; whether it ended in ``timeout`` seconds."""
        with self._changed:
            for _, command in self._mail:
                if isinstance(command, Record) and command.recorder is not None:
                    command.recorder.close()
            self._mail.clear()
            self._put(Shutdown())
        self.cancel()
        if self._thread.ident is None:
            self._session.close()
            return True
        self._thread.join(timeout)
        return not self.alive

    # -- the engine's thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._mail)
                self._number, command = self._mail.popleft()
            if isinstance(command, Shutdown):
                self._session.close()
                return
            self._say(Busy(type(command).__name__))
            try:
                self._do(command)
            except Cancelled:
                pass
            except SpeculateError as error:
                self._say(self._session.failure(error))
            except Exception as error:  # noqa: BLE001 - the boundary: the screen outlives every fault here
                self._say(self._session.failure(_unexpected(error)))
            self._say(Idle())

    def _do(self, command: Command) -> None:
        match command:
            case Load(config):
                self._use(config)
                with _models_change():
                    try:
                        self._session.load(self._say_unless_off)
                        self._say(Loaded())
                    finally:
                        self._say(Held(*self._session.held))
            case Eject():
                with _models_change():
                    self._session.eject()
                self._say(Held(*self._session.held))
            case Generate():
                self._generate(command)
            case Race():
                self._race(command)
            case Measure():
                self._measure(command)
            case Change(config):
                self._use(config)
            case Record(recorder):
                self._session.record(recorder)
            case Ask(function, reply):
                self._answer(function, reply)
            case Shutdown():
                raise AssertionError("Shutdown ends the loop before")

    def _use(self, config: Config) -> None:
        """Take settings over while no run is in progress; ``change`` takes the seed over."""
        self._session.change(config)
        self._session.config = config

    def _generate(self, command: Generate) -> None:
        reason = None
        for event in self._session.generate(command.messages, command.given, resumed=command.resumed):
            self._say_unless_off(event)
            if isinstance(event, RunFinished):
                reason = event.reason
            elif isinstance(event, PrefillProgress | PlainRunProgress):
                self._checkpoint(stepped=False, last=False)
            elif isinstance(event, Round | PlainStep):
                self._checkpoint(stepped=True, last=event.cut is not None)
        if self._off or reason is EndReason.CANCELLED or self._session.config.run.baseline == "off":
            return
        for event in self._session.baseline():
            self._say_unless_off(event)
            if self._mail:  # somebody wants something else: a measurement is no reason to wait
                self._session.cancel()

    def _race(self, command: Race) -> None:
        """Without checkpoints: what is done between two rounds would be done to one arm only."""
        for event in race(self._session, command.messages):
            command.tell(event)
            if self._off:
                self._session.cancel()

    def _measure(self, command: Measure) -> None:
        """Without checkpoints, as a race."""
        for event in command.work(self._session, lambda: self._off):
            command.tell(event)
            if self._off:
                self._session.cancel()

    def _checkpoint(self, *, stepped: bool, last: bool) -> None:
        """Between two rounds: carry out what may be done here, then wait while the gate is closed.

        Args:
            stepped: a round ended, so a step is done; reading the prompt is no step.
            last: the answer ended with it: there is no round to wait before.
        """
        told = -1  # the order that PauseReached was said for
        with self._changed:
            if stepped and self._mode is Mode.STEP:
                self._steps -= 1
                if not self._steps:
                    self._set(Mode.PAUSE)
        while True:
            with self._changed:
                orders = self._orders
                command = self._mail[0][1] if self._mail else None
                command = command if isinstance(command, BETWEEN_ROUNDS) else None
                if command is not None:
                    self._mail.popleft()
                elif self._mode is not Mode.PAUSE or last:
                    break
                elif told == orders:
                    self._changed.wait()
                    continue
            if command is None:
                told = orders
                self._say(PauseReached())
            elif isinstance(command, Change):
                try:
                    self._session.change(command.config)
                except SpeculateError as error:  # told, and the answer goes on with the settings it had
                    self._say(self._session.failure(error))
            elif isinstance(command, Ask):
                self._answer(command.function, command.reply)

    def _answer(self, function: Callable[[Session], object], reply: Callable[[object], None]) -> None:
        try:
            value: object = function(self._session)
        except SpeculateError as error:
            value = error
        except Exception as error:  # noqa: BLE001 - a question is no reason to end a run
            value = _unexpected(error)
        reply(value)

    def _say(self, event: Told) -> None:
        self._events.put(event)
        if not self._awake.is_set():
            self._awake.set()
            self.wake()

    @property
    def _off(self) -> bool:
        """Whether the work in progress is to end. The session forgets a cancel that came before it began."""
        return self._number <= self._called_off

    def _say_unless_off(self, event: Told) -> None:
        self._say(event)
        if self._off:
            self._session.cancel()

    def _put(self, command: Command) -> None:
        with self._changed:
            self._sent += 1
            self._mail.append((self._sent, command))
            self._changed.notify_all()

    def _set(self, mode: Mode) -> None:
        with self._changed:
            self._mode = mode
            self._orders += 1
            self._changed.notify_all()


@contextmanager
def _models_change() -> Iterator[None]:
    """While models come and go, Python's collector looks at everything; afterwards only at what is new.

    A full collection walks over the objects of torch, transformers and Textual, a third of a second in which
    nothing else runs, and there was one in each answer.
    """
    gc.unfreeze()
    try:
        yield
    finally:
        gc.collect()  # a model that went may be part of a cycle
        gc.freeze()


def _unexpected(error: Exception) -> EngineError:
    """A fault of this program, for the user; its traceback goes to a file."""
    return EngineError(
        f"internal error: {type(error).__name__}: {error}", f"The details are in {write_log(error)}."
    )
