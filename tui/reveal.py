"""Stepping through a round token by token: what of the newest round may be shown.

The engine is a round ahead of what is seen. The steps of a round are: its drafts one by one, not judged yet;
then the verdicts one by one (the rejected one settles those after it too); then the target's own token,
unless the cut removed it.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import Round, Verdict
from tui.trail import Trail
from tui.view import OutputToken, ViewState


@dataclass(frozen=True, slots=True)
class VisibleRound:
    """A round and how much of it may be shown."""

    round: Round
    drafts: int
    """Leading drafts that are shown."""
    judged: int
    """Leading drafts whose verdict is shown."""
    target: bool
    """Whether the target's own token is shown."""

    @property
    def whole(self) -> bool:
        """Whether nothing is hidden."""
        return self.judged == len(self.round.drafts) and self.target

    @property
    def committed(self) -> int:
        """Committed tokens of the round that are shown."""
        kept = min(self.judged, self.round.accepted)
        return kept + (self.target and not self.round.was_cut)

    def verdict(self, index: int) -> Verdict | None:
        """The verdict of a draft; None while it is hidden."""
        return self.round.drafts[index].verdict if index < self.judged else None


def _judgements(round_: Round) -> int:
    """Verdicts that are steps: up to the rejected draft."""
    return min(round_.n_accepted + 1, len(round_.drafts))


def step_count(round_: Round) -> int:
    """Steps in which a round is revealed."""
    return len(round_.drafts) + _judgements(round_) + (not round_.was_cut)


def partly(round_: Round, steps: int | None) -> VisibleRound:
    """The round after so many steps; None: all of it."""
    drafts = len(round_.drafts)
    if steps is None or steps >= step_count(round_):
        return VisibleRound(round_, drafts, drafts, target=True)
    judged = max(0, steps - drafts)
    if judged == _judgements(round_):
        judged = drafts
    return VisibleRound(round_, min(steps, drafts), judged, target=False)


def visible_round(state: ViewState) -> VisibleRound | None:
    """The newest round; None before the first."""
    return partly(state.rounds[-1], state.revealed) if state.rounds else None


def visible_output(state: ViewState) -> Trail[OutputToken]:
    """The tokens that may be shown; ``state.output`` itself while nothing is hidden."""
    newest = visible_round(state)
    if newest is None or newest.whole:
        return state.output
    hidden = len(newest.round.tokens) - newest.committed
    return state.output.take(len(state.output) - hidden)


def visible_text(state: ViewState) -> Trail[str]:
    """The text chunks that may be shown; ``state.text`` itself while nothing is hidden."""
    newest = visible_round(state)
    if newest is None or newest.whole:
        return state.text
    return state.text.take(bool(state.given) + len(state.rounds) - 1)


def needs_round(state: ViewState) -> bool:
    """Whether ``RevealNext`` can only be served by another round, which is not on its way yet: the engine (or
    the replay) has to step. To be asked before ``RevealNext`` is reduced."""
    return state.revealed is None and not (state.awaiting and state.running)
