"""The app on a real (emulated) terminal: with the built-in model, and ended in every way."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.pty_app import PtyApp
from support.terminal import spec_argv

LONG = "Script(rounds=tuple(make_round(n, 3, n % 4) for n in range(1, 400)), pause_s=0.05)"
HUNG = "Script(stubborn_s=60.0)"
CONFIG = '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n'
CONTEXT = '[{"role": "user", "content": "Hello"}]'


def homes(folder: Path) -> dict[str, str]:
    """Everything but the cache of models is in a folder of the test's own."""
    names = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    return {name: str(folder / sub) for name, sub in names.items()}


def scripted(folder: Path, script: str, *more: str) -> PtyApp:
    (folder / "config.toml").write_text(CONFIG)
    (folder / "context.json").write_text(CONTEXT)
    argv = spec_argv("config.toml", "context.json", "--app", *more, script=script)
    return PtyApp(argv, cwd=folder, env=homes(folder))


def test_a_session_with_the_built_in_model(tmp_path: Path) -> None:
    endless = ("--set", "run.ignore_eos=true", "--max-new-tokens", "2000")
    argv = spec_argv("builtin", "--app", "--no-baseline", "--seed", "1", *endless)
    with PtyApp(argv, cwd=tmp_path, env=homes(tmp_path)) as app:
        app.until("Context")
        app.until(" ready ", patience=120)
        app.press(b"1")
        app.until("e Edit")
        app.press(b"Ge")  # the last message, in the editor
        app.until("Edit message 3")
        app.press(b" Be exact.")
        app.until("Be exact.")
        app.press(b"\x13")
        app.until("exact.")
        app.press(b"\x12")
        app.until("running")
        app.press(b"2")
        app.until("m Marks")
        app.press(b" ")
        app.until("paused")
        before = app.round
        app.press(b".")
        app.until(f" round {before + 1} ")
        app.until("paused")
        app.press(b",")
        app.until("Not judged yet")
        app.press(b"\x1b")
        app.until("ended: cancelled")
        app.press(b"S")
        app.until("running  run 2 ")
        app.press(b"\x1b")
        app.until("ended: cancelled")
        app.press(b"\x11")
        assert app.wait() == 0
        app.assert_restored()
    assert list((tmp_path / "data").rglob("*.json")), "the conversation is saved"


def test_the_first_start_plays_the_recording(tmp_path: Path) -> None:
    with PtyApp([sys.executable, "-m", "tui"], cwd=tmp_path, env=homes(tmp_path)) as app:
        app.until("REPLAY")
        app.until("ctrl+l loads the model itself")
        app.until("round 1")
        app.press(b"\x11")
        assert app.wait() == 0
        app.assert_restored()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal(tmp_path: Path, number: signal.Signals) -> None:
    with scripted(tmp_path, LONG) as app:
        app.until(" ready ")
        app.press(b"\x12")
        app.until(" round ")
        app.kill(number)
        assert app.wait() == 128 + number
        app.assert_restored()


def test_an_engine_that_hangs_does_not_keep_the_program(tmp_path: Path) -> None:
    with scripted(tmp_path, HUNG) as app:
        app.until(" ready ")
        app.press(b"\x12")
        app.until(" round 1 ")
        app.press(b"\x11")
        assert app.wait(15) == 0
        app.assert_restored()


def test_a_crash_of_the_screen_is_told_without_what_was_said(tmp_path: Path) -> None:
    crash = "(setattr(__import__('tui.app').app.SpecApp, '_offer', lambda app: 1 / 0), Script())[1]"
    with scripted(tmp_path, crash) as app:
        assert app.wait() == 1
        app.assert_restored()
        assert b"internal error: ZeroDivisionError" in app.raw
        assert b"Hello" not in app.raw.rpartition(b"\x1b[?1049l")[2]
    assert list((tmp_path / "state").rglob("error-*.log"))


def test_what_c_code_writes_does_not_reach_the_screen(tmp_path: Path) -> None:
    write = "lambda: __import__('os').write(2, b'NOISE')"
    noisy = f"(__import__('threading').Timer(1.0, {write}).start(), Script())[1]"
    with scripted(tmp_path, noisy) as app:
        app.until(" ready ")
        app.press(b"\x12")
        app.until("ended: ")
        for _ in range(40):
            app.pump()
        app.press(b"\x11")
        assert app.wait() == 0
        assert b"NOISE" not in app.raw
    assert "NOISE" in next((tmp_path / "state").rglob("app.log")).read_text()


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "xterm-16color", "COLORTERM": ""}])
def test_few_colours(tmp_path: Path, variable: dict[str, str]) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "context.json").write_text(CONTEXT)
    argv = spec_argv("config.toml", "context.json", "--app", "--ascii", script="Script()")
    with PtyApp(argv, cwd=tmp_path, columns=80, rows=24, env={**homes(tmp_path), **variable}) as app:
        app.until(" ready ")
        app.press(b"\x12")
        app.until("ended: ")
        assert app.text.isascii()
        app.press(b"\x11")
        assert app.wait() == 0
        app.assert_restored()


def test_the_app_needs_a_terminal(tmp_path: Path) -> None:
    from support.terminal import run_piped

    done = run_piped(spec_argv("builtin", "--app", script="Script()"), cwd=tmp_path)
    assert done.returncode == 2
    assert b"the app needs a terminal" in done.stderr
