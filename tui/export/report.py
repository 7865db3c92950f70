"""What a recording says, run by run, ready to be written in any form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.event_json import from_json
from engine.events import (
    BaselineFinished,
    Calibrated,
    Event,
    Failed,
    LoadFinished,
    ModelInfo,
    Notice,
    Origin,
    PlainStep,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.explained import written
from engine.stats import Statistics
from engine.what_if_lookup import other_methods
from tui.origin_text import OriginText, Segment
from tui.summary import RunFacts, summary_rows


@dataclass(slots=True)
class RunReport:
    """One answer."""

    started: RunStarted
    facts: RunFacts
    statistics: Statistics = field(default_factory=Statistics)
    rounds: list[Round] = field(default_factory=list)
    steps: list[PlainStep] = field(default_factory=list)
    answer: list[Segment] = field(default_factory=list)
    """The text in parts of one origin each; None: it cannot be told."""
    notes: list[str] = field(default_factory=list)
    """Notices and failures, in words."""

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(part for part, _ in self.answer)

    @property
    def measures(self) -> dict[str, Any]:
        """By their machine-readable names, as the session told them after the run."""
        settings, costs = self.facts.settings, self.statistics.costs
        prompt = (*self.started.prompt, *self.started.given)
        drafter = "" if settings is None else settings.drafter
        others = other_methods(prompt, written(self.rounds), costs, drafter)
        return self.statistics.as_dict(settings, others)

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Names and values, as a headless run prints them."""
        return summary_rows(self.facts, self.measures)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole recording."""

    header: Mapping[str, Any]
    runs: Sequence[RunReport]
    incomplete: bool = False
    """The file ends in the middle of something."""

    @property
    def context(self) -> list[tuple[str, str]]:
        """The messages that were answered, as (role, content); empty where the header has none."""
        messages = self.header.get("context")
        if not isinstance(messages, list):
            return []
        return [
            (str(message.get("role", "")), str(message.get("content", "")))
            for message in messages
            if isinstance(message, dict)
        ]

    @property
    def machine(self) -> list[tuple[str, str]]:
        """What the run was measured on, as names and values."""
        rows = []
        for name in ("machine", "versions"):
            value = self.header.get(name)
            if isinstance(value, dict):
                rows.append((name, ", ".join(f"{key} {entry}" for key, entry in value.items())))
        return rows


def build_report(header: Mapping[str, Any], events: Iterable[Event], *, incomplete: bool = False) -> Report:
    """Fold the events of a recording into a report."""
    return Report(header, _Builder(header).fold(events), incomplete)


def _model(header: Mapping[str, Any], role: str) -> ModelInfo | None:
    """A model by the header: a recording that began later has no event of its load."""
    try:
        return from_json(ModelInfo, header.get(role))
    except ValueError:
        return None


class _Builder:
    def __init__(self, header: Mapping[str, Any]) -> None:
        self._models = RunFacts(_model(header, "target"), _model(header, "drafter"))
        self._runs: list[RunReport] = []
        self._origins = OriginText()

    def fold(self, events: Iterable[Event]) -> list[RunReport]:
        for event in events:
            if isinstance(event, LoadFinished):
                self._models.add(event)
            elif isinstance(event, RunStarted) and event.resumed and self._runs:
                run = self._runs[-1]
                run.facts.target, run.facts.drafter = self._models.target, self._models.drafter
                run.facts.finished = run.statistics.timing = None  # it was no end
            elif isinstance(event, RunStarted):
                self._origins = OriginText()
                self._runs.append(RunReport(event, replace(self._models)))
                given = ((piece, Origin.GIVEN) for piece in event.given_pieces)
                text = event.given_text
                if text is None:
                    text = b"".join(event.given_pieces).decode("utf-8", "replace")
                self._runs[-1].answer += self._origins.add(given, text)
            elif self._runs:
                self._add(self._runs[-1], event)
        return self._runs

    def _add(self, run: RunReport, event: Event) -> None:
        if isinstance(event, Round):
            run.rounds.append(event)
            run.statistics.add(event)
            run.answer += self._origins.add_round(event)
        elif isinstance(event, PlainStep):
            run.steps.append(event)
            run.answer += self._origins.add([(event.piece, Origin.PLAIN)], event.text)
        elif isinstance(event, Calibrated):
            run.statistics.set_costs(event.costs)
        elif isinstance(event, RunFinished):
            run.answer += self._origins.finish(event.text)
            run.statistics.set_run(event)
        elif isinstance(event, BaselineFinished):
            run.statistics.set_baseline(event)
        elif isinstance(event, Notice):
            run.notes.append(event.text)
        elif isinstance(event, Failed):
            run.notes.append(f"failed: {event.message}")
        if isinstance(event, SegmentStarted | RunFinished | BaselineFinished):
            run.facts.add(event)
