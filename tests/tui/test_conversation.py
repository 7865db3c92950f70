"""A conversation: every edit can be undone, and saved files are never lost."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import ROLES, Message, load_context
from engine.errors import ContextError, DiskError
from engine.user_text import read_text
from tui.conversation import HISTORY_LIMIT, UNTITLED, Conversation
from tui.conversation_store import ConversationStore, export_context, import_context

MESSAGES = st.builds(Message, st.sampled_from(ROLES), st.text(max_size=8))
STARTS = st.lists(MESSAGES, max_size=5).map(lambda messages: Conversation(tuple(messages)))


@st.composite
def edits(draw: st.DrawFn, conversation: Conversation) -> Conversation:
    """The conversation after one operation with arguments that fit it."""
    length = len(conversation)
    anywhere = draw(st.integers(0, length))
    whole: dict[str, Callable[[], Conversation]] = {
        "add": lambda: conversation.add(draw(MESSAGES)),
        "insert": lambda: conversation.insert(anywhere, draw(MESSAGES)),
        "set_system": lambda: conversation.set_system(draw(st.none() | st.text(max_size=4))),
    }
    if not length:
        return whole[draw(st.sampled_from(sorted(whole)))]()
    index = draw(st.integers(0, length - 1))
    one: dict[str, Callable[[], Conversation]] = {
        "edit": lambda: conversation.edit(index, draw(MESSAGES)),
        "delete": lambda: conversation.delete(index),
        "duplicate": lambda: conversation.duplicate(index),
        "set_role": lambda: conversation.set_role(index, draw(st.sampled_from(ROLES))),
        "move": lambda: conversation.move(index, draw(st.integers(-6, 6))),
    }
    operations = {**whole, **one}
    return operations[draw(st.sampled_from(sorted(operations)))]()


@given(st.data(), STARTS)
def test_undo_gives_back_what_was_there(data: st.DataObject, before: Conversation) -> None:
    for _ in range(data.draw(st.integers(1, 5))):
        after = data.draw(edits(before))
        if after is before:
            continue
        assert after.undo() == before
        assert after.undo().redo() == after
        assert after.past[-1].label == after.undo().future[-1].label
        assert after.future == ()
        before = after


@given(st.data(), STARTS)
def test_undoing_everything_leads_to_the_start(data: st.DataObject, start: Conversation) -> None:
    now = start
    for _ in range(6):
        now = data.draw(edits(now))
    end = now
    while now.past:
        now = now.undo()
    assert now == start
    while now.future:
        now = now.redo()
    assert now == end


def test_operations() -> None:
    user, system = Message("user", "a"), Message("system", "s")
    talk = Conversation().add(user).add(Message("assistant", "b")).set_system("s")
    assert talk.messages == (system, user, Message("assistant", "b"))
    assert talk.system == "s"
    assert talk.set_system("  ").messages == talk.messages[1:]
    assert talk.move(0, 9).messages[-1] == system
    assert talk.move(2, -9).messages[0].content == "b"
    assert talk.edit(1, user) is talk


def test_history_is_bounded() -> None:
    talk = Conversation()
    for number in range(HISTORY_LIMIT + 50):
        talk = talk.add(Message("user", str(number)))
    assert len(talk.past) == HISTORY_LIMIT


def test_titles() -> None:
    assert Conversation().title == UNTITLED
    assert Conversation().add(Message("user", "  hi\n there ")).title == "hi there"
    assert len(Conversation().add(Message("user", "x" * 500)).title) == 60
    assert Conversation().renamed(" a  name ").title == "a name"


def store_of(path: Path) -> ConversationStore:
    return ConversationStore(path / "data" / "conversations")


def test_saving_and_restoring(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    assert store.restore() == (Conversation(), None)
    first = store.save(Conversation().add(Message("user", "one \ud800 half \x1b")))
    second = store.save(Conversation().add(Message("user", "two")))
    store.save(first.renamed("The first"))
    assert first.id is not None and second.id is not None
    path = store.folder / f"{first.id}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {saved.title for saved in store.list()} == {"The first", "two"}
    again, problem = store_of(tmp_path).restore()
    assert problem is None
    assert (again.title, again.messages) == ("The first", (Message("user", "one \ufffd half \x1b"),))
    assert not [name for name in store.folder.iterdir() if name.suffix == ".tmp"]


def test_only_changes_are_written(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    talk = store.save(Conversation().add(Message("user", "x")))
    path = store.folder / f"{talk.id}.json"
    before = path.stat().st_ino
    assert store.save(talk) == talk
    assert path.stat().st_ino == before
    store.save(talk.add(Message("user", "y")))
    assert path.stat().st_ino != before, "a file is replaced, not written into"


def test_a_file_changed_elsewhere_is_kept(tmp_path: Path) -> None:
    here, there = store_of(tmp_path), store_of(tmp_path)
    mine = here.save(Conversation().add(Message("user", "mine")))
    assert mine.id is not None
    there.save(there.load(mine.id).add(Message("user", "longer, from elsewhere")))
    saved = here.save(mine.add(Message("user", "y")))
    assert saved.id != mine.id
    assert len(here.list()) == 2
    assert here.load(mine.id).messages[-1].content == "longer, from elsewhere"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{broken",
        "[1]",
        '{"format": "naive-speculate conversation", "version": 99}',
        '{"format": "naive-speculate conversation", "version": 1, "name": 3, "messages": []}',
        '{"format": "naive-speculate conversation", "version": 1, "name": "", "messages": [{"role": 1}]}',
        "\x00",
    ],
)
def test_damaged_files_are_told_and_kept(tmp_path: Path, text: str) -> None:
    store = store_of(tmp_path)
    talk = store.save(Conversation().add(Message("user", "x")))
    path = store.folder / f"{talk.id}.json"
    path.write_text(text, encoding="utf-8")
    (damaged,) = store.list()
    assert damaged.problem
    fresh, problem = store_of(tmp_path).restore()
    assert fresh == Conversation() and problem
    saved = store.save(talk.add(Message("user", "y")))
    assert saved.id != talk.id
    assert path.read_text(encoding="utf-8") == text


def test_a_change_while_a_file_is_read_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(tmp_path)
    talk = store.save(Conversation().add(Message("user", "x")))
    assert talk.id is not None
    path = store.folder / f"{talk.id}.json"
    here = store_of(tmp_path)
    real = read_text

    def read(*args: Any) -> str:
        text = real(*args)
        other = store_of(tmp_path)
        monkeypatch.setattr("tui.conversation_store.read_text", real)
        other.save(other.load(talk.id or "").add(Message("user", "from elsewhere")))
        return text

    monkeypatch.setattr("tui.conversation_store.read_text", read)
    mine = here.save(here.load(talk.id).add(Message("user", "mine")))
    assert mine.id != talk.id
    assert "from elsewhere" in path.read_text("utf-8")


def test_the_last_opened_comes_back(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    first = store.save(Conversation().add(Message("user", "first")))
    second = store.save(Conversation().add(Message("user", "second")))
    store.opened(store.load(first.id or ""))
    assert store_of(tmp_path).restore()[0].title == "first"
    store.rename(second.id or "", "only renamed")
    assert store_of(tmp_path).restore()[0].title == "first"


def test_a_lost_pointer_means_the_newest(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.save(Conversation().add(Message("user", "x")))
    (store.folder / "last").write_text("../../etc/passwd", encoding="ascii")
    assert store_of(tmp_path).restore()[0].title == "x"


def test_rename_delete(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    talk = store.save(Conversation().add(Message("user", "x")))
    assert talk.id is not None
    assert store.rename(talk.id, "new").title == "new"
    store.delete(talk.id)
    assert store.list() == []
    with pytest.raises(ContextError):
        store.load(talk.id)


def test_disk_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError):
        ConversationStore(tmp_path / "file" / "x").save(Conversation())


def test_context_files(tmp_path: Path) -> None:
    talk = Conversation().add(Message("user", "hi \u202e"))
    path = tmp_path / "my talk.json"
    export_context(talk, path)
    assert load_context(str(path)) == talk.messages
    assert json.loads(path.read_text("utf-8"))[0]["role"] == "user"
    imported = import_context(str(path))
    assert (imported.messages, imported.title, imported.id) == (talk.messages, "my talk", None)
    with pytest.raises(ContextError):
        export_context(Conversation(), path)
