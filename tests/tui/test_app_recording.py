"""The whole app records: by key or always, from the next run on, until it is stopped, fails or ends."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.app import CONFIG, LONG, Driven, driven, run
from support.nasty import drawn
from support.scripted import Script, make_round

from engine.config import RecordConfig, load_config
from engine.events import EndReason, Round, RunFinished, RunStarted
from engine.recording import Recorder, Recording, read_recording
from tui.recording_folder import RecordingFolder
from tui.state import Phase
from tui.widgets.transport import TransportBar

ALWAYS = CONFIG.model_copy(update={"record": RecordConfig(always=True)})


def folder(tmp_path: Path) -> RecordingFolder:
    return RecordingFolder(tmp_path / "state" / "recordings")


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state" / "recordings").glob("*"), key=lambda path: path.stat().st_mtime_ns)


def read(tmp_path: Path) -> Recording:
    (path,) = files(tmp_path)
    return read_recording(path)


def runs(recording: Recording) -> list[int]:
    return [event.run for event in recording.events if isinstance(event, RunStarted)]


def sign(app: Driven) -> str:
    return app.app.live.query_one(TransportBar).text


async def answer(app: Driven) -> None:
    app.lab.start()
    before = app.lab._ended
    await app.until(lambda: app.lab._ended > before, "the answer")
    await app.ended()


def test_the_key_records_from_the_next_run_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, recordings=folder(tmp_path)) as app:
            await answer(app)
            assert "REC" not in sign(app)
            await app.press("R")
            assert "Recording from the next run on" in app.said
            assert "REC from next run" in sign(app)
            assert files(tmp_path) == [], "no run, no file"
            await answer(app)
            await answer(app)
            assert " REC " in sign(app) and "next run" not in sign(app)
            (path,) = files(tmp_path)
            assert path.name.endswith("-scripted+lookup.jsonl")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            await app.press("R")
            assert f"Recorded {path.name}" in app.said
            assert "REC" not in sign(app)
            await answer(app)
        recording = read(tmp_path)
        assert runs(recording) == [2, 3], "what came before and after is not in it"
        assert recording.whole and recording.header["context"][0]["content"] == "Hello, who is there?"
        assert recording.header["config"]["verify"]["model_name"] == "scripted"

    run(test)


def test_a_run_on_its_way_is_not_torn(tmp_path: Path) -> None:
    """Pressed in its middle: it begins with the next run, and ends with this one."""

    async def test() -> None:
        async with driven(tmp_path, LONG, recordings=folder(tmp_path)) as app:
            await app.running()
            await app.press("R")
            assert "from the next run on" in app.said
            await app.press("escape")
            await app.ended()
            assert files(tmp_path) == []
            await app.running()
            await app.press("R")
            assert "The recording ends with this answer" in app.said
            assert " REC " in sign(app)
            await app.press("R")
            assert "The recording goes on" in app.said
            await app.press("R", "escape")
            await app.ended()
            await app.until(lambda: "Recorded " in app.said and "REC" not in sign(app), "the end")
        events = read(tmp_path).events
        finished = [event for event in events if isinstance(event, RunFinished)]
        assert [event.reason for event in finished] == [EndReason.CANCELLED]
        assert sum(isinstance(event, Round) for event in events) > 1

    run(test)


def test_a_measurement_is_not_cut_short_by_the_key(tmp_path: Path) -> None:
    script = Script(rounds=(make_round(1, 3, 3),), pause_s=2.0)

    async def test() -> None:
        async with driven(tmp_path, script, recordings=folder(tmp_path)) as app:
            await app.press("R")
            app.lab.start()
            await app.until(lambda: app.phase is Phase.BASELINE, "the measurement")
            await app.press("R")
            await app.ended()
            reference = app.lab.state.reference
            assert reference is not None and reference.complete
        assert type(read(tmp_path).events[-1]).__name__ == "BaselineFinished"

    run(test)


def test_pressed_twice_nothing_is_recorded(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, recordings=folder(tmp_path)) as app:
            await app.press("R", "R")
            assert "Nothing will be recorded." in app.said
            await answer(app)
        assert files(tmp_path) == []

    run(test)


def test_always_records_from_the_first_run_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, config=ALWAYS, recordings=folder(tmp_path)) as app:
            assert "REC from next run" in sign(app)
            await answer(app)
            assert " REC " in sign(app)
            await app.press("R")
            await answer(app)
        assert runs(read(tmp_path)) == [1], "the key stops it for this session"

    run(test)


def test_always_is_a_switch_of_the_settings(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, recordings=folder(tmp_path)) as app:
            assert app.app.change({"record.always": True})
            await app.pilot.pause()
            assert "REC from next run" in sign(app)
            await answer(app)
            assert app.app.change({"record.always": False})
            await answer(app)
            assert "Recorded " in app.said and "REC" not in sign(app)
        assert runs(read(tmp_path)) == [1]

    run(test)


def test_models_loaded_again_begin_a_new_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, config=ALWAYS, recordings=folder(tmp_path)) as app:
            await answer(app)
            await answer(app)
            config = load_config("builtin", ["draft.num_draft_tokens=3", "record.always=true"])
            app.lab.load(config)
            await app.until(lambda: app.lab.loaded and app.lab.config is config, "the other models")
            await answer(app)
            assert "Other models, another file" in app.said
        first, second = files(tmp_path)
        assert [runs(read_recording(path)) for path in (first, second)] == [[1, 2], [3]]
        assert "smollm2-135m+lookup" in second.name
        assert read_recording(first).whole

    run(test)


def test_an_answer_that_goes_on_with_other_models_stays_in_its_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG, config=ALWAYS, recordings=folder(tmp_path)) as app:
            await app.running()
            app.lab.change(load_config("builtin", ["verify.model_name=scripted", "run.threads=1"]))
            await app.until(
                lambda: app.lab.running and app.lab.state.settings_id > 1 and app.phase is Phase.RUNNING,
                "going on",
            )
            await app.press("escape")
            await app.ended()
            await app.press("R")
        events = read(tmp_path).events
        assert [event.resumed for event in events if isinstance(event, RunStarted)] == [False, True]

    run(test)


def test_a_file_that_the_user_named_holds_the_whole_session(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"

    async def test() -> None:
        async with driven(tmp_path, config=ALWAYS, recordings=folder(tmp_path)) as app:
            recorder = Recorder(path)
            from tui.engine_thread import Record

            app.app.engine.send(Record(recorder))
            app.app.recorder.adopt(recorder)
            await answer(app)
            assert " REC " in sign(app)
            app.lab.load(ALWAYS.model_copy())
            await app.loaded()
            await answer(app)
            await app.press("R")
            assert "Recorded mine.jsonl" in app.said
        assert runs(read_recording(path)) == [1, 2]
        assert files(tmp_path) == []

    run(test)


def full(after: int) -> Callable[[int, Any], int]:
    """A disk that takes so many lines of recordings."""
    write, left = os.write, [after]

    def refusing(fd: int, data: Any) -> int:
        if bytes(data[:9]) in {b'{"event":', b'{"format"'}:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    return refusing


@pytest.mark.parametrize("lines", [0, 5])
def test_a_full_disk_is_told_once_and_the_app_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    async def test() -> None:
        async with driven(tmp_path, config=ALWAYS, recordings=folder(tmp_path)) as app:
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", full(lines))
                await answer(app)
                await answer(app)
            assert app.said.count("the recording ends here") == 1
            assert "No space left" in app.said or "no space left" in app.said
            assert app.phase is Phase.READY and "REC" not in sign(app)
            await app.press("R")
            await answer(app)
            assert " REC " in sign(app), "asked for again, it is tried again"
        recordings = [read_recording(path) for path in files(tmp_path)]
        assert [len(recording.events) for recording in recordings][:-1] == ([lines - 1] if lines else [])
        assert all(recording.whole for recording in recordings)

    run(test)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")

    async def test() -> None:
        async with driven(tmp_path, recordings=folder(tmp_path)) as app:
            await app.press("R")
            await app.top("ErrorModal")
            assert "cannot create the folder" in drawn(app.app)
            await app.press("escape")
            assert "REC" not in sign(app)

    run(test)


def test_a_file_that_cannot_be_made_ends_the_recording_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with driven(tmp_path, recordings=folder(tmp_path)) as app:
            await app.press("R")
            (tmp_path / "state" / "recordings").rmdir()
            (tmp_path / "state").rmdir()
            (tmp_path / "state").write_text("a file")
            await answer(app)
            await app.top("ErrorModal")
            assert app.lab.state.finished is not None and "REC" not in sign(app)

    run(test)


def test_quitting_in_the_middle_leaves_a_whole_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG, config=ALWAYS, recordings=folder(tmp_path)) as app:
            await app.running()
            await app.app.action_quit()

    run(test)
    recording = read(tmp_path)
    assert recording.whole
    assert any(isinstance(event, Round) for event in recording.events)


def test_a_run_that_never_begins_leaves_no_file(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, config=ALWAYS, recordings=folder(tmp_path)) as app:

            def refuse(*_: object, **__: object) -> Any:
                raise OSError("the prompt cannot be made")
                yield

            app.session.generate = refuse
            app.lab.start()
            await app.top("ErrorModal")
            await app.press("escape")
            await app.press("R")
            assert "nothing was recorded" in app.said
        assert files(tmp_path) == []

    run(test)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_first_line_says_it_at_every_width(tmp_path: Path, columns: int, ascii_only: bool) -> None:
    async def test() -> None:
        async with driven(
            tmp_path,
            replace(LONG, rounds=(*LONG.rounds, make_round(400, 3, 3))),
            config=ALWAYS,
            recordings=folder(tmp_path),
            size=(columns, 24),
            ascii=ascii_only,
        ) as app:
            await app.running()
            first = drawn(app.app).splitlines()[0]
            assert f"{'o' if ascii_only else '●'} REC running" in first
            style = app.app.live.query_one(TransportBar)._parts[1][1]
            assert "error" in style

    run(test)
