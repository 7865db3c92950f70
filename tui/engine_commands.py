"""What the engine's thread can be told to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.config import Config
from engine.context import Message
from engine.race import RaceEvent
from engine.recording import Recorder
from engine.session import Session


@dataclass(frozen=True, slots=True)
class Load:
    """Load what the configuration names; models that it names and that are held are kept."""

    config: Config


@dataclass(frozen=True, slots=True)
class Eject:
    """Free all models."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Answer the messages, then time plain decoding if the configuration says so."""

    messages: tuple[Message, ...]
    given: tuple[int, ...] = ()
    """Ids the answer starts with."""
    resumed: bool = False
    """It is the last run that goes on, with other models; ``given`` is all it has written."""


@dataclass(frozen=True, slots=True)
class Race:
    """Answer the messages plainly, then speculatively, each way alone and timed.

    No other command is carried out before it is over, and it does not pause: either would spoil its clock.
    """

    messages: tuple[Message, ...]
    tell: Callable[[RaceEvent], None]
    """Called on the engine's thread with what happens."""


CalledOff = Callable[[], bool]
"""Says whether what is done now is to end."""
Work = Callable[[Session, CalledOff], Iterator[object]]
"""A measurement: what it tells, while it runs."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Run a measurement, alone as a race is: no command comes between, and it does not pause."""

    work: Work
    """Called on the engine's thread."""
    tell: Callable[[object], None]
    """Called there with what the work tells."""


@dataclass(frozen=True, slots=True)
class Change:
    """Decode the next rounds with these settings."""

    config: Config


@dataclass(frozen=True, slots=True)
class Record:
    """Record from the next run on, or stop recording."""

    recorder: Recorder | None


@dataclass(frozen=True, slots=True)
class Ask:
    """Run a function on the engine's thread; ``reply`` is called there with what it returns or raises."""

    function: Callable[[Session], object]
    reply: Callable[[object], None]


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the thread."""


Command = Load | Eject | Generate | Race | Measure | Change | Record | Ask | Shutdown

BETWEEN_ROUNDS = (Change, Ask)
"""Commands that a run in progress carries out at its next checkpoint; the others wait for its end. In a race
and in a measurement all wait."""
