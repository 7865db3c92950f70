"""A recording repeated with its models: the same rounds, from the same tokens, with the same draws.

Each recorded round is run again from the recorded tokens before it (teacher-forced), so that one difference
does not hide what follows. As long as nothing differs this is the free run with the recorded seed; the first
round that differs is where a free run would have parted.

A difference is an exact tie, within rounding (the margin is told), or a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.config import Config
from engine.errors import RecordingError
from engine.events import Alternative, Event, Round, RunStarted, SegmentStarted, Settings
from engine.recheck_round import Finding, Grade

if TYPE_CHECKING:
    from engine.answer import Answer
    from engine.pair import Pair
    from engine.session import Session

TOLERANCES = {"float32": 1e-4, "float64": 1e-6, "float16": 0.02, "bfloat16": 0.1}
"""Difference of a probability that two passes of different shape, or two machines, can make in a format."""
OTHER = "another drafter"


@dataclass(slots=True)
class Repeated:
    """What the repetition came to."""

    rounds: int = 0
    identical: int = 0
    """Rounds that came out the same in every id and in every bit of p, q and u."""
    same_tokens: int = 0
    """Rounds that drafted, accepted and committed the same ids."""
    left_out: int = 0
    """Rounds of a drafter that the recording's configuration does not name."""
    drift: float = 0.0
    """Largest difference of a probability, between rounds of the same ids."""
    first_difference: tuple[int, int] | None = None
    """Run and round at which a free run would have parted."""


class ModelRecheck:
    """Repeats the speculative runs of a recording.

    Args:
        header: of the recording; says what to load.
        make_session: builds a session from a configuration.
    """

    def __init__(self, header: dict[str, Any], make_session: Callable[[Config], Session]) -> None:
        self.result = Repeated()
        self._header = header
        self._session = make_session(recorded_config(header))

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

    def run(self, events: Iterable[Event]) -> Iterator[Finding]:
        """Repeat the rounds; gives what is not as it was recorded. To be consumed to its end."""
        from engine.pair import map_torch_errors

        with map_torch_errors():
            yield from self._run(events)

    def _run(self, events: Iterable[Event]) -> Iterator[Finding]:
        repeater: _Repeater | None = None
        for event in events:
            if isinstance(event, RunStarted):
                if event.mode == "speculative" and not (event.resumed and repeater is not None):
                    ignore_eos = self._session.config.run.ignore_eos
                    repeater = _Repeater(self._session.pair, event, self.result, ignore_eos=ignore_eos)
                elif repeater is not None and event.resumed:
                    repeater.resumed(event)
            elif repeater is None:
                continue
            elif isinstance(event, SegmentStarted):
                repeater.segment(event.settings_id, event.settings, self._session.config)
            elif isinstance(event, Round):
                yield from repeater.round(event)


def recorded_config(header: dict[str, Any]) -> Config:
    """The configuration in a header; it records nothing. Raises RecordingError for one that is none."""
    try:
        config = Config.model_validate({**header["config"], "record": {}})
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            "the recording names no configuration that this version can use",
            "Check it without models.",
        ) from error
    machine = header.get("machine")
    recorded = {key: machine[key] for key in ("dtype", "threads") if key in machine} if machine else {}
    return config.model_copy(update={"run": config.run.model_copy(update=recorded)})


class _Repeater:
    """One run, repeated."""

    def __init__(self, pair: Pair, started: RunStarted, result: Repeated, *, ignore_eos: bool) -> None:
        self._pair = pair
        self._eos_ids = frozenset() if ignore_eos else pair.target.eos_ids
        self._started = started
        self._result = result
        self._answer: Answer | None = None
        self._held: list[int] = []
        self._ids: list[int] = []
        self._speculator: Any = None
        self._tolerance = TOLERANCES.get(pair.target.info.dtype, 0.1)

    def resumed(self, event: RunStarted) -> None:
        """It went on with other models; only rounds of the first ones can be repeated."""
        self._started = event
        self._answer = None

    def segment(self, number: int, settings: Settings, config: Config) -> None:
        """Other settings from here on."""
        fits = settings.drafter == config.draft.method
        self._speculator = self._pair.speculator(settings, number, lambda: (0, 0)) if fits else None
        self._settings = settings

    def round(self, recorded: Round) -> Iterator[Finding]:
        """One round again; then the recorded tokens, whatever came out."""
        if self._speculator is None:
            self._result.left_out += 1
        else:
            answer = self._at_the_recorded_place()
            again: Round = self._speculator.round(answer, recorded.number)
            self._held = list(answer.tokens[: len(self._pair.cache)])
            yield from self._compare(recorded, again)
            if again.tokens != recorded.tokens or again.taken_back != recorded.taken_back:
                self._answer = None
        if recorded.taken_back:
            del self._ids[-recorded.taken_back :]
        self._ids += recorded.tokens

    def _at_the_recorded_place(self) -> Answer:
        from engine.answer import Answer, Limits

        if self._answer is not None:
            return self._answer
        pair, started = self._pair, self._started
        own = started.given if not started.resumed else started.given[: -len(self._ids) or None]
        tokens = [*started.prompt, *own, *self._ids]
        limits = Limits(
            max(started.max_new_tokens - len(self._ids), 1),
            pair.target.context_length,
            self._eos_ids,
            started.stop,
        )
        answer = Answer(tokens, pair.target.text, limits)
        answer.begin_after([*own, *self._ids])
        pair.rewind(self._held, tokens)
        pair.reserve(len(tokens) + 64)
        for _ in pair.prefill(tokens):
            pass
        self._answer = answer
        return answer

    # -- comparing

    def _compare(self, recorded: Round, again: Round) -> Iterator[Finding]:
        result = self._result
        result.rounds += 1
        if _ids(recorded) == _ids(again):
            result.same_tokens += 1
            drift = _drift(recorded, again)
            result.drift = max(result.drift, drift)
            result.identical += _numbers(recorded) == _numbers(again)
            if drift > self._tolerance:
                yield self._finding(
                    recorded,
                    "laws",
                    Grade.BUG,
                    f"a probability is {drift:.3g} off, more than rounding explains",
                )
            return
        if result.first_difference is None:
            result.first_difference = (self._started.run, recorded.number)
        yield self._difference(recorded, again)

    def _difference(self, recorded: Round, again: Round) -> Finding:
        pairs = zip(recorded.drafts, again.drafts, strict=False)
        for place, (old, new) in enumerate(pairs):
            if old.id != new.id:
                text = f"draft {place + 1} is id {new.id}, it was {old.id}"
                return self._graded(
                    recorded, "draft", text, self._law_margin(old.q_top, new.q_top, old.q == 1.0)
                )
        if len(recorded.drafts) != len(again.drafts):
            text = f"{len(again.drafts)} tokens are drafted, they were {len(recorded.drafts)}"
            return self._finding(recorded, "draft", Grade.BUG, text)
        at = min(recorded.n_accepted, again.n_accepted)
        if recorded.n_accepted != again.n_accepted:
            old, new = recorded.drafts[at], again.drafts[at]
            text = f"draft {at + 1}: {again.n_accepted} are accepted, they were {recorded.n_accepted}"
            if self._settings.temperature == 0 or old.u is None:
                margin = self._law_margin(recorded.p_top[at], again.p_top[at], True)
            else:
                # Both sides of the decision, at the recorded numbers and at the new ones.
                margin = max(abs(old.u * old.q - old.p), abs(old.u * new.q - new.p))
            return self._graded(recorded, "acceptance", text, margin)
        text = f"the target's token is id {again.target.id}, it was {recorded.target.id}"
        greedy = self._settings.temperature == 0
        margin = self._law_margin(recorded.p_top[at], again.p_top[at], greedy)
        return self._graded(recorded, "target", text, margin)

    def _law_margin(
        self, old: tuple[Alternative, ...], new: tuple[Alternative, ...], greedy: bool
    ) -> float | None:
        """How close the choice was: for the likeliest token the gap to the next one, for a drawn one how far
        the two laws are apart; None where nothing was recorded."""
        if not old or not new:
            return None
        if greedy:
            return max(_gap(old), _gap(new))
        return _apart(old, new)

    def _graded(self, recorded: Round, check: str, text: str, margin: float | None) -> Finding:
        if margin is None:
            return self._finding(recorded, check, Grade.BUG, f"{text}; nothing random had a part in it")
        if margin == 0:
            return self._finding(recorded, check, Grade.TIE, text)
        near = margin <= self._tolerance
        told = f"{text}; it hung on {margin:.3g}, rounding explains {self._tolerance:g}"
        return self._finding(recorded, check, Grade.ROUNDING if near else Grade.BUG, told)

    def _finding(self, recorded: Round, check: str, grade: Grade, text: str) -> Finding:
        return Finding(self._started.run, recorded.number, check, grade, text)


def _ids(round_: Round) -> tuple[Any, ...]:
    drafts = tuple(draft.id for draft in round_.drafts)
    return drafts, round_.n_accepted, round_.target.id, round_.tokens, round_.taken_back


def _numbers(round_: Round) -> tuple[Any, ...]:
    return tuple((draft.p, draft.q, draft.u) for draft in round_.drafts), round_.target.p, round_.target.q


def _drift(old: Round, new: Round) -> float:
    pairs = [(one.p, other.p) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs += [(one.q, other.q) for one, other in zip(old.drafts, new.drafts, strict=True)]
    pairs.append((old.target.p, new.target.p))
    return max(abs(one - other) for one, other in pairs)


def _gap(row: tuple[Alternative, ...]) -> float:
    return row[0].probability - row[1].probability if len(row) > 1 else 1.0


def _apart(old: tuple[Alternative, ...], new: tuple[Alternative, ...]) -> float:
    known = {entry.id: entry.probability for entry in new}
    least = new[-1].probability
    return max(abs(entry.probability - known.get(entry.id, min(least, entry.probability))) for entry in old)
