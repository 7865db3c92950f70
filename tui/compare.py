"""Two runs set side by side: their texts token for token, and their measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import UserError
from engine.events import Origin, PlainStep, Round
from tui.drafting import synthetic_of
from tui.export.report import Report, RunReport
from tui.same_text import divergence_dict, divergence_of

NAMES = (
    *("tokens", "rounds", "tau", "alpha_hat", "draft_efficiency", "tokens_per_second"),
    *("baseline_tokens_per_second", "speedup", "ttft_ms", "draft_ms_per_round", "verify_ms_per_round"),
    *("host_ms_per_round", "identical"),
)
"""Measures that are compared, by their machine-readable names."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer, and how it came."""

    id: int
    piece: bytes
    origin: Origin
    round: int
    """Number of its round (or plain step)."""
    drafted: bool = True
    """Whether its round drafted anything; else a bonus is one to nothing, and so a plain token."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, aligned by the tokens of their answers."""

    first: RunReport
    second: RunReport
    first_tokens: tuple[Token, ...]
    second_tokens: tuple[Token, ...]
    same_prompt: bool
    difference: int | None
    """Index of the first token at which the answers part, or where the shorter one ends; None: they are the
    same to the end."""

    @property
    def identical(self) -> bool:
        """Whether the answers are the same to the end."""
        return self.difference is None

    @property
    def measures(self) -> dict[str, tuple[Any, Any]]:
        """Both values of each measure."""
        first, second = self.first.measures, self.second.measures
        return {name: (first[name], second[name]) for name in NAMES}

    @property
    def settings(self) -> dict[str, tuple[Any, Any]]:
        """Both values of each setting that differs; models by name."""
        one, other = (_settings(run) for run in (self.first, self.second))
        names = dict.fromkeys([*one, *other])
        pairs = {name: (one.get(name), other.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    @property
    def _runs(self) -> tuple[RunReport, RunReport]:
        return self.first, self.second

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "prompt_identical": self.same_prompt,
            "identical": self.identical,
            "first_difference": self.difference,
            "tokens_at_difference": [
                None
                if self.difference is None or self.difference >= len(tokens)
                else tokens[self.difference].id
                for tokens in (self.first_tokens, self.second_tokens)
            ],
            "measures": {name: list(pair) for name, pair in self.measures.items()},
            "synthetic": [synthetic_of(run.measures, run.facts.synthetic) for run in self._runs],
            "divergence": [divergence_dict(divergence_of(run.facts.baseline)) for run in self._runs],
            "settings": {name: list(pair) for name, pair in self.settings.items()},
        }


def compare_runs(first: RunReport, second: RunReport) -> Comparison:
    """Set two runs side by side. What the user gave them counts as part of the answers."""
    one, other = tokens_of(first), tokens_of(second)
    return Comparison(
        *(first, second, one, other),
        same_prompt=first.started.prompt == second.started.prompt,
        difference=_difference([token.id for token in one], [token.id for token in other]),
    )


def chosen_run(report: Report, number: int | None, name: str) -> RunReport:
    """A run by its number, or the last one. Raises UserError where there is none."""
    if not report.runs:
        raise UserError(f"{name} holds no run", "A run is recorded with --record.")
    if number is None:
        return report.runs[-1]
    for run in report.runs:
        if run.started.run == number:
            return run
    known = ", ".join(str(run.started.run) for run in report.runs)
    raise UserError(f"{name} holds no run {number}", f"It holds: {known}.")


def tokens_of(run: RunReport) -> tuple[Token, ...]:
    """The tokens of an answer as it ended, those taken back left out."""
    tokens = [
        Token(id_, piece, Origin.GIVEN, 0)
        for id_, piece in zip(run.started.given, run.started.given_pieces, strict=True)
    ]
    steps: list[Round | PlainStep] = [*run.rounds, *run.steps]
    for step in steps:
        if step.taken_back:
            del tokens[-step.taken_back :]
        if isinstance(step, Round):
            tokens += _of_round(step)
        else:
            tokens.append(Token(step.id, step.piece, Origin.PLAIN, step.number))
    return tuple(tokens)


def _of_round(round_: Round) -> Iterator[Token]:
    pieces = [*(draft.piece for draft in round_.drafts[: round_.accepted]), round_.target.piece]
    for id_, piece, origin in zip(round_.tokens, pieces, round_.origins, strict=False):
        yield Token(id_, piece, origin, round_.number, bool(round_.drafts))


def _difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return None if len(one) == len(other) else min(len(one), len(other))


def _settings(run: RunReport) -> dict[str, Any]:
    from engine.event_json import plain

    facts = run.facts
    told: dict[str, Any] = {
        "target": facts.target.name if facts.target else None,
        "dtype": facts.target.dtype if facts.target else None,
        "device": facts.target.device if facts.target else None,
        "passes": facts.target.passes if facts.target else None,
        "drafter_model": facts.drafter.name if facts.drafter else None,
    }
    return told | (plain(facts.settings) if facts.settings else {})
