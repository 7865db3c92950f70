"""The screen of a race alone: its clock, and how often it is drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.races import told
from textual.pilot import Pilot

from engine.race import ArmEvent, RaceEvent
from tui.race_state import Stage
from tui.screens.race import LONGEST_S, SHARE, RacePump, RaceScreen
from tui.themes import ThemedApp


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def show(test: Callable[[RaceScreen, Clock, Pilot[None]], Awaitable[None]]) -> None:
    async def scenario() -> None:
        clock = Clock()
        app: ThemedApp[None] = ThemedApp()
        async with app.run_test(size=(100, 30)) as pilot:
            screen = RaceScreen("K 3: lookup", "float32", clock)
            await app.push_screen(screen)
            await test(screen, clock, pilot)

    asyncio.run(scenario())


def take(screen: RaceScreen, events: list[RaceEvent]) -> None:
    for event in events:
        screen.tell(event)
    while screen._take():
        pass


def test_the_clock_of_the_arm_that_runs_goes_on_between_its_events() -> None:
    events = list(told())
    plain = [each for each in events if isinstance(each, ArmEvent) and each.arm == "plain"]
    speculative = [each for each in events if isinstance(each, ArmEvent) and each.arm == "speculative"]

    async def test(screen: RaceScreen, clock: Clock, pilot: Pilot[None]) -> None:
        assert screen.seconds == 0.0
        take(screen, [*plain[:6]])  # two tokens
        assert screen.seconds == pytest.approx(0.055)
        clock.now += 0.2
        assert screen.seconds == pytest.approx(0.255), "a long step is on its way"
        take(screen, [*plain[6:]])
        clock.now += 5.0
        assert screen.seconds == screen.state.plain.seconds, "it has finished"
        take(screen, [*speculative[:5]])
        assert screen.seconds == pytest.approx(0.048875)
        clock.now += 0.01
        assert screen.seconds == pytest.approx(0.058875)
        screen._draw()
        assert screen.lane("plain").text._tokens == 2, "the ghost is as far as it was then"

    show(test)


def test_the_clock_goes_on_from_memory_until_the_slower_one_has_finished() -> None:
    async def test(screen: RaceScreen, clock: Clock, pilot: Pilot[None]) -> None:
        take(screen, list(told()))
        state = screen.state
        assert screen.seconds == pytest.approx(state.speculative.seconds)
        assert not screen.resting
        clock.now += 0.1
        screen._draw()
        heads = [screen.lane(arm).head._side for arm in ("plain", "speculative")]
        assert [side.stage for side in heads if side is not None] == [Stage.RUNNING, Stage.FINISHED]
        clock.now += 9.0
        assert screen.resting
        assert screen.seconds == state.plain.seconds
        screen.action_replay()
        assert screen.seconds == 0.0
        assert not screen.resting
        clock.now += 0.06
        screen._draw()
        assert [screen.lane(arm).text._tokens for arm in ("plain", "speculative")] == [2, 4]
        assert len(screen.lane("plain").text._output) == 2

    show(test)


def test_drawing_takes_the_same_share_of_both_arms() -> None:
    pump = RacePump(lambda: False, lambda: None, lambda *_: None, lambda _: None)
    for cost in (0.004, 0.006, 0.014):
        pump.cost = cost
        assert cost / pump.interval == pytest.approx(SHARE)
    pump.cost = 0.001
    assert pump.interval == pytest.approx(1 / 6), "not more often than is pleasant"
    pump.cost = 1.0
    assert pump.interval == LONGEST_S
    pump.timed = False
    assert pump.interval == pytest.approx(1 / 6), "nothing is timed any more"
