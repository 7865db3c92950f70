"""The folder of recordings: names that every file system takes, nothing overwritten, nothing that waits."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.errors import DiskError
from tui.recording_folder import RecordingFolder, claimed, default_folder, free_path, name_problem

NOW = datetime(2026, 11, 30, 17, 5, 34, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> RecordingFolder:
    return RecordingFolder(tmp_path / "a" / "recordings")


def put(folder: RecordingFolder, name: str, text: str = "x", at: float = 1e9) -> Path:
    folder.prepare()
    path = folder.folder / name
    path.write_text(text)
    os.utime(path, (at, at))
    return path


@pytest.mark.parametrize(
    ("target", "drafter", "name"),
    [
        ("builtin:smollm2-135m", "lookup", "smollm2-135m+lookup"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen3-8B+Qwen3-0.6B"),
        ("/models/my model/", "./x.gguf", "my-model+x.gguf"),
        ("../..", "\x1b[2J\u202e", "model+2J"),
        ("a" * 300, "b" * 300, f"{'a' * 60}+{'b' * 60}"),
        ("-rf", ".hidden", "rf+hidden"),
    ],
)
def test_a_file_is_named_by_time_and_models(
    folder: RecordingFolder, target: str, drafter: str, name: str
) -> None:
    recorder = folder.begin(target, drafter, NOW)
    assert recorder.path.name == f"20261130-170534-{name}.jsonl"
    assert recorder.path.parent == folder.folder
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    recorder.close()
    assert folder.list() == [], "nothing was recorded"


def test_two_of_the_same_second_do_not_meet(folder: RecordingFolder) -> None:
    recorders = [folder.begin("t", "d", NOW) for _ in range(3)]
    names = {recorder.path.name for recorder in recorders}
    assert names == {
        "20261130-170534-t+d.jsonl",
        "20261130-170534-t+d-2.jsonl",
        "20261130-170534-t+d-3.jsonl",
    }
    for recorder in recorders:
        recorder.close()


def test_regular_files_are_listed_the_newest_first(folder: RecordingFolder) -> None:
    assert folder.list() == [], "there is no folder yet"
    put(folder, "old.jsonl", at=1e9)
    put(folder, "new", "xyz", at=2e9)
    put(folder, ".hidden.jsonl")
    (folder.folder / "sub").mkdir()
    os.mkfifo(folder.folder / "pipe.jsonl")
    (folder.folder / "nowhere.jsonl").symlink_to("gone")
    assert [(entry.title, entry.size) for entry in folder.list()] == [("new", 3), ("old", 1)]


@pytest.mark.parametrize(
    "title", ["", ".x", "..", "a/b", "../up", "a\0b", "a\nb", "\x1b[2J", "\udcff", "x" * 250, "\u65e5" * 84]
)
def test_a_name_that_is_none_is_refused(folder: RecordingFolder, title: str) -> None:
    path = put(folder, "one.jsonl")
    assert name_problem(title) is not None
    with pytest.raises(DiskError):
        folder.rename(path, title)
    assert path.exists()


@pytest.mark.parametrize("title", ["two", "two.jsonl", "x" * 249, "\u202eevil", "[red]", "a b"])
def test_a_name_may_be_anything_else(folder: RecordingFolder, title: str) -> None:
    path = put(folder, "one.jsonl", "text")
    new = folder.rename(path, title)
    assert new.read_text() == "text" and not path.exists()
    assert new.name == title.removesuffix(".jsonl") + ".jsonl"


def test_a_rename_never_overwrites(folder: RecordingFolder) -> None:
    path, other = put(folder, "one.jsonl", "1"), put(folder, "two.jsonl", "2")
    empty = put(folder, "empty.jsonl", "")
    for taken in (other, empty):
        with pytest.raises(DiskError, match="exists"):
            folder.rename(path, taken.name)
    assert [entry.read_text() for entry in (path, other, empty)] == ["1", "2", ""]
    assert folder.rename(path, "one") == path


def test_a_rename_that_fails_leaves_nothing_behind(folder: RecordingFolder) -> None:
    put(folder, "other.jsonl")
    with pytest.raises(DiskError, match="cannot rename"):
        folder.rename(folder.folder / "gone.jsonl", "new")
    assert [entry.title for entry in folder.list()] == ["other"]


def test_delete(folder: RecordingFolder) -> None:
    path = put(folder, "one.jsonl")
    folder.delete(path)
    folder.delete(path)
    assert not path.exists()
    with pytest.raises(DiskError, match="cannot delete"):
        folder.delete(folder.folder)


def test_a_name_is_held_while_its_content_comes(tmp_path: Path) -> None:
    path = tmp_path / "x.md"

    def fail() -> None:
        assert path.exists()
        raise RuntimeError

    with pytest.raises(RuntimeError), claimed(path):
        fail()
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(DiskError, match="exists"), claimed(path):
        raise AssertionError("the name is taken")
    assert path.read_text() == "mine"
    with pytest.raises(DiskError), claimed(tmp_path / "none" / "x"):
        raise AssertionError("there is no such folder")


def test_free_path(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    assert free_path(path) == path
    path.symlink_to("nowhere")
    assert free_path(path).name == "x-2.md"


def test_the_users_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "naive-speculate" / "recordings"
    assert RecordingFolder().folder == default_folder()
