"""A session without an engine: it tells a script, event by event, as the real one would.

For tests of what only listens to a session: the command line, the app, recordings::

    session = ScriptedSession(config, script=Script(rounds=(make_round(1, 3, 2), make_round(2, 3, 3))))
    session.load(print)
    events = [*session.generate(messages), *session.baseline()]

``cancel()`` may come from a signal handler or another thread, also while the script pauses between rounds.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from support.scripted_plain import PlainScript

from engine.config import Config
from engine.config_tables import AUTO
from engine.context import Message, messages_to
from engine.costs import Costs
from engine.errors import DiskError, SpeculateError
from engine.events import (
    Alternative,
    BaselineFinished,
    BaselineProgress,
    BaselineStarted,
    Calibrated,
    DraftToken,
    EndReason,
    Event,
    Failed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelInfo,
    Notice,
    Origin,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
    TargetToken,
    Verdict,
)
from engine.recording import Recorder
from engine.stats import Statistics

TARGET = ModelInfo(
    name="scripted:target",
    architecture="LlamaForCausalLM",
    revision=None,
    sha256="0" * 64,
    parameters=134_515_008,
    weight_bytes=538_060_032,
    layers=30,
    vocab_size=49_152,
    context_length=2048,
    dtype="float32",
    device="cpu",
    licence="apache-2.0",
)
SEED = 7


def make_round(
    number: int,
    k: int,
    n_accepted: int,
    *,
    pieces: Sequence[bytes] | None = None,
    text: str | None = None,
    cut: EndReason | None = None,
    keep: int | None = None,
    host_ms: float = 1.5,
) -> Round:
    """A round that agrees with itself: K = ``k`` drafts of which ``n_accepted`` pass.

    ``pieces`` are those of the K drafts and the target's token, in this order (default: numbered words).
    ``keep`` cuts the committed tokens. ``text`` defaults to that of the committed pieces.
    """
    assert 0 <= n_accepted <= k == len(pieces or [b""] * (k + 1)) - 1, "K + 1 pieces are needed"
    shown = list(pieces) if pieces is not None else [f" w{number}.{index}".encode() for index in range(k + 1)]
    ids = [number * 100 + index for index in range(k + 1)]
    verdicts = [Verdict.ACCEPTED] * n_accepted + [Verdict.REJECTED] + [Verdict.IGNORED] * k
    drafts = tuple(
        DraftToken(ids[i], shown[i], 0.5, 0.4, 0.25, verdicts[i], (Alternative(ids[i], shown[i], 0.5),))
        for i in range(k)
    )
    full = n_accepted == k
    target = TargetToken(
        ids[k], shown[k], Origin.BONUS if full else Origin.CORRECTION, 0.75, None if full else 0.125
    )
    committed = [*range(n_accepted), k][:keep]
    if text is None:
        text = b"".join(shown[index] for index in committed).decode("utf-8", "replace")
    return Round(
        seq=number,
        t_ns=number * 1000,
        number=number,
        settings_id=1,
        context_length=10 * number,
        k=k,
        k_reason="fixed",
        drafts=drafts,
        p_top=tuple((Alternative(ids[i], shown[i], 0.75),) for i in range(n_accepted + 1)),
        n_accepted=n_accepted,
        target=target,
        tokens=tuple(ids[index] for index in committed),
        text=text,
        cut=cut,
        taken_back=0,
        draft_ms=2.25,
        verify_ms=40.125,
        host_ms=host_ms,
    )


@dataclass(frozen=True)
class Script:
    """What a ScriptedSession tells."""

    rounds: tuple[Round, ...] = (make_round(1, 3, 3), make_round(2, 3, 1), make_round(3, 3, 0))
    tail: str = ""
    """Text still held back when the run ends."""
    reason: EndReason = EndReason.ROUNDS
    """Why the run ends, if it is not cancelled."""
    target: ModelInfo = TARGET
    drafter: ModelInfo | None = None
    identical: bool | None = None
    first_difference: int | None = None
    costs: Costs | None = None
    """Measured before the rounds."""
    notices: tuple[Notice, ...] = ()
    """Told after the load."""
    load_error: BaseException | None = None
    """Raised in the load."""
    run_error: BaseException | None = None
    """Raised after the rounds."""
    pause_s: float = 0.0
    """Between two rounds; ``cancel`` ends it."""
    stubborn_s: float = 0.0
    """Between two rounds; ``cancel`` does not end it, as in a long pass."""
    load_s: float = 0.0
    """How long a load takes."""


class ScriptedSession(PlainScript):
    """Has the interface of ``engine.session.Session`` and no engine."""

    def __init__(
        self, config: Config, recorder: Recorder | None = None, *, script: Script | None = None
    ) -> None:
        self.config = config
        self.script = script or Script()
        self.closed = False
        self.loaded = False
        self.given: tuple[int, ...] = ()
        self.changed: list[Config] = []
        self.messages: tuple[Message, ...] = ()
        self._recorder = recorder
        self._cancelled = threading.Event()
        self._statistics = Statistics()
        self._seq = 0
        self._start = time.monotonic_ns()
        self._runs = 0
        self._segment = 0

    @property
    def held(self) -> tuple[ModelInfo | None, ModelInfo | None]:
        """Target and drafter model that are in memory."""
        return (self.script.target, self.script.drafter) if self.loaded else (None, None)

    def load(self, tell: Callable[[Event], None] = lambda event: None) -> None:
        """Tell of loading the models; nothing of it is recorded."""
        models = [("target", self.script.target)]
        if self.script.drafter is not None:
            models.append(("drafter", self.script.drafter))
        for role, info in models:
            tell(self._stamped(LoadStarted(0, 0, role, info.name)))
            time.sleep(self.script.load_s)
            if self.script.load_error is not None:
                raise self.script.load_error
            for done in (0, info.weight_bytes // 2, info.weight_bytes):
                tell(self._stamped(LoadProgress(0, 0, role, "read", done, info.weight_bytes)))
            tell(self._stamped(LoadFinished(0, 0, role, info, 12.5)))
        self.loaded = True
        for notice in self.script.notices:
            tell(self._stamped(notice))

    def header(self) -> dict[str, object]:
        """What a recording says of the session."""
        machine = {"threads": 2, "device": self.script.target.device, "dtype": self.script.target.dtype}
        config = self.config.model_dump(mode="json")
        return {"versions": {}, "machine": machine, "seed": SEED, "config": config}

    def generate(
        self, messages: Sequence[Message], given: Sequence[int] = (), *, resumed: bool = False
    ) -> Iterator[Event]:
        """Tell the rounds, up to the limits of the configuration."""
        self.messages = tuple(messages)
        self.given = tuple(given)
        applied = len(self.changed)
        self._cancelled.clear()
        if not resumed:
            self._runs += 1
            self._statistics = Statistics()
        self._segment = self._segment + 1 if resumed else 1
        header = {**self.header(), "context": messages_to(messages)}

        def begin(recorder: Recorder) -> None:
            if not recorder.has_header:
                recorder.write_header(header)

        yield from self._record(begin)
        max_new_tokens, max_rounds = self.config.resolved_limits()
        yield from self._tell(
            RunStarted(
                *(0, 0, self._runs, "speculative", (1, 2, 3), (b"a", b"b", b"c"), 0, max_new_tokens or 2000),
                max_rounds=max_rounds,
                stop=self.config.run.stop,
                given=self.given,
                given_pieces=tuple(b"<%d>" % id_ for id_ in self.given),
                given_text="".join(f"<{id_}>" for id_ in self.given),
                resumed=resumed,
            )
        )
        yield from self._tell(SegmentStarted(0, 0, self._segment, self._settings()))
        yield from self._tell(PrefillProgress(0, 0, 2, 2))
        yield from self._tell(PrefillFinished(0, 0, 5.0))
        if self.script.costs is not None:
            self._statistics.set_costs(self.script.costs)
            yield from self._tell(Calibrated(0, 0, self._segment, self.script.costs, "start"))
        told = 0
        for round_ in self.script.rounds[:max_rounds]:
            if told:
                self._cancelled.wait(self.script.pause_s)
                time.sleep(self.script.stubborn_s)
            if self._cancelled.is_set():
                break
            if len(self.changed) > applied:
                applied = len(self.changed)
                self.config = self.changed[-1]
                self._segment += 1
                yield from self._tell(SegmentStarted(0, 0, self._segment, self._settings()))
            self._statistics.add(round_)
            told += 1
            yield from self._tell(round_)
        if self.script.run_error is not None:
            raise self.script.run_error
        reason = EndReason.CANCELLED if self._cancelled.is_set() else self.script.reason
        stats = self._statistics
        finished = RunFinished(
            *(0, 0, reason, self.script.tail, stats.tokens, 5.0),
            ttft_ms=48.0 if told else None,
            decode_ms=stats.decode_ms,
        )
        stats.set_run(finished)
        yield from self._tell(finished)

    def baseline(self) -> Iterator[Event]:
        """Tell of plain decoding, 25 ms a token."""
        total = self._statistics.tokens
        yield from self._tell(BaselineStarted(0, 0, total))
        yield from self._tell(BaselineProgress(0, 0, total // 2, total))
        self._cancelled.wait(self.script.pause_s)
        finished = BaselineFinished(
            *(0, 0, total, tuple(range(total)), 25.0 * total, 5.0),
            identical=self.script.identical,
            first_difference=self.script.first_difference,
            complete=not self._cancelled.is_set(),
        )
        self._statistics.set_baseline(finished)
        yield from self._tell(finished)

    def change(self, config: Config) -> None:
        """Use other settings from the next round on."""
        self.changed.append(config)

    def prompt_tokens(self, messages: Sequence[Message]) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        """One token a word."""
        text = " ".join(f"{message.role} {message.content}" for message in messages)
        words = tuple(word.encode() for word in text.split())
        return tuple(range(len(words))), words

    def encode(self, text: str) -> tuple[int, ...]:
        """One token a word."""
        return tuple(len(word) for word in text.split())

    def record(self, recorder: Recorder | None) -> None:
        """Record from the next run on, or stop."""
        if self._recorder is not None:
            self._recorder.close()
        self._recorder = recorder

    def eject(self) -> None:
        """Free the models."""
        self.loaded = False

    def failure(self, error: SpeculateError) -> Failed:
        """The event that tells of an error."""
        failed = self._stamped(Failed(0, 0, type(error).__name__, error.message, error.hint))
        assert isinstance(failed, Failed)
        return failed

    def statistics(self) -> dict[str, object]:
        """The measures of the last run."""
        return self._statistics.as_dict()

    def cancel(self) -> None:
        """End the run at the next round."""
        self._cancelled.set()

    def close(self) -> None:
        """End the recording."""
        self.closed = True
        if self._recorder is not None:
            self._recorder.close()

    def _settings(self) -> Settings:
        config = self.config
        seed = config.sampling.seed
        return Settings(
            drafter=config.draft.method,
            sample_strategy=config.draft.sample_strategy,
            num_draft_tokens=config.draft.most_drafts,
            adaptive=config.draft.num_draft_tokens == AUTO,
            verify_strategy=config.verify.verify_strategy,
            temperature=config.sampling.temperature or 0.0,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            repetition_penalty=1.0,
            seed=SEED if seed is None else seed,
        )

    def _stamped(self, event: Event) -> Event:
        self._seq += 1
        return dataclasses.replace(event, seq=self._seq, t_ns=time.monotonic_ns() - self._start)

    def _tell(self, event: Event) -> Iterator[Event]:
        """Stamp, record and yield; a recording that fails is told, and the run goes on without it."""
        event = self._stamped(event)
        failure = [*self._record(lambda recorder: recorder.write(event))]
        yield event
        yield from failure

    def _record(self, write: Callable[[Recorder], object]) -> Iterator[Event]:
        if self._recorder is None or self._recorder.closed:
            return
        try:
            write(self._recorder)
        except DiskError as error:
            yield self._stamped(Notice(0, 0, "recording_stopped", f"the recording ends here: {error}"))


class Scripted:
    """A factory of scripted sessions, for ``tui.cli.main(argv, session_factory=Scripted())``."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.made: list[ScriptedSession] = []

    def __call__(self, config: Config, recorder: Recorder | None = None) -> ScriptedSession:
        session = ScriptedSession(config, recorder, script=self.script)
        self.made.append(session)
        return session
