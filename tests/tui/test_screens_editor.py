"""The editor of a message, and the user's own."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nasty import NASTY, assert_harmless, drawn
from textual.app import App
from textual.widgets import Select

from engine.context import Message
from engine.errors import SpeculateError, UserError
from tui.external_editor import edit_outside, editor_command
from tui.screens.editor import EditorModal
from tui.widgets.inputs import SafeTextArea

OPEN = Message("tool", "still open")
HI = Message("user", "Hi")


class EditorApp(App[None]):
    """An app that can be suspended, though it is a test's."""

    result: Message | None = OPEN

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        yield

    def done(self, result: Message | None) -> None:
        self.result = result


def edit(*keys: str, message: Message = HI, role: str = "", **options: bool) -> EditorApp:
    app = EditorApp()

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(EditorModal(message, "Edit message 1", **options), app.done)
            await pilot.pause()
            assert_harmless(app)
            if role:
                app.screen.query_one(Select).value = role
            await pilot.press(*keys)
            await pilot.pause()
            app.title = drawn(app)

    asyncio.run(run())
    return app


def test_saving() -> None:
    assert edit("!", "ctrl+s").result == Message("user", "Hi!")
    assert edit("ctrl+s", role="assistant").result == Message("assistant", "Hi")
    assert edit("enter", "x", "ctrl+s").result == Message("user", "Hi\nx")


def test_leaving() -> None:
    assert edit("escape").result is None
    assert edit("x", "escape").result is OPEN
    assert edit("x", "escape", "y").result is None
    assert edit("x", "escape", "n", "ctrl+s").result == Message("user", "Hix")


def test_an_empty_message_is_not_saved() -> None:
    empty = Message("system", "")
    app = edit("ctrl+s", message=empty)
    assert app.result is OPEN and "The message is empty" in app.title
    assert edit("ctrl+s", message=empty, may_be_empty=True, fixed_role=True).result == empty


def test_what_is_not_changed_stays_as_it_is() -> None:
    message = Message("user", "a\r\nb\x85c\u2028" + "\n".join(NASTY))
    assert edit("ctrl+s", message=message).result == message


def script(tmp_path: Path, code: str) -> str:
    path = tmp_path / "editor.py"
    path.write_text(f"import sys, os, pathlib\npath = pathlib.Path(sys.argv[-1])\n{code}\n", encoding="utf-8")
    return f"{sys.executable} {path}"


def test_own_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", script(tmp_path, "path.write_text(path.read_text() + ' there\\n')"))
    assert edit("f4", "ctrl+s").result == Message("user", "Hi there")
    monkeypatch.setenv("VISUAL", "no-such-editor-here")
    app = edit("f4")
    assert app.result is OPEN and "there is no editor 'no-such-editor-here'" in app.title
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    assert "no editor is set" in edit("f4").title


def test_a_terminal_that_cannot_be_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        app: App[None] = App()
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(EditorModal(Message("user", "Hi"), "Edit"))
            await pilot.press("f4")
            assert "cannot be handed" in drawn(app)
            assert app.screen.query_one(SafeTextArea).text == "Hi"

    monkeypatch.setenv("EDITOR", "true")
    asyncio.run(run())


def test_the_file_is_private_and_removed(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"pathlib.Path({str(note)!r}).write_text(f'{{os.stat(path).st_mode}} {{path}}')"
    assert edit_outside("x\r\ny", script(tmp_path, code).split()) == "x\r\ny"
    mode, name = note.read_text().split()
    assert stat.S_IMODE(int(mode)) == 0o600
    assert not Path(name).exists()


@pytest.mark.parametrize(
    "code", ["sys.exit(3)", "path.unlink()", "path.write_bytes(b'\\xff')", "path.write_bytes(b'a\\0')"]
)
def test_what_editors_do_wrong(tmp_path: Path, code: str) -> None:
    with pytest.raises(SpeculateError):
        edit_outside("x", script(tmp_path, code).split())


def test_editor_commands() -> None:
    assert editor_command({"VISUAL": "code -w", "EDITOR": "vi"}) == ["code", "-w"]
    assert editor_command({"EDITOR": "'/a b/vi'"}) == ["/a b/vi"]
    for environment in ({}, {"EDITOR": "' "}, {"EDITOR": " "}):
        with pytest.raises(UserError):
            editor_command(environment)
