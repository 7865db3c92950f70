"""What the app knows, as one immutable value, and what can happen to it. ``tui.state`` has the changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.context import Message
from engine.events import (
    BaselineFinished,
    Event,
    Failed,
    ModelInfo,
    Notice,
    Origin,
    Round,
    RunFinished,
    SegmentStarted,
    Settings,
)
from engine.measures import Measures
from engine.run_fold import NO_RUN, RunFold
from engine.thinking import Thinking
from tui.trail import Trail


class Phase(StrEnum):
    """What is going on."""

    EMPTY = "empty"
    """No model is loaded."""
    LOADING = "loading"
    READY = "ready"
    PREFILL = "prefill"
    """The prompt is being read."""
    PLAIN_RUN = "plain run"
    """Plain decoding writes the answer that a synthetic drafter is to know."""
    RUNNING = "running"
    PAUSED = "paused"
    BASELINE = "baseline"
    """Plain decoding is being timed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OutputToken:
    """A token of the answer."""

    id: int
    piece: bytes
    origin: Origin
    round: int
    """Index into ``ViewState.rounds``; -1 where no round made it (plain decoding, given tokens)."""
    slot: int
    """Place in its round; elsewhere the place in the answer."""


@dataclass(frozen=True, slots=True)
class LoadView:
    """A model on its way into memory."""

    role: str
    name: str
    stage: str
    """"" until the first progress; then "download", "hash", "convert", "read", "quantize" or "optimize"."""
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class BaselineView:
    """The measurement of plain decoding for this run."""

    done: int
    total: int
    finished: BaselineFinished | None


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything the panes show. A slice that did not change stays the same object."""

    phase: Phase = Phase.EMPTY
    replay: bool = False
    busy: str | None = None
    """Name of the command the engine works on; None while it waits for one, and in a replay."""
    running: bool = False
    """An answer is on its way, at a pause too."""
    pausing: bool = False
    """A pause was asked for and not reached yet."""

    load: LoadView | None = None
    """The one that made progress last."""
    loads: tuple[LoadView, ...] = ()
    """All that are still on their way."""
    target: ModelInfo | None = None
    drafter: ModelInfo | None = None
    notices: Trail[Notice] = field(default_factory=Trail)
    failure: Failed | None = None

    fold: RunFold = NO_RUN
    """Counts and measures of the run."""
    author: ModelInfo | None = None
    """The target that writes the answer; another one's ids would mean something else."""
    mode: str = "speculative"
    """"speculative" or "plain"."""
    max_new_tokens: int = 0
    max_rounds: int | None = None
    prompt: tuple[int, ...] = ()
    prompt_pieces: tuple[bytes, ...] = ()
    messages: tuple[Message, ...] = ()
    """What is answered, where the engine says so."""
    reused: int = 0
    """Leading prompt tokens that the cache still held."""
    prefill_done: int = 0
    prefill_total: int = 0

    settings: Settings | None = None
    segments: Trail[SegmentStarted] = field(default_factory=Trail)
    """Those of the run."""

    rounds: Trail[Round] = field(default_factory=Trail)
    output: Trail[OutputToken] = field(default_factory=Trail)
    text: Trail[str] = field(default_factory=Trail)
    """Joined, the text of the answer, as the model wrote it (not made safe). One chunk for the given tokens
    if there are any, one for each round or plain step, one for the tail if there is one."""
    baseline: BaselineView | None = None
    reference: BaselineFinished | None = None
    """The last plain decoding that was measured to its end with this target: what the measures compare with.
    It is an earlier run's until this run has its own."""
    reference_run: int = 0
    finished: RunFinished | None = None

    revealed: int | None = None
    """Revealed steps of the newest round; None: everything is shown. See ``tui.reveal``."""
    awaiting: bool = False
    """The next token was asked for and all are shown: the next round arrives hidden."""

    @property
    def run(self) -> int:
        """Number of the run; 0 before the first."""
        return self.fold.run

    @property
    def given(self) -> int:
        """Leading tokens of ``output`` that were kept or chosen, not generated."""
        return self.fold.given

    @property
    def settings_id(self) -> int:
        return self.fold.settings_id

    @property
    def segment_start(self) -> int:
        """Index of the segment's first round."""
        return self.fold.segment_start

    @property
    def prefill_ms(self) -> float | None:
        return self.fold.prefill_ms

    @property
    def segment(self) -> Measures:
        """Measures since the settings last changed."""
        return self.fold.segment

    @property
    def total(self) -> Measures:
        """Measures of the run."""
        return self.fold.total

    @property
    def thinking(self) -> Thinking:
        return self.fold.thinking


@dataclass(frozen=True, slots=True)
class Busy:
    """The engine's thread begins a command."""

    command: str


@dataclass(frozen=True, slots=True)
class Idle:
    """The engine's thread waits for a command."""


@dataclass(frozen=True, slots=True)
class PauseReached:
    """The engine stands still at a checkpoint."""


@dataclass(frozen=True, slots=True)
class Held:
    """Which models are in memory now; loads tell of what they change only."""

    target: ModelInfo | None
    drafter: ModelInfo | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The load that is ending worked."""


@dataclass(frozen=True, slots=True)
class Jumped:
    """A replay went to another place."""

    state: ViewState
    """The state there."""
    paused: bool = False
    """The replay stands still."""
    revealed: int | None = None
    """Steps of the newest round that are shown; None: all."""


Told = Event | Busy | Idle | PauseReached | Held | Loaded | Jumped
"""What a source tells."""


@dataclass(frozen=True, slots=True)
class RevealNext:
    """Show the newest round's next step; with everything shown, hide the round that comes next."""


@dataclass(frozen=True, slots=True)
class RevealTo:
    """Show the newest round up to this step, from 1."""

    steps: int


@dataclass(frozen=True, slots=True)
class RevealAll:
    """Show everything, and whatever comes."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The user paused. A live engine reaches the pause later, and says so."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The user went on."""


@dataclass(frozen=True, slots=True)
class FailureSeen:
    """The user read the failure."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Forget the run; the models stay."""


UiAction = RevealNext | RevealTo | RevealAll | Paused | Resumed | FailureSeen | Reset
