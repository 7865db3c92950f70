"""A recording repeated with its models, in two ways.

Teacher-forced, each round is run again from the recorded tokens before it, with the same draws, so that one
difference does not hide what follows. Freely, each run is written once more from its prompt and seed. A
difference is an exact tie, within rounding (the margin is told), or a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.context import messages_from
from engine.errors import RecordingError, UserError
from engine.events import Event, Round, RunStarted, SegmentStarted, Settings
from engine.models.optimize import Optimize
from engine.pair import Pair, map_torch_errors
from engine.recheck_compare import difference, drift, same_ids, same_numbers
from engine.recheck_finding import Finding, Grade
from engine.recheck_free import FreeRun, repeat_freely
from engine.recheck_possible import check_possible
from engine.recheck_repeat import Repeater, answer_after, fits_drafter, foretell, is_known, tolerance_of
from engine.recheck_runs import Loaded, needs_earlier_runs, recorded_runs, written_ids
from engine.recorded_config import recorded_config

if TYPE_CHECKING:
    from engine.answer import Answer
    from engine.session import Session

_WAYS: tuple[Optimize, ...] = ("eager", "static", "compile")


@dataclass(slots=True)
class Repeated:
    """What the repetition came to."""

    rounds: int = 0
    identical: int = 0
    """Rounds that came out the same in every id and in every bit of p, q, u and h."""
    same_tokens: int = 0
    """Rounds that drafted, accepted and committed the same ids."""
    left_out: int = 0
    """Rounds of models or drafters that the recording's configuration does not name."""
    unknown: int = 0
    """Rounds of a drafter that knew more than the recording says: earlier answers, or a plain run."""
    drift: float = 0.0
    """Largest difference of a probability, between rounds of the same ids."""
    first_difference: tuple[int, int] | None = None
    """Run and round that came out otherwise first."""
    same_prompt: bool | None = None
    """Whether the messages in the header give the recorded prompt; None if there are none."""
    free: list[FreeRun] = field(default_factory=list)
    """Each run written once more."""


class ModelRecheck:
    """Repeats the speculative runs of a recording.

    Args:
        header: of the recording; says what to load.
        make_session: builds a session from a configuration.
    """

    def __init__(self, header: dict[str, Any], make_session: Callable[[Config], Session]) -> None:
        self.result = Repeated()
        self._header = header
        self._session = make_session(_config_of(header))
        self._session.ways = _ways(header)

    def load(self, tell: Callable[[Event], None] = lambda _: None) -> None:
        """Load the models, and check that they are the recorded ones.

        Raises:
            RecordingError: the weights are not those of the recording.
            UserError, ResourceError: as ``Session.load``.
        """
        self._session.load(tell)
        for role, model in zip(("target", "drafter"), self._session.held, strict=True):
            recorded = self._header.get(role)
            wanted = recorded.get("sha256") if isinstance(recorded, dict) else None
            if wanted is not None and model is not None and model.sha256 != wanted:
                raise RecordingError(
                    f"the {role} {model.name} has other weights than the recording's",
                    f"Recorded: sha256 {wanted}; here: {model.sha256}.",
                )

    def close(self) -> None:
        """Free the models."""
        self._session.close()

    def run(self, events: Sequence[Event]) -> Iterator[Finding]:
        """Repeat everything; gives what is not as it was recorded. To be consumed to its end.

        Raises RecordingError for a recording whose ids or settings these models cannot have written.
        """
        target = self._session.pair.target
        check_possible(events, target.vocab_size, target.context_length)
        with map_torch_errors():
            yield from self._forced(events)
            self._session.forget()  # a drafter that copies from earlier answers knows this recording's now
            yield from self._free(events)

    def _loaded(self) -> Loaded:
        return Loaded(dict(zip(("target", "drafter"), self._session.held, strict=True)))

    def _forced(self, events: Sequence[Event]) -> Iterator[Finding]:
        repeater: _ForcedRun | None = None
        loaded = self._loaded()
        answers = written_ids(events)
        for event in events:
            loaded.add(event)
            if isinstance(event, RunStarted):
                if event.resumed and repeater is not None:
                    repeater.resumed(event)
                    continue
                ids = next(answers)
                if event.mode == "speculative":
                    repeater = _ForcedRun(self._session.pair, event, ids, self.result, self._eos_ids(event))
            elif repeater is None:
                continue
            elif isinstance(event, SegmentStarted):
                fits = loaded.fits and self._guesses(event.settings)
                repeater.segment(event.settings_id, event.settings, fits=fits)
            elif isinstance(event, Round):
                yield from repeater.round(event)

    def _free(self, events: Sequence[Event]) -> Iterator[Finding]:
        pair = self._session.pair
        runs = recorded_runs(events, self._guesses, self._loaded())
        if runs:
            self.result.same_prompt = self._same_prompt(runs[0].started)
        for run in runs:
            result, found = repeat_freely(pair, run, self._eos_ids(run.started))
            self.result.free.append(result)
            if found is not None:
                yield found

    def _guesses(self, settings: Settings) -> bool:
        """Whether the drafter that is loaded guesses as the settings say."""
        return fits_drafter(self._session.pair, self._session.config.draft.method, settings)

    def _same_prompt(self, started: RunStarted) -> bool | None:
        """Whether the header's messages, which are those of its first run, give that run's prompt."""
        context = self._header.get("context")
        if not context:
            return None
        try:
            prompt, _ = self._session.prompt_tokens(messages_from(context, "the recording"))
        except UserError:
            return False
        return prompt == started.prompt

    def _eos_ids(self, started: RunStarted) -> frozenset[int]:
        ignored = self._session.config.run.ignore_eos if started.ignore_eos is None else started.ignore_eos
        return frozenset() if ignored else self._session.pair.target.eos_ids


def _config_of(header: dict[str, Any]) -> Config:
    """What to repeat a recording with. Raises RecordingError where its header does not say."""
    config = recorded_config(header)
    if config is None:
        raise RecordingError(
            "the recording names no configuration that this version can use",
            "Check it without models.",
        )
    machine = header.get("machine")
    recorded = {key: machine[key] for key in ("dtype", "threads") if key in machine} if machine else {}
    return config.model_copy(update={"run": config.run.model_copy(update=recorded)})


def _ways(header: dict[str, Any]) -> dict[str, Optimize]:
    """How the passes of each model ran, as another way rounds otherwise; "auto" may take one for the target
    and another for the drafter. Raises RecordingError for one that this version does not know."""
    ways: dict[str, Optimize] = {}
    for role in ("target", "drafter"):
        model = header.get(role)
        if isinstance(model, dict):
            passes = model.get("passes", "eager")  # a recording that does not say it knew no other way
            if passes not in _WAYS:
                raise RecordingError(
                    f"the {role}'s passes ran as {passes!r}, which this version does not know",
                    f"It knows: {', '.join(_WAYS)}.",
                )
            ways[role] = passes
    return ways


class _ForcedRun:
    """One run, repeated round by round."""

    def __init__(
        self,
        pair: Pair,
        started: RunStarted,
        ids: list[int],
        result: Repeated,
        eos_ids: frozenset[int],
    ) -> None:
        self._pair = pair
        self._eos_ids = eos_ids
        self._started = started
        self._run = started.run
        self._result = result
        self._answer: Answer | None = None
        self._held: list[int] = []
        self._ids: list[int] = []
        self._repeater: Repeater | None = None
        self._tolerance = tolerance_of(pair)
        self._length = len(started.prompt) + len(started.given) + len(ids)
        pair.forget()
        foretell(pair, started.prompt, (*started.given, *ids))

    def resumed(self, event: RunStarted) -> None:
        """It goes on with other models; only rounds of the first ones can be repeated."""
        self._started = event
        self._answer = None

    def segment(self, number: int, settings: Settings, *, fits: bool) -> None:
        """Other settings from here on; ``fits``: they are those of the models that are loaded."""
        self._fits, self._needs_more = fits, needs_earlier_runs(self._run, settings)
        self._repeater = Repeater(self._pair, settings, number) if fits and not self._needs_more else None

    def round(self, recorded: Round) -> Iterator[Finding]:
        """One round again; then the recorded tokens, whatever came out."""
        if self._repeater is None or not is_known(self._pair, recorded, self._length):
            self._result.left_out += not self._fits
            self._result.unknown += self._fits
            self._answer = None
        else:
            answer = self._at_the_recorded_place()
            again = self._repeater.round(answer, recorded.number, recorded.k)
            self._held = list(answer.tokens[: len(self._pair.cache)])
            yield from self._compare(self._repeater, recorded, again)
            if again.cut or again.tokens != recorded.tokens or again.taken_back != recorded.taken_back:
                self._answer = None  # what comes next comes after the recorded tokens, not after these
        if recorded.taken_back:
            del self._ids[-recorded.taken_back :]
        self._ids += recorded.tokens

    def _at_the_recorded_place(self) -> Answer:
        if self._answer is None:
            started = self._started
            given = started.given if not started.resumed else started.given[: -len(self._ids) or None]
            self._answer = answer_after(
                self._pair, started, given, self._ids, held=self._held, eos_ids=self._eos_ids
            )
        return self._answer

    def _compare(self, repeater: Repeater, recorded: Round, again: Round) -> Iterator[Finding]:
        result = self._result
        result.rounds += 1
        if not same_ids(recorded, again):
            if result.first_difference is None:
                result.first_difference = (self._started.run, recorded.number)
            found = difference(recorded, again, repeater.settings, repeater.draws, self._tolerance)
            yield self._finding(recorded, found.check, found.grade, found.text, found.margin)
            return
        result.same_tokens += 1
        result.identical += same_numbers(recorded, again)
        off = drift(recorded, again)
        result.drift = max(result.drift, off)
        if off > self._tolerance:
            text = f"a probability is {off:.3g} off, more than rounding explains"
            yield self._finding(recorded, "laws", Grade.BUG, text, off)

    def _finding(self, recorded: Round, check: str, grade: Grade, text: str, margin: float | None) -> Finding:
        return Finding(self._started.run, recorded.number, check, grade, text, margin)
