"""Runs that were shown, so that undoing an edit of the conversation brings back what led to its text."""

from __future__ import annotations

from dataclasses import replace

from engine.context import Message
from tui.plan import Plan
from tui.state import ViewState

_RUNS = 32
_ROUNDS = 20_000
"""Rounds of all runs together: what they hold in memory grows with these."""


class History:
    """The last runs by the messages they led to; always the newest, older ones as far as there is room."""

    def __init__(self) -> None:
        self._runs: dict[tuple[Message, ...], tuple[ViewState, Plan]] = {}

    def __len__(self) -> int:
        """Runs that can be brought back."""
        return len(self._runs)

    def keep(self, messages: tuple[Message, ...], state: ViewState, plan: Plan) -> None:
        """Remember a run that ended."""
        self._runs.pop(messages, None)
        self._runs[messages] = (state, plan)
        rounds = sum(len(kept.rounds) for kept, _ in self._runs.values())
        while len(self._runs) > 1 and (len(self._runs) > _RUNS or rounds > _ROUNDS):
            oldest, _ = self._runs.pop(next(iter(self._runs)))
            rounds -= len(oldest.rounds)

    def find(self, messages: tuple[Message, ...], now: ViewState) -> tuple[ViewState, Plan] | None:
        """The run that led to these messages, with models and phase as they are now."""
        found = self._runs.get(messages)
        if found is None or now.running:
            return None
        state, plan = found
        shown = replace(
            state,
            phase=now.phase,
            busy=now.busy,
            running=False,
            pausing=False,
            load=now.load,
            loads=now.loads,
            target=now.target,
            drafter=now.drafter,
            notices=now.notices,
            failure=now.failure,
            reference=now.reference,
            reference_run=now.reference_run,
            revealed=None,
            awaiting=False,
        )
        return shown, plan
