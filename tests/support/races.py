"""What a race tells, made with a scripted session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from hypothesis import strategies as st
from support.scripted import Script, ScriptedSession, make_round

from engine.config import Config, parse_config
from engine.context import Message
from engine.events import Round
from engine.race import RaceEvent, race
from tui.race_state import RaceState, reduce_race

ROUNDS = tuple(make_round(number, 3, accepted) for number, accepted in enumerate((3, 1, 0, 2, 3), 1))
"""14 tokens, in 5 rounds of 43.875 ms: 15.7 ms a token, where plain decoding takes 25."""
QUESTION = (Message("user", "Hello"),)


def config(temperature: float = 0.0) -> Config:
    """Of a scripted pair."""
    return parse_config(
        f'[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n[sampling]\n'
        f"temperature = {temperature}\n[run]\nmax_new_tokens = 500\n",
        "test",
    )


def told(
    rounds: Sequence[Round] = ROUNDS, *, temperature: float = 0.0, **script: Any
) -> tuple[RaceEvent, ...]:
    """A whole race in which both arms write the tokens of the rounds."""
    session = ScriptedSession(config(temperature), script=Script(rounds=tuple(rounds), **script))
    return tuple(race(cast("Any", session), QUESTION))


def fold(events: Iterable[RaceEvent], state: RaceState | None = None) -> RaceState:
    """The state after some events."""
    state = RaceState() if state is None else state
    for event in events:
        state = reduce_race(state, event)
    return state


@st.composite
def rounds_drawn(draw: st.DrawFn) -> tuple[Round, ...]:
    """1 to 12 rounds of any length, of which some take longer than others."""
    shapes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 90)), min_size=1))
    return tuple(
        make_round(number, max(k, n), min(k, n), host_ms=host_ms)
        for number, (k, n, host_ms) in enumerate(shapes[:12], 1)
    )
