"""The whole app keeps what is the user's: edits, answers and conversations, whatever comes in between."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from support.app import ANSWERED, LONG, Driven, driven, run
from support.scripted import Script, make_round

from engine.context import Message
from engine.errors import ModelNotFound
from tui.conversation import Conversation
from tui.screens.conversations import ConversationsScreen
from tui.state import Phase
from tui.widgets import context_messages as ask

SHORT = Script(rounds=tuple(make_round(number, 3, 3) for number in range(1, 6)), pause_s=0.3)


def saved(folder: Path) -> dict[str, list[str]]:
    """Texts of the saved conversations, by id."""
    files = (folder / "talks").glob("*.json")
    return {file.stem: [m["content"] for m in json.loads(file.read_text())["messages"]] for file in files}


def contents(app: Driven) -> list[str]:
    return [message.content for message in app.lab.conversation.messages]


async def listed(app: Driven) -> ConversationsScreen:
    app.app.action_talk_list()
    screen = await app.top("ConversationsScreen")
    assert isinstance(screen, ConversationsScreen)
    return screen


# -- the conversation


def test_an_edit_that_is_undone_is_saved(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, messages=()) as app:
            app.app.edit(lambda talk: talk.add(Message("user", "one")))
            app.app.edit(lambda talk: talk.add(Message("user", "two")))
            app.app.action_talk_undo()
            app.app.action_talk_undo()
            await app.pilot.pause()
        assert [*saved(tmp_path).values()] == [[]]
        app.lab.step_back(forward=True)
        assert [*saved(tmp_path).values()] == [["one"]]

    run(test)


def test_the_list_works_on_what_is_open_now(tmp_path: Path) -> None:
    """An answer that ends while the list is shown is kept when another conversation is opened."""

    async def test() -> None:
        async with driven(tmp_path, SHORT) as app:
            other = app.app.store.save(Conversation((Message("user", "other"),)))
            await app.running(1)
            screen = await listed(app)
            await app.ended()
            own = app.lab.conversation
            assert len(own) == 2
            screen.query_one("OptionList").focus()
            ids = [entry.id for entry in screen._saved]
            await app.press(*["down"] * ids.index(other.id or ""), "enter")
            await app.until(lambda: contents(app) == ["other"], "the other one")
            assert sorted(map(len, saved(tmp_path).values())) == [1, 2], "nothing lost, nothing twice"
            assert app.app.store.restore()[0].id == other.id, "the one that was opened last"

    run(test)


def test_a_rename_during_a_run_leaves_it_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG) as app:
            app.app.edit(lambda talk: talk.add(Message("user", "more")))
            await app.running()
            await listed(app)
            await app.press("r")
            await app.top("TextModal")
            await app.press("exclamation_mark", "enter", "escape")
            assert app.lab.running
            await app.press("escape")
            await app.ended()
            assert app.lab.conversation.name.endswith("!")
            assert len(contents(app)) == 3 and app.lab.conversation.past, "answer and undo steps are there"
            assert len(saved(tmp_path)) == 1

    run(test)


def test_a_conversation_deleted_during_a_run_stays_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG) as app:
            app.app.edit(lambda talk: talk.add(Message("user", "more")))
            await app.running()
            await listed(app)
            await app.press("d", "y")
            await app.until(lambda: not app.lab.running and not contents(app), "the end")
            await app.pilot.pause(0.2)
        assert saved(tmp_path) == {}

    run(test)


def test_a_signal_keeps_the_partial_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG) as app:
            await app.running(5)
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.3)
        assert [len(texts) for texts in saved(tmp_path).values()] == [2]

    run(test)


def test_a_message_that_is_being_rewritten_cannot_be_edited(tmp_path: Path) -> None:
    talk = (*ANSWERED, Message("user", "and then?"), Message("assistant", "then that"))

    async def test() -> None:
        async with driven(tmp_path, LONG, messages=talk) as app:
            app.lab.start(1)
            await app.until(lambda: app.lab.running and len(app.lab.state.rounds) > 1, "rounds")
            for event in (ask.EditMessage(2), ask.DeleteMessage(1), ask.MoveMessage(0, 1), ask.AddMessage(3)):
                app.app.post_message(event)
                await app.pilot.pause()
                assert type(app.screen).__name__ == "LiveScreen", event
                assert "is being written again" in app.said
                app.app.clear_notifications()
            assert app.phase is Phase.RUNNING
            app.app.edit(lambda talk: talk.edit(2, Message("user", "X")) if len(talk) > 2 else talk)
            await app.top("ChoiceModal")
            await app.press("down", "enter")
            await app.ended()
            assert "The edit changed nothing" in app.said

    run(test)


def test_a_branch_to_nothing_lets_the_run_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG) as app:
            for reply in ((), ModelNotFound("gone")):
                await app.running(3) if not app.lab.running else None
                app.lab.hold()
                await app.until(lambda: app.phase is Phase.PAUSED, "the pause")
                app.app._typed(1, reply)
                await app.until(lambda: app.phase is Phase.RUNNING, "going on")
            await app.top("ErrorModal")

    run(test)
