"""The replay screen: every way through a recording, and out of it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from support.app import QUESTION, Driven, driven
from support.replays import HEADER, config_of, one_run, record, recording, timed
from support.scripted import TARGET
from textual.widgets import Static

from engine.config import RecordConfig
from engine.events import Failed, LoadFinished
from tui.bookmarks import Bookmarks
from tui.playable import load_demo, open_recording
from tui.screens.verdict import VerdictModal
from tui.state import Phase, visible_output
from tui.widgets.timeline import Timeline
from tui.widgets.transport import TransportBar

ROUNDS = 12


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@asynccontextmanager
async def replaying(folder: Path, path: Path | None = None) -> AsyncIterator[Driven]:
    """The app with a recording that stands at its beginning."""
    path = path or recording(folder / "r.jsonl", ROUNDS)
    played = open_recording(path)
    async with driven(folder, load=False, replay=played, messages=QUESTION) as app:
        await app.until(lambda: app.lab.replay is played.source, "the recording")
        app.lab.toggle_pause()
        app.lab.seek_step(0)
        await app.until(lambda: not played.source.seeking, "its beginning")
        app.app.live.go_to("output")
        yield app


def play(scenario: Callable[[Driven], Awaitable[None]], folder: Path, path: Path | None = None) -> None:
    async def go() -> None:
        async with replaying(folder, path) as app:
            await scenario(app)

    asyncio.run(go())


def where(app: Driven) -> tuple[int, int]:
    """Rounds that were told, and rounds of the state."""
    assert app.lab.replay is not None
    return app.lab.replay.step, len(app.lab.state.rounds)


def test_forward_and_back_by_round(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.press("full_stop", "full_stop", "full_stop")
        await app.until(lambda: where(app) == (3, 3), "three rounds")
        before = app.lab.state
        await app.press("f8")
        await app.until(lambda: where(app) == (4, 4), "a fourth")
        await app.press("backspace")
        assert where(app) == (3, 3)
        assert app.lab.state.phase is Phase.PAUSED
        assert app.lab.state.rounds == before.rounds and app.lab.state.output == before.output
        await app.press("shift+f8", "backspace", "backspace", "backspace")
        assert where(app) == (0, 0)
        assert "REPLAY" in app.app.live.query_one(TransportBar).text

    play(go, tmp_path)


def test_back_by_token_undoes_forward_by_token(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        seen: list[tuple[int, int | None, int]] = []

        def look() -> tuple[int, int | None, int]:
            state = app.lab.state
            return len(state.rounds), state.revealed, len(visible_output(state))

        app.lab.seek_step(2)
        for _ in range(14):
            seen.append(look())
            await app.press("comma")
            await app.until(lambda: look() != seen[-1], "the next token")
        assert len(set(seen)) == len(seen), "each press shows something more"
        for before in reversed(seen):
            await app.press("semicolon")
            await app.until(lambda: app.lab.replay is not None and not app.lab.replay.seeking, "the place")
            assert look() == before

    play(go, tmp_path)


def test_back_by_token_from_the_end_of_a_run(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        assert app.lab.replay is not None
        app.lab.replay.seek(len(app.lab.replay.tape))
        app.lab.drain()
        assert app.lab.state.finished is not None
        await app.press("semicolon")
        assert app.lab.state.finished is None
        assert where(app) == (ROUNDS, ROUNDS)
        assert app.lab.state.revealed is not None

    play(go, tmp_path)


def test_markers_lead_to_the_rounds_of_a_kind(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.until(lambda: app.app.survey is not None and app.app.survey.whole, "the survey")
        await app.press("right_square_bracket")
        assert where(app)[0] == 4, "the first round that is rejected at once"
        await app.press("right_square_bracket", "right_square_bracket")
        assert where(app)[0] == 12
        await app.press("right_square_bracket")
        assert "No more after this round" in app.said
        await app.press("left_square_bracket")
        assert where(app)[0] == 8
        await app.press("M", "left_square_bracket")
        assert where(app)[0] == 7, "all accepted"

    play(go, tmp_path)


def test_bookmarks_are_kept(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.press("B")
        assert "go to one first" in app.said
        app.lab.seek_step(5)
        await app.press("B")
        app.lab.seek_step(9)
        await app.press("B", "left_square_bracket")
        assert where(app)[0] == 5
        await app.press("B", "right_square_bracket")
        assert where(app)[0] == 9
        assert app.lab.replay is not None
        again = Bookmarks(app.lab.replay.tape.header)
        assert again.rounds == [8]
        assert (tmp_path / "state").stat().st_mode

    play(go, tmp_path)


def test_speed_loop_and_waits(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        source = app.lab.replay
        assert source is not None
        await app.press("greater_than_sign")
        assert source.clock.speed == 2.0
        await app.press(*["less_than_sign"] * 9)
        assert source.clock.speed == 0.1
        await app.press(*["greater_than_sign"] * 9)
        assert source.clock.speed == 16.0
        whole = source.duration
        await app.press("I", "I")
        assert source.max_gap_s is None and source.duration >= whole
        assert "real time" in app.app.live.timeline.text
        await app.press("O", "space")
        assert source.loop
        await app.until(lambda: source.step > 3, "it plays")
        seen = [source.step]

        def again() -> bool:
            seen.append(source.step)
            return any(later < earlier for earlier, later in pairwise(seen))

        await app.until(again, "it began again")
        await app.press("space", "O")
        assert not source.loop and not source.clock.playing

    play(go, tmp_path)


def test_go_to_a_round_by_its_number(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.press("ctrl+g")
        await app.press(*["backspace"] * 3, "9", "9", "enter")
        assert len(app.app.screen_stack) == 2, "there is no such round"
        await app.press("backspace", "backspace", "7", "enter")
        await app.until(lambda: where(app) == (7, 7), "round 7")

    play(go, tmp_path)


def test_the_timeline_by_keys_and_mouse(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.press("7")
        line = app.app.live.timeline
        assert line.has_focus and line.display
        await app.press("right", "right")
        assert where(app) == (2, 2)
        await app.press("left", "end")
        assert where(app) == (ROUNDS, ROUNDS)
        await app.press("home", "pagedown")
        assert where(app) == (1, 1)
        await app.pilot.click(Timeline, offset=(line.size.width - 2, 0))
        assert where(app) == (ROUNDS, ROUNDS)
        await app.pilot.click(Timeline, offset=(2, 0))
        assert where(app) == (ROUNDS, ROUNDS), "words are no place to go to"
        assert f"{ROUNDS}/{ROUNDS}" in line.text

    play(go, tmp_path)


def test_leaving_brings_the_own_conversation_back(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        app.lab.seek_step(4)
        assert app.lab.conversation.messages[0].content == "Who is there?"
        await app.press("7", "escape")
        assert app.lab.replay is None
        assert app.lab.conversation.messages == QUESTION
        assert not app.app.live.timeline.display
        assert app.app.live.focused is not app.app.live.timeline

    play(go, tmp_path)


def test_a_fork_is_the_conversation_up_to_the_round(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        app.lab.seek_step(4)
        text = "".join(app.lab.state.text)
        ids = tuple(token.id for token in app.lab.state.output)
        await app.press("b")
        assert app.lab.replay is None
        roles = [(message.role, message.content) for message in app.lab.conversation.messages]
        assert roles == [("user", "Who is there?"), ("assistant", text)]
        assert "c goes on" in app.said
        app.app.load(app.lab.config)
        await app.until(lambda: app.lab.loaded, "the models")
        await app.press("c")
        await app.until(lambda: app.session.given == ids, "it goes on from the very tokens")

    play(go, tmp_path)


def test_a_fork_asks_for_the_settings_where_they_differ(tmp_path: Path) -> None:
    header = {**HEADER, "config": config_of(num_draft_tokens=3)}
    path = recording(tmp_path / "r.jsonl", ROUNDS, header)

    async def go(app: Driven) -> None:
        app.lab.seek_step(2)
        await app.press("b")
        assert len(app.app.screen_stack) == 2
        await app.press("escape")
        assert app.lab.replay is not None, "nothing was decided"
        await app.press("b", "down", "enter")
        await app.until(lambda: app.lab.replay is None, "the fork")
        assert app.lab.config.draft.num_draft_tokens == 3
        assert app.lab.config.record.path is None
        assert not app.lab.loading and app.lab.state.target is None, "nothing is loaded by it"

    play(go, tmp_path, path)


def test_it_is_checked_by_a_key(tmp_path: Path) -> None:
    async def go(app: Driven) -> None:
        await app.press("v")
        await app.until(lambda: isinstance(app.app.screen, VerdictModal), "the verdict")
        # The scripted rounds are made by hand: their draws are not those of the seed.
        assert "checks found something that cannot be" in words(app)
        await app.press("escape")
        app.app.play(load_demo() or open_recording("gone"))
        await app.until(lambda: app.app.recorded is not None and app.app.recorded.drafter == "lookup", "it")
        await app.press("v")
        await app.until(lambda: isinstance(app.app.screen, VerdictModal), "the verdict")
        assert "Nothing is wrong." in words(app)

    def words(app: Driven) -> str:
        return "\n".join(str(line.content) for line in app.app.screen.query(Static))

    play(go, tmp_path)


def test_each_run_has_its_own_messages(tmp_path: Path) -> None:
    loaded = LoadFinished(0, 0, "target", TARGET, 1.0)
    events = [loaded, *one_run(5), *one_run(5, number=2, question="And now?")]
    path = record(tmp_path / "r.jsonl", timed(events))

    async def go(app: Driven) -> None:
        for count, question in ((3, "Who is there?"), (8, "And now?"), (2, "Who is there?")):
            app.lab.seek_step(count)
            assert [message.content for message in app.lab.conversation.messages] == [question]

    play(go, tmp_path, path)


def test_a_damaged_recording_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", ROUNDS)
    lines = path.read_bytes().split(b"\n")
    lines[10] = lines[10][:40] + b"\x1b[31m" + lines[10][45:]
    path.write_bytes(b"\n".join(lines))

    async def go(app: Driven) -> None:
        source = app.lab.replay
        assert source is not None
        await app.press("space")
        await app.until(lambda: source.at_end, "its end")
        assert where(app)[1] == 5

        def offer() -> str:
            return str(app.app.live.query_one("#offer", Static).content)

        await app.until(lambda: "ends early" in offer(), "the reason")
        assert "line 11" in offer() and "\x1b" not in offer()
        app.lab.seek_step(2)
        assert where(app) == (2, 2)

    play(go, tmp_path, path)


def test_a_long_recording_lays_out_only_what_is_looked_at(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", 1_000)

    async def go(app: Driven) -> None:
        app.lab.seek_step(900)
        await app.pilot.pause()
        output = app.app.live.output
        assert output.row_total() < 200
        assert "tokens before" in output.build_row(0).text
        whole = len(app.lab.state.output)
        left_out = int(output.build_row(0).text.split()[1].replace(",", ""))
        assert 0 < left_out < whole
        for _ in range(3):
            await app.press("home")
            await app.pilot.pause(0.2)
        assert "tokens before" not in output.build_row(0).text
        assert output.build_row(0).text.startswith(" w1.0")

    play(go, tmp_path, path)


def test_a_recording_that_is_written_is_followed(tmp_path: Path) -> None:
    events = timed(one_run(6))
    path = record(tmp_path / "r.jsonl", events[:5])

    async def go() -> None:
        played = open_recording(path, speed=16.0, follow=True)
        async with driven(tmp_path, load=False, replay=played, messages=QUESTION) as app:
            await app.until(lambda: where(app)[1] == 2 if app.lab.replay else False, "what is there")
            with path.open("ab") as file:
                more = record(tmp_path / "more.jsonl", events[5:]).read_bytes()
                file.write(more.partition(b"\n")[2])
            await app.until(lambda: where(app)[1] == 6, "what came")
            assert app.lab.state.finished is not None

    asyncio.run(go())


def test_sixteen_times_its_pace_is_sixteen_times(tmp_path: Path) -> None:
    """Whatever the screen's pace: what is due is taken before the next frame, or left out."""
    events = [LoadFinished(0, 0, "target", TARGET, 1.0), *one_run(4_000)]
    told = [dataclasses.replace(event, seq=at, t_ns=at * 5_000_000) for at, event in enumerate(events, 1)]
    path = record(tmp_path / "r.jsonl", told)

    async def go(app: Driven) -> None:
        source = app.lab.replay
        assert source is not None
        source.clock.speed = 16.0
        await app.press("space")
        await asyncio.sleep(0.8)
        await app.press("space")
        assert source.step > 640, "four times its pace at least, of 2,560 that were due"
        assert source.clock.time == source.time

    play(go, tmp_path, path)


def test_a_fork_keeps_what_is_the_users_own(tmp_path: Path) -> None:
    header = {**HEADER, "config": config_of(num_draft_tokens=3)}
    path = recording(tmp_path / "r.jsonl", ROUNDS, header)

    async def go(app: Driven) -> None:
        mine = app.lab.config.model_copy(update={"record": RecordConfig(always=True)})
        app.lab.config = mine
        app.lab.seek_step(2)
        await app.press("b", "down", "enter")
        await app.until(lambda: app.lab.replay is None, "the fork")
        assert app.lab.config.record.always
        assert app.lab.config.ui == mine.ui
        assert app.lab.config.sampling.seed == mine.sampling.seed

    play(go, tmp_path, path)


def test_a_recorded_failure_is_told_in_a_line(tmp_path: Path) -> None:
    events = [*one_run(4)[:-1], Failed(0, 0, "OutOfMemory", "it does not \x1b[31m fit", None)]
    path = record(tmp_path / "r.jsonl", timed(events))

    async def go(app: Driven) -> None:
        for count in (4, 2, 4):
            app.lab.seek_step(count)
            await app.pilot.pause()
            assert len(app.app.screen_stack) == 1, "no dialog: it is over"
        offer = str(app.app.live.query_one("#offer", Static).content)
        assert "it failed when it was recorded" in offer and "\x1b" not in offer

    play(go, tmp_path, path)


def test_a_file_that_is_gone_ends_the_waiting(tmp_path: Path) -> None:
    ways: list[tuple[Callable[[Path], object], str]] = [
        (lambda path: path.unlink(), "is gone"),
        (lambda path: path.rename(path.with_suffix(".old")), "is gone"),
        (lambda path: os.truncate(path, 500), "was cut short"),
    ]
    for number, (spoil, words) in enumerate(ways):
        path = recording(tmp_path / f"{number}.jsonl", 3)
        played = open_recording(path, follow=True)
        source = played.source
        source.seek_step(3)
        while source.seeking:
            list(source.poll())
        assert list(source.poll()) == [] and source.tape.damage is None
        spoil(path)
        list(source.poll())
        assert words in (source.tape.damage or "")


def test_many_runs_are_gone_through_in_slices(tmp_path: Path) -> None:
    events = [event for number in range(1, 120) for event in one_run(1, number=number)]
    tape = open_recording(record(tmp_path / "r.jsonl", timed(events))).source.tape
    bits = list(tape.state_at(len(tape)))
    assert len(bits) > 119, "a bit of work a run at least"
    *_, last = bits
    assert last is not None and last.run == 119
    *_, again = tape.state_at(tape.steps[60])
    assert again is not None and again.run == 61


def test_files_are_closed_when_they_are_left(tmp_path: Path) -> None:
    path = recording(tmp_path / "r.jsonl", ROUNDS)

    def open_files() -> int:
        links = list(Path("/proc/self/fd").iterdir())
        return sum(link.exists() and link.resolve() == path.resolve() for link in links)

    async def go(app: Driven) -> None:
        for _ in range(3):
            app.app.play(open_recording(path))
            await app.pilot.pause()
        assert open_files() == 1
        app.lab.seek_step(3)
        await app.press("b")
        await app.until(lambda: app.lab.replay is None, "the fork")
        assert open_files() == 0

    play(go, tmp_path, path)
