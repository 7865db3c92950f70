"""Standard error, the engine's end, the user's keys, and what the app starts with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config import parse_config
from engine.context import Message, preset_context
from engine.errors import ConfigError
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.guards import guarded_stderr
from tui.keymap import load_keymap
from tui.keys import known_ids
from tui.launch import first_launch, launch_with
from tui.playable import PATH, load_demo

ROOT = Path(__file__).parents[2]
CONFIG = parse_config('[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "scripted"\n', "test")


def test_fd_2_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "state" / "app.log"
    before = sys.__stderr__
    with guarded_stderr(log):
        os.write(2, b"a library complains\n")
        assert sys.__stderr__ is not None and sys.__stderr__ is not before
        assert sys.__stderr__.fileno() != 2
    assert sys.__stderr__ is before
    assert log.read_bytes() == b"a library complains\n"
    assert log.stat().st_mode & 0o077 == 0


def test_without_a_place_for_the_log_it_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with guarded_stderr(tmp_path / "file" / "app.log"):
        os.write(2, b"a library complains\n")


@pytest.mark.parametrize(("stubborn", "ended"), [("0.0", True), ("60.0", False)])
def test_the_engine_is_ended_or_left(stubborn: str, ended: bool) -> None:
    code = f"""
import sys, time
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from support.app import CONFIG, QUESTION
from support.scripted import Script, Scripted
from tui.engine_thread import EngineThread, Generate
from tui.guards import shut_down
engine = EngineThread(CONFIG, session_factory=Scripted(Script(stubborn_s={stubborn})))
engine.start()
engine.send(Generate(QUESTION))
time.sleep(0.2)
shut_down(engine, 7, timeout=0.3)
print("ended in order")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == ((0, "ended in order\n") if ended else (7, "")), done.stderr


def test_a_crash_is_told_also_when_the_engine_hangs(tmp_path: Path) -> None:
    code = f"""
import sys, time
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from support.app import CONFIG, QUESTION
from support.scripted import Script, Scripted
from tui import start
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.engine_thread import Generate
from tui.launch import Launch
from pathlib import Path

class Crashing:
    crash, return_code = ValueError("the screen's mistake"), 1
    def __init__(self, engine, launch):
        self.engine = engine
    def run(self):
        self.engine.start()
        self.engine.send(Generate(QUESTION))
        time.sleep(0.3)

start.SpecApp = Crashing
launch = Launch(CONFIG, Conversation(), ConversationStore(Path({str(tmp_path)!r})))
start.run_app(launch, session_factory=Scripted(Script(stubborn_s=60.0)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.returncode == 1
    assert "internal error: ValueError: the screen's mistake" in done.stderr
    assert list((tmp_path / "state").rglob("error-*.log"))


# -- keys


def test_no_file_no_keys(tmp_path: Path) -> None:
    assert load_keymap(tmp_path / "keys.toml") == {}


def test_keys_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('"run.start" = "f5, ctrl+k,full_stop,shift+f6,space,+"\n"context.edit" = "x"\n')
    assert load_keymap(path) == {
        "run.start": "f5,ctrl+k,full_stop,shift+f6,space,+",
        "context.edit": "x",
    }
    assert {"run.start", "context.edit", "lines.search", "editor.save"} <= {*known_ids()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"run.strat" = "f5"', "run.strat: there is no such action"),
        ('"run.start" = 5', "run.start: is no text"),
        ('"run.start" = ', "line 1, column"),
        ('"run.start" = ' + "9" * 5000, "cannot be read"),
        ('"run.start" = ' + "[" * 5000, "cannot be read"),
        ('"run.start" = ""', "run.start: there is no key ''"),
        ('"run.start" = "f5,not a key at all"', "run.start: there is no key 'not a key at all'"),
        ('"run.start" = "crtl+x"', "there is no key 'crtl+x'"),
        ('[run]\nstart = "f5"', "run: is a table; an id with a dot stands in quotes"),
    ],
)
def test_a_key_file_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_keymap(path)
    assert message in caught.value.message
    assert "keys.toml" in caught.value.message


# -- start


def test_the_first_start_shows_the_recording(tmp_path: Path) -> None:
    launch = first_launch(store=ConversationStore(tmp_path))
    assert launch.demo
    assert not launch.load
    assert launch.conversation.messages == preset_context("builtin")


def test_a_later_start_goes_on(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    store.save(Conversation((Message("user", "Hello"),)))
    launch = first_launch(["run.rounds=3"], store=ConversationStore(tmp_path))
    assert not launch.demo
    assert launch.conversation.messages == (Message("user", "Hello"),)
    assert launch.config.run.rounds == 3


def test_a_start_with_a_configuration_loads_it(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    messages = (Message("user", "Hello"),)
    launch = launch_with(CONFIG, "config.toml", messages, store=store)
    assert launch.load
    assert launch.config_path == Path("config.toml")
    assert launch.conversation.messages == messages
    store.save(Conversation((Message("user", "Before"),)))
    assert launch_with(CONFIG, "config.toml", None, store=store).conversation.messages[0].content == "Before"


def test_a_start_with_a_preset_goes_on_with_what_began_with_it(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path)
    first = launch_with(CONFIG, "builtin", None, store=store)
    assert first.config_path is None
    assert first.conversation.messages == preset_context("builtin")
    mine = store.save(first.conversation.add(Message("assistant", "an answer")))
    store.save(Conversation((Message("user", "Something else, later"),)))
    again = launch_with(CONFIG, "builtin", None, store=ConversationStore(tmp_path))
    assert again.conversation.messages == mine.messages
    assert again.conversation.id == mine.id, "and it goes on in its file"
    other = store.save(launch_with(CONFIG, "builtin", None, store=store).conversation.renamed("older, open"))
    store.opened(other)
    assert launch_with(CONFIG, "builtin", None, store=store).conversation.name == "older, open"
    given = launch_with(CONFIG, "builtin", (Message("user", "x"),), store=store)
    assert given.conversation.messages == (Message("user", "x"),)


def test_the_shipped_recording_can_be_played() -> None:
    demo = load_demo(now=lambda: 0.0)
    assert demo is not None
    assert demo.messages == preset_context("builtin")
    assert demo.made[:2] == ("builtin:smollm2-135m", "lookup")
    assert demo.source.duration > 1
    assert PATH.stat().st_size < 500_000


def test_a_recording_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert load_demo(tmp_path / "demo.jsonl") is None
    (tmp_path / "demo.jsonl").write_text("{}")
    assert load_demo(tmp_path / "demo.jsonl") is None
