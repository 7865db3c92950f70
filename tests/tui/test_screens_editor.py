"""The editor of a message, and the user's own."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from support.bursts import type_at_once
from support.nasty import NASTY, assert_harmless, drawn, wait_until
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Select

from engine.context import Message
from engine.errors import DiskError, SpeculateError, UserError
from tui.external_editor import edit_outside, editor_command
from tui.screens.editor import EditorModal
from tui.widgets.inputs import SafeTextArea

OPEN = Message("tool", "still open")
HI = Message("user", "Hi")


class EditorApp(App[None]):
    """An app of a test that can be suspended. As the real one, it comes back only if nothing is raised."""

    # As in the app: Textual's own key would not ask the dialogs first.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", priority=False)]
    result: Message | None = OPEN
    away = False
    quitted = False

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        self.away = True
        yield
        self.away = False

    async def action_quit(self) -> None:
        self.quitted = True

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
    app = edit("f4", "x", "ctrl+s")
    assert app.result == Message("user", "Hix")
    assert not app.away, "the terminal comes back"
    app = edit("f4")
    assert app.result is OPEN and "there is no editor 'no-such-editor-here'" in app.title
    monkeypatch.setenv("VISUAL", script(tmp_path, "sys.exit(3)"))
    app = edit("f4")
    assert not app.away and "ended with status 3" in app.title
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


@pytest.mark.parametrize("code", ["sys.exit(3)", "path.unlink()"])
def test_an_editor_that_leaves_nothing(tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(SpeculateError):
        edit_outside("x", script(tmp_path, code).split())
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("path.write_bytes(b'caf\\xe9')", b"caf\xe9"),
        ("path.write_bytes(b'a\\0')", b"a\0"),
        ("path.write_text('new'); sys.exit(1)", b"new"),
    ],
)
def test_what_cannot_be_taken_over_is_kept_and_named(
    tmp_path: Path, code: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with pytest.raises(SpeculateError) as caught:
        edit_outside("x", script(tmp_path, code).split())
    (kept,) = (tmp_path / "temporary").iterdir()
    assert kept.read_bytes() == content
    assert caught.value.hint == f"What you wrote is kept in {kept}."


def test_an_editor_that_cannot_be_started(tmp_path: Path) -> None:
    program = tmp_path / "vi"
    program.write_bytes(b"\x7fELF, or not")
    program.chmod(0o700)
    with pytest.raises(UserError, match="cannot be started: Exec format error") as caught:
        edit_outside("x", [str(program)])
    assert "Set EDITOR" in (caught.value.hint or "")
    with pytest.raises(UserError, match="may not be run"):
        edit_outside("x", [str(tmp_path)])


def test_no_room_for_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(DiskError, match="cannot write a temporary file") as caught:
        edit_outside("x", ["true"])
    assert "TMPDIR" in (caught.value.hint or "")


def test_the_editors_complaints_reach_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "terminal").open("w+") as terminal:
        monkeypatch.setattr(sys, "__stderr__", terminal)
        edit_outside("x", script(tmp_path, "print('no such option', file=sys.stderr)").split())
    assert (tmp_path / "terminal").read_text() == "no such option\n"


def test_an_interrupt_is_the_editors(tmp_path: Path) -> None:
    code = "import signal; os.kill(os.getppid(), signal.SIGINT); path.write_text('done')"
    assert edit_outside("x", script(tmp_path, code).split()) == "done"


def test_what_was_typed_before_a_save_is_saved() -> None:
    async def run() -> None:
        app = EditorApp()
        async with app.run_test(size=(80, 24)) as pilot:
            app.push_screen(EditorModal(HI, "Edit message 1"), app.done)
            await pilot.pause()
            type_at_once(app, " to all of the ten penguins\x13")
            await wait_until(pilot, lambda: app.result is not OPEN)
            assert app.result == Message("user", "Hi to all of the ten penguins")

    asyncio.run(run())


def test_quitting_asks_where_something_would_be_lost() -> None:
    assert edit("ctrl+q").quitted
    assert not edit("x", "ctrl+q").quitted
    assert edit("x", "ctrl+q", "y").quitted
    assert not edit("x", "ctrl+q", "n").quitted


def test_the_keys_are_shown() -> None:
    title = edit().title
    assert "ctrl+s Save" in title and "F4 Own editor" in title and "esc Close" in title


def test_editor_commands() -> None:
    assert editor_command({"VISUAL": "code -w", "EDITOR": "vi"}) == ["code", "-w"]
    assert editor_command({"EDITOR": "'/a b/vi'"}) == ["/a b/vi"]
    for environment in ({}, {"EDITOR": "' "}, {"EDITOR": " "}):
        with pytest.raises(UserError):
            editor_command(environment)
