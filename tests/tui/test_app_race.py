"""The race in the whole app, by keys, on a scripted engine."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.app import ANSWERED, CONFIG, QUESTION, Driven, driven
from support.nasty import NASTY, assert_harmless, drawn
from support.scripted import Script, make_round

from engine.context import Message
from engine.errors import DoesNotFit
from engine.events import Notice
from engine.race import ArmEvent
from tui.changes import with_values
from tui.race_state import Stage
from tui.screens.race import RaceScreen

SHORT = Script(rounds=tuple(make_round(number, 3, number % 4) for number in range(1, 25)), pause_s=0.12)
"""Two seconds for the plain arm, three for the other: several frames, however seldom they come."""
SLOW = dataclasses.replace(SHORT, pause_s=0.3)
BRIEF = dataclasses.replace(SHORT, pause_s=0.0)
"""The same at once."""


def go(
    test: Callable[[Driven, RaceScreen], Awaitable[None]],
    folder: Path,
    script: Script = SHORT,
    **options: Any,
) -> None:
    """A race, from its key on."""

    async def scenario() -> None:
        async with driven(folder, script, **options) as app:
            await app.press("A")
            screen = await app.top("RaceScreen")
            assert isinstance(screen, RaceScreen)
            await test(app, screen)

    asyncio.run(scenario())


def stages(screen: RaceScreen) -> list[Stage | None]:
    """As the lanes show them."""
    sides = [screen.lane(arm).head._side for arm in ("plain", "speculative")]
    return [None if side is None else side.stage for side in sides]


async def over(app: Driven, screen: RaceScreen) -> None:
    await app.until(lambda: screen.state.result is not None, "the end of the race")
    await app.until(lambda: screen.resting, "the end of the clocks")
    await app.until(lambda: "The race is over." in drawn(app.app), "the headline")


def test_a_race_from_its_key_to_its_replay(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await app.until(lambda: stages(screen) == [Stage.RUNNING, Stage.WAITING], "the plain arm")
        assert "1 of 2: plain decoding runs alone." in drawn(app.app)
        await app.until(lambda: "w1.0" in drawn(app.app), "its text")
        assert "live" in drawn(app.app) and "waits for its turn" in drawn(app.app)
        await app.press("r")
        assert stages(screen)[0] is Stage.RUNNING, "there is nothing to play yet"
        await app.until(lambda: stages(screen) == [Stage.RUNNING] * 2, "the ghost beside the other arm")
        assert "from memory" in drawn(app.app) and "2 of 2" in drawn(app.app)
        await over(app, screen)
        shown = drawn(app.app)
        assert "times as fast as plain decoding" in shown
        assert "Finished: plain after 1.5" in shown
        assert "The texts are identical: all 60 tokens." in shown
        await app.ended()
        for key in ("r", "space"):
            await app.press(key)
            await app.until(lambda: stages(screen) == [Stage.RUNNING] * 2, "both from the start")
            assert "Both side by side" in drawn(app.app)
            assert app.lab.state.busy is None, "the engine is not asked"
            await over(app, screen)
        await app.press("escape")
        await app.top("LiveScreen")
        assert app.lab.conversation.messages == QUESTION
        assert app.lab.state.run == 0
        assert not app.app.store.list(), "nothing was changed, so nothing is saved"
        await app.press("ctrl+r")
        await app.until(lambda: app.lab.answered, "an answer")

    go(test, tmp_path)


@pytest.mark.parametrize("arm", ["plain", "speculative"])
def test_escape_ends_the_arm_in_progress(arm: str, tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await app.until(lambda: screen.state.running == arm, "the arm")
        await app.press("escape")
        await app.top("LiveScreen")
        await app.ended()
        assert screen.state.result is None
        assert app.app.racing is None
        assert app.session._cancelled.is_set()
        await app.press("A")
        again = await app.top("RaceScreen")
        assert isinstance(again, RaceScreen)
        await app.until(lambda: again.state.running == "plain", "another race")
        await app.press("escape")

    go(test, tmp_path, SLOW)


def test_the_end_of_a_race_cancels_nothing(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        await app.ended()
        await app.press("escape")
        await app.ended()
        assert not app.session._cancelled.is_set()

    go(test, tmp_path, BRIEF)


@pytest.mark.parametrize("timed", [False, True])
def test_a_failure_takes_the_place_of_the_race(timed: bool, tmp_path: Path) -> None:
    """In the warm-up of the speculative arm, or in the arm itself."""

    async def test(app: Driven, screen: RaceScreen) -> None:
        error = DoesNotFit("the pair needs 34 GB, 16 GB are free", "use a smaller dtype")
        if timed:
            await app.until(lambda: screen.state.running == "plain", "the plain arm")
        app.session.script = dataclasses.replace(SHORT, rounds=SHORT.rounds[:2], run_error=error)
        await app.top("ErrorModal")
        assert "34 GB" in drawn(app.app)
        assert screen not in app.app.screen_stack
        await app.press("escape")
        await app.top("LiveScreen")
        await app.ended()
        app.session.script = SHORT
        await app.press("A")
        again = await app.top("RaceScreen")
        assert isinstance(again, RaceScreen)
        await app.until(lambda: again.state.running == "plain", "a sound engine")
        await app.press("escape")

    go(test, tmp_path)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36), (200, 50)])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_size(size: tuple[int, int], ascii_only: bool, tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        shown = drawn(app.app)
        for words in (
            "Plain",
            "Speculative, K 5: l",
            "60 tokens",
            "tok/s",
            "prompt",
            "finished",
            "identical",
        ):
            assert words in shown, shown
        assert max(map(len, shown.split("\n"))) <= size[0]
        assert not ascii_only or shown.isascii()
        for lane in (screen.lane("plain"), screen.lane("speculative")):
            assert lane.text.size.height >= 4, "the text has room"
            assert lane.head.size.height == 4

    go(test, tmp_path, BRIEF, size=size, ascii=ascii_only)


def test_another_size_in_the_middle_of_a_race(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await app.until(lambda: screen.state.running == "speculative", "the second arm")
        for size in ((60, 20), (160, 40), (40, 12), (100, 30)):
            await app.pilot.resize_terminal(*size)
            await app.pilot.pause(0.05)
        await over(app, screen)
        assert "identical" in drawn(app.app)
        text = screen.lane("plain").text
        rows = [text.build_row(y).text for y in range(text.row_total())]
        assert "".join("".join(rows).split()) == "".join(
            "".join(token.piece.decode().split()) for token in screen.state.plain.view.output
        )

    go(test, tmp_path)


def test_marks_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        strips = app.app.screen._compositor.render_strips()
        looks = {
            (bool(segment.style.bold), bool(segment.style.underline))
            for strip in strips
            for segment in strip
            if segment.style is not None and segment.text.strip().startswith("w2")
        }
        assert {(False, False), (True, True)} <= looks, "accepted ones and corrections"

    go(test, tmp_path, Script(rounds=(make_round(1, 2, 2), make_round(2, 3, 1))))


def test_tokens_that_a_terminal_would_obey(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        assert_harmless(app.app)

    pieces = [text.encode() for text in NASTY]
    rounds = tuple(make_round(at, 1, 1, pieces=[piece, piece]) for at, piece in enumerate(pieces, 1))
    go(test, tmp_path, Script(rounds=rounds))


def test_sampled_texts_differ_by_chance(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        assert "differ by chance" in drawn(app.app)

    go(test, tmp_path, BRIEF, config=with_values(CONFIG, {"sampling.temperature": 0.7}))


def test_what_the_engine_has_to_say_about_the_drafter(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        screen.tell(ArmEvent("speculative", Notice(0, 0, "speculation_off", "drafter [full]\x1b[2J")))
        await over(app, screen)
        assert "drafter [full]" in drawn(app.app)
        assert_harmless(app.app)

    go(test, tmp_path, BRIEF)


def test_nothing_is_drawn_while_both_clocks_stand(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await over(app, screen)
        await app.pilot.pause(0.5)
        frames = screen._pump.frames
        await app.pilot.pause(0.5)
        assert screen._pump.frames == frames

    go(test, tmp_path, BRIEF)


def test_where_there_is_nothing_to_race_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with driven(tmp_path, SHORT, messages=(Message("assistant", "Hello."),)) as app:
            await app.press("A")
            await app.until(lambda: "nothing to answer" in app.said, "the toast")
            assert type(app.screen).__name__ == "LiveScreen"
        async with driven(tmp_path, SHORT, messages=()) as app:
            assert app.app.check_action("race_start", ()) is False
        async with driven(tmp_path, SHORT, load=False) as app:
            assert app.app.check_action("race_start", ()) is False
        async with driven(tmp_path, SHORT, messages=ANSWERED) as app:
            assert app.app.check_action("race_start", ()) is True
            app.app.action_demo_play()
            assert app.app.check_action("race_start", ()) is False, "a recording has no models"

    asyncio.run(scenario())


def test_a_race_takes_the_place_of_a_measurement_and_waits_for_no_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with driven(tmp_path, dataclasses.replace(SHORT, pause_s=0.3)) as app:
            app.lab.start()
            await app.until(lambda: app.lab.running, "the answer")
            assert app.app.check_action("race_start", ()) is False
            app.session.script = dataclasses.replace(SHORT, rounds=SHORT.rounds[:2])
            await app.until(lambda: app.lab.state.baseline is not None, "the measurement")
            await app.press("A")
            screen = await app.top("RaceScreen")
            assert isinstance(screen, RaceScreen)
            await app.until(lambda: screen.state.result is not None, "the race")

    asyncio.run(scenario())


def test_the_program_ends_in_the_middle_of_a_race(tmp_path: Path) -> None:
    async def test(app: Driven, screen: RaceScreen) -> None:
        await app.until(lambda: screen.state.running == "plain", "the plain arm")
        await app.press("ctrl+q")

    go(test, tmp_path)
