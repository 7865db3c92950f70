"""The runs of a recording, and how far each can be repeated freely."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from engine.events import (
    Alternative,
    EndReason,
    Event,
    LoadFinished,
    ModelInfo,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
    Settings,
)

OWN_ENDS = frozenset({EndReason.EOS, EndReason.STOP, EndReason.MAX_NEW_TOKENS, EndReason.CONTEXT})
"""Ends that the tokens themselves decide; the other ones come from outside."""


@dataclass(frozen=True, slots=True)
class Written:
    """A token that a round committed."""

    id: int
    piece: bytes
    round: int
    """Number of its round."""
    row: tuple[Alternative, ...]
    """The likeliest ids at its place; empty if they were not recorded."""


@dataclass(slots=True)
class RecordedRun:
    """One run, as far as it can be repeated."""

    started: RunStarted
    settings: dict[int, Settings] = field(default_factory=dict)
    """By the number of the round from which on they hold."""
    rounds: list[Round] = field(default_factory=list)
    reason: EndReason | None = None
    """Why it ended; None: the recording ends before, or it is not repeated to its end."""
    left_out: str | None = None
    """Why it is not repeated to its end, in words."""

    @property
    def tokens(self) -> list[Written]:
        """What its rounds committed, before anything was taken back."""
        return [token for round_ in self.rounds for token in written_by(round_)]


def written_by(round_: Round) -> Iterator[Written]:
    """The tokens that a round committed."""
    drafts = round_.drafts[: round_.n_accepted]
    pieces = [*(draft.piece for draft in drafts), round_.target.piece]
    rows = (*round_.p_top, *[()] * len(pieces))
    for id_, piece, row in zip(round_.tokens, pieces, rows, strict=False):
        yield Written(id_, piece, round_.number, row)


class Loaded:
    """Whether the models that a recording decodes with, event by event, are those that are loaded here.

    Args:
        models: the loaded ones by their role; None where the method needs none.
    """

    def __init__(self, models: Mapping[str, ModelInfo | None]) -> None:
        self._models = models
        self._others: set[str] = set()

    def add(self, event: Event) -> None:
        """Note a model that the recording loaded."""
        if not isinstance(event, LoadFinished):
            return
        here = self._models.get(event.role)
        if here is None or _same(here, event.model):
            self._others.discard(event.role)
        else:
            self._others.add(event.role)

    @property
    def fits(self) -> bool:
        return not self._others


def _same(one: ModelInfo, other: ModelInfo) -> bool:
    held = [(each.dtype, each.quantized, each.passes) for each in (one, other)]
    if held[0] != held[1]:
        return False
    return one.sha256 == other.sha256 if one.sha256 and other.sha256 else one.name == other.name


def recorded_runs(
    events: Iterable[Event], guesses: Callable[[Settings], bool], loaded: Loaded
) -> list[RecordedRun]:
    """The runs in their order.

    Args:
        events: of one recording.
        guesses: whether the drafter that is loaded guesses as settings say.
        loaded: the models that are; none of the events was added.
    """
    runs: list[RecordedRun] = []
    for event in events:
        loaded.add(event)
        if isinstance(event, RunStarted) and not (event.resumed and runs):
            runs.append(RecordedRun(event, left_out=_why_not(event, loaded)))
        elif runs and runs[-1].left_out is None:
            _add(runs[-1], event, guesses)
    return runs


def _why_not(started: RunStarted, loaded: Loaded) -> str | None:
    if started.mode != "speculative":
        return "it is plain decoding"
    if started.resumed:
        return "its beginning is not in the recording"
    return None if loaded.fits else "other models wrote it than the first ones of the recording"


def written_ids(events: Iterable[Event]) -> Iterator[list[int]]:
    """The ids of each run's answer as it ended, the given ones apart; runs that went on are one."""
    ids: list[int] | None = None
    for event in events:
        if isinstance(event, RunStarted) and not (event.resumed and ids is not None):
            if ids is not None:
                yield ids
            ids = []
        elif isinstance(event, Round) and ids is not None:
            del ids[len(ids) - event.taken_back :]
            ids += event.tokens
    if ids is not None:
        yield ids


def needs_earlier_runs(run: int, settings: Settings) -> bool:
    """Whether a drafter looked up answers that the recording need not hold."""
    return settings.history and run > 1


def _add(run: RecordedRun, event: Event, guesses: Callable[[Settings], bool]) -> None:
    following = len(run.rounds) + 1
    if isinstance(event, RunStarted):
        run.left_out = f"from round {following} on it has other models"
    elif isinstance(event, SegmentStarted) and not guesses(event.settings):
        run.left_out = f"from round {following} on another drafter guesses: {event.settings.drafter}"
    elif isinstance(event, SegmentStarted) and needs_earlier_runs(run.started.run, event.settings):
        run.left_out = f"from round {following} on its drafter looks up earlier answers"
    elif isinstance(event, SegmentStarted):
        run.settings[following] = event.settings
    elif isinstance(event, Round) and not run.settings:
        run.left_out = "its settings are not in the recording"
    elif isinstance(event, Round):
        run.rounds.append(event)
    elif isinstance(event, RunFinished):
        run.reason = event.reason
