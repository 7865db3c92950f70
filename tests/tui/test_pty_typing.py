"""Typing on a real (emulated) terminal: keys that come in one read, and an editor that fails."""

from __future__ import annotations

import json
from pathlib import Path

from support.pty_app import PtyApp
from support.terminal import spec_argv

CONFIG = '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n'
CONTEXT = '[{"role": "user", "content": "Hello"}]'


def start(folder: Path, **env: str) -> PtyApp:
    (folder / "config.toml").write_text(CONFIG)
    (folder / "context.json").write_text(CONTEXT)
    names = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
    homes = {name: str(folder / sub) for name, sub in names.items()}
    argv = spec_argv("config.toml", "context.json", "--app", script="Script()")
    return PtyApp(argv, cwd=folder, env={**homes, **env})


def said(folder: Path) -> list[str]:
    """What the saved conversations hold of the user's."""
    texts = []
    for path in (folder / "data").rglob("*.json"):
        messages = json.loads(path.read_text("utf-8"))["messages"]
        texts += [message["content"] for message in messages if message["role"] == "user"]
    return texts


def test_a_line_in_one_read_is_sent_whole(tmp_path: Path) -> None:
    with start(tmp_path) as app:
        app.until(" ready ")
        app.press(b"0")
        app.until("\u23ce Send")
        app.press(b"Say hi to all of the ten penguins\r")
        app.until("ended: ")
        app.press(b"1")
        app.until("penguins")
        app.press(b"\x11")
        assert app.wait() == 0
    assert "Say hi to all of the ten penguins" in said(tmp_path)


def test_an_edit_and_its_save_in_one_read(tmp_path: Path) -> None:
    with start(tmp_path, VISUAL="", EDITOR="/no/such/editor") as app:
        app.until(" ready ")
        app.press(b"1")
        app.until("e Edit")
        app.press(b"e")
        app.until("Edit message 1")
        app.press(b"\x1bOS")  # F4
        app.until("there is no editor")
        app.press(b", all of you ten penguins\x13")
        app.until("penguins")
        while "Edit message 1" in app.text:
            assert app.pump()
        app.press(b"\x11")
        assert app.wait() == 0
        app.assert_restored()
    assert said(tmp_path) == ["Hello, all of you ten penguins"]
