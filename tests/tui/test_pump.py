"""When frames are drawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tui.pump import INTERVAL_S, MAX_INTERVAL_S, SHARE, SLICE_S, Pump


class World:
    """A clock, a processor clock, and what was put off."""

    def __init__(self) -> None:
        self.now = self.cpu = 0.0
        self.put_off: list[tuple[float, Callable[[], None]]] = []
        self.painted: list[Callable[[], None]] = []
        self.waiting = 0
        self.shown = 0
        self.cost = 0.001
        self.pump = Pump(
            self.take,
            self.show,
            lambda seconds, call: self.put_off.append((seconds, call)),
            self.painted.append,
            lambda: self.now,
            lambda: self.cpu,
        )

    def take(self) -> bool:
        self.waiting = max(self.waiting - 1, 0)
        return self.waiting > 0

    def show(self) -> None:
        self.shown += 1
        self.cpu += self.cost

    def go(self) -> float:
        """Let the next thing happen; how long it was put off."""
        [(seconds, call)] = self.put_off
        self.put_off.clear()
        self.now += seconds
        call()
        while self.painted:
            self.painted.pop()()
        return seconds


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_event_is_shown_at_once_and_then_there_is_rest(world: World) -> None:
    world.pump.wake()
    world.pump.wake()
    assert world.go() == 0
    assert world.put_off == [], "nothing is scheduled while nothing happens"
    world.pump.wake()
    assert world.go() == pytest.approx(INTERVAL_S)


def test_frames_that_cost_much_come_seldom(world: World) -> None:
    world.cost = 0.01
    for _ in range(5):
        world.pump.wake()
        world.go()
    assert world.pump.interval == pytest.approx(0.01 / SHARE)
    world.cost = 10.0
    for _ in range(20):
        world.pump.wake()
        world.go()
    assert world.pump.interval == MAX_INTERVAL_S


def test_a_backlog_is_taken_without_painting(world: World) -> None:
    world.waiting = 5
    world.pump.wake()
    world.go()
    shown = world.shown
    assert [world.go() for _ in range(4)] == [SLICE_S] * 4
    assert world.shown == shown + 1, "once more, when all was taken"
    assert world.put_off == []


def test_what_is_due_later_waits(world: World) -> None:
    world.pump.wake(3.0)
    assert world.go() == 3.0


def test_what_is_wanted_sooner_does_not_wait_for_what_is_due_later(world: World) -> None:
    world.pump.wake(2.0)
    world.now = 0.1
    world.pump.wake()
    (late, first), (soon, second) = world.put_off
    assert (late, soon) == (2.0, 0.0)
    second()
    assert world.shown == 1
    world.now = 2.0
    first()
    assert world.shown == 1, "the later one has been seen to"
    world.put_off.clear()
    world.pump.wake()
    assert len(world.put_off) == 1
