"""The whole app and its recordings: listed, played, and kept while they are in use."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from support.app import CONFIG, LONG, Driven, driven, run
from support.nasty import drawn
from support.recordings import Shelf

from engine.config import RecordConfig
from engine.recording import read_recording
from tui.playable import open_recording
from tui.recording_work import at_work, checked_playable
from tui.screens.library import LibraryScreen
from tui.state import Phase
from tui.widgets.transport import TransportBar

HEADER = b'{"format":"naive-speculate-recording","version":1,"context":5}\n'
ALWAYS = CONFIG.model_copy(update={"record": RecordConfig(always=True)})


async def library(app: Driven) -> LibraryScreen:
    await app.press("L")
    screen = await app.top("LibraryScreen")
    assert isinstance(screen, LibraryScreen)
    await app.until(lambda: all(row.told is not None for row in screen._rows.values()), "the summaries")
    return screen


def sign(app: Driven) -> str:
    return app.app.live.query_one(TransportBar).text


def test_a_recording_is_played_and_the_users_own_comes_back(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("mine.jsonl", [b" a", b" b", b" c"], target="org/recorded")

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings) as app:
            await library(app)
            await app.press("enter")
            await app.until(lambda: app.lab.replay is not None and len(app.lab.state.output) == 3, "the end")
            assert "REPLAY" in sign(app) and "recorded + lookup" in sign(app)
            assert app.lab.conversation.messages[0].content == "Who is there?"
            await library(app)
            await app.press("d")
            assert "mine is being played: it cannot be deleted." in drawn(app.app)
            await app.press("escape")
            app.lab.go_live()
            await library(app)
            await app.press("d", "y")
            await app.until(lambda: shelf.names == [], "the deletion")

    run(test)


def test_what_is_recorded_is_listed_and_kept_until_it_ends(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)

    async def test() -> None:
        async with driven(tmp_path, LONG, config=ALWAYS, recordings=shelf.recordings) as app:
            await app.running()
            screen = await library(app)
            (name,) = shelf.names
            assert "is being recorded" in drawn(app.app)
            await app.press("d")
            assert "is being recorded: it cannot be deleted" in " ".join(drawn(app.app).split())
            await app.press("r")
            assert app.screen is screen
            await app.press("escape", "escape")
            await app.ended()
            await app.press("R")
            await library(app)
            await app.press("r")
            await app.top("TextModal")
            await app.press("exclamation_mark", "enter")
            await app.until(lambda: shelf.names == [name.replace(".jsonl", "!.jsonl")], "the other name")

    run(test)
    assert read_recording(shelf.path(shelf.names[0])).whole


def test_a_run_that_is_on_its_way_ends_before_a_recording_is_played(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("mine.jsonl")

    async def test() -> None:
        async with driven(tmp_path, LONG, recordings=shelf.recordings) as app:
            await app.running()
            await library(app)
            await app.press("enter")
            await app.until(lambda: app.lab.replay is not None, "the recording")
            app.lab.go_live()
            assert app.phase is Phase.READY and app.lab.answered, "the partial answer is kept"

    run(test)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty, not a recording"),
        (b"\x89PNG\n", "is not a recording of this program"),
        (b'{"format":"naive-speculate-recording","version":1}\n', "holds no run"),
        (
            HEADER + b'{"event":"BaselineStarted","seq":1,"t_ns":1,"tokens":1}\n',
            "The conversation cannot be used",
        ),
    ],
)
def test_what_cannot_be_played_says_why(tmp_path: Path, content: bytes, words: str) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("bad.jsonl", content=content)

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings, size=(200, 50)) as app:
            await library(app)
            await app.press("enter")
            await app.top("ErrorModal")
            assert words in drawn(app.app)
            await app.press("escape")
            assert app.lab.replay is None

    run(test)


def test_a_torn_one_is_played_and_it_is_said(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    whole = shelf.put("torn.jsonl").read_bytes()
    shelf.put("torn.jsonl", content=whole[:-20])

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings) as app:
            await library(app)
            await app.press("enter")
            await app.until(lambda: app.lab.replay is not None, "the recording")
            assert "The last line of torn.jsonl is cut short" in app.said

    run(test)


def test_reading_does_not_hold_up_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(tmp_path)
    shelf.put("mine.jsonl")
    go, threads = threading.Event(), []

    def slow(path: Path) -> object:
        threads.append(threading.current_thread())
        assert go.wait(30)
        return checked_playable(path)

    monkeypatch.setattr("tui.app_library.checked_playable", slow)

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings) as app:
            await library(app)
            await app.press("enter")
            await app.until(lambda: threads, "the thread")
            assert "Reading mine.jsonl" in app.said
            await app.press("2")
            assert app.app.live.focused is app.app.live.output, "keys work meanwhile"
            go.set()
            await app.until(lambda: app.lab.replay is not None, "the recording")
            assert threads[0] is not threading.main_thread()

    run(test)


def test_no_screen_of_it_keeps_the_processor_busy(tmp_path: Path) -> None:
    """At rest nothing is laid out or painted again."""
    shelf = Shelf(tmp_path)
    shelf.put("one.jsonl")
    shelf.put("two.jsonl", [b" x"] * 40)

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings) as app:
            await library(app)
            for keys in ((), ("space", "down", "c")):
                await app.press(*keys)
                await app.pilot.pause(0.5)
                begin = sum(os.times()[:2])
                await asyncio.sleep(2.0)
                assert sum(os.times()[:2]) - begin < 0.2, app.screen

    run(test)


def test_a_file_that_is_played_is_known_by_any_path(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    path, link = shelf.put("one.jsonl"), tmp_path / "link.jsonl"
    link.symlink_to(path)

    async def test() -> None:
        async with driven(tmp_path, recordings=shelf.recordings) as app:
            app.app.play(open_recording(link))
            await app.until(lambda: app.lab.replay is not None, "the recording")
            assert app.app.use_of_recording(path) == "is being played"
            assert app.app.use_of_recording(tmp_path / "other.jsonl") == ""
            app.lab.go_live()
            assert app.app.use_of_recording(path) == ""

    run(test)


def test_a_race_waits_for_work_on_files(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as app:
            with at_work():
                await app.press("A")
                assert "start the race when that is done" in app.said
            assert app.app.racing is None

    run(test)
