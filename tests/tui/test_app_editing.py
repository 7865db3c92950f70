"""The conversation in the app: what its pane asks for, edits while a run is in progress, saving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.app import ANSWERED, LONG, QUESTION, Driven, driven
from support.nasty import drawn
from support.scripted import Script

from engine.context import Message
from tui.conversation import Conversation
from tui.conversation_store import ConversationStore
from tui.state import Phase
from tui.widgets.context import ContextPane


def run(
    folder: Path,
    test: Callable[[Driven], Awaitable[None]],
    script: Script | None = None,
    messages: tuple[Message, ...] = ANSWERED,
) -> None:
    async def go() -> None:
        async with driven(folder, script, messages=messages) as app:
            app.app.live.go_to("context")
            await app.pilot.pause()
            await test(app)

    asyncio.run(go())


def contents(app: Driven) -> list[str]:
    return [message.content for message in app.lab.conversation.messages]


KEYS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "delete": (("d",), ["Hello, who is there?"]),
    "duplicate": (("y",), ["Hello, who is there?", "It is me.", "It is me."]),
    "move up": (("K",), ["It is me.", "Hello, who is there?"]),
    "move down": (("g", "J"), ["It is me.", "Hello, who is there?"]),
    "undo": (("d", "u"), ["Hello, who is there?", "It is me."]),
    "redo": (("d", "u", "U"), ["Hello, who is there?"]),
}


@pytest.mark.parametrize("name", KEYS)
def test_an_edit_by_one_key(tmp_path: Path, name: str) -> None:
    keys, expected = KEYS[name]

    async def test(app: Driven) -> None:
        await app.press(*keys)
        assert contents(app) == expected

    run(tmp_path, test)


def test_the_role_changes(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("o")
        assert app.lab.conversation[1].role == "tool"

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("e", ["Hello, who is there?", "It is me.!"]),
        ("a", ["Hello, who is there?", "It is me.", "!"]),
        ("i", ["Hello, who is there?", "!", "It is me."]),
        ("s", ["!", "Hello, who is there?", "It is me."]),
    ],
)
def test_an_edit_in_the_editor(tmp_path: Path, key: str, expected: list[str]) -> None:
    async def test(app: Driven) -> None:
        await app.press(key)
        await app.top("EditorModal")
        await app.pilot.press("exclamation_mark", "ctrl+s")
        await app.until(lambda: contents(app) == expected, str(expected))
        assert app.app.store.list()[0].messages == len(expected), "saved after the edit"

    run(tmp_path, test)


def test_thinking_is_switched(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        for wanted in (True, False, None):
            await app.press("t")
            assert app.lab.config.run.thinking is wanted

    run(tmp_path, test)


def test_regenerate_and_continue_from_a_message(tmp_path: Path) -> None:
    more = (*ANSWERED, Message("user", "Really?"))

    async def test(app: Driven) -> None:
        await app.press("g", "r")
        await app.until(lambda: app.lab.state.finished, "the answer")
        await app.ended()
        assert app.session.messages == QUESTION
        assert len(app.lab.conversation) == 2, "what followed is written again"
        await app.press("u")
        assert app.lab.conversation.messages == more, "one undo brings all of it back"
        app.app.live.select_message(1)
        await app.press("c")
        await app.until(lambda: app.lab.state.run == 2 and app.lab.state.finished, "the continuation")
        await app.ended()
        assert app.session.messages == ANSWERED
        app.app.live.select_message(0)
        await app.press("c")
        assert "Only a message of the assistant's" in app.said

    run(tmp_path, test, messages=more)


@pytest.mark.parametrize("choice", ["regenerate", "keep", "drop"])
def test_an_edit_pauses_the_run(tmp_path: Path, choice: str) -> None:
    async def test(app: Driven) -> None:
        await app.running()
        await app.press("g", "e")
        await app.top("EditorModal")
        await app.until(lambda: app.phase is Phase.PAUSED, "the pause")
        rounds = len(app.lab.state.rounds)
        await app.pilot.press("exclamation_mark", "ctrl+s")
        await app.top("ChoiceModal")
        assert len(app.lab.state.rounds) == rounds
        if choice == "drop":
            await app.press("escape")
            await app.until(lambda: len(app.lab.state.rounds) > rounds, "the answer to go on")
            assert contents(app) == [QUESTION[0].content]
            return
        await app.press(*(["down"] if choice == "keep" else []), "enter")
        await app.until(lambda: contents(app)[0].endswith("!"), "the edit")
        if choice == "keep":
            await app.ended()
            assert len(contents(app)) == 2
            assert app.lab.state.run == 1
        else:
            await app.until(lambda: app.lab.state.run == 2 and app.lab.state.rounds, "another answer")
            assert app.session.messages == (Message("user", QUESTION[0].content + "!"),)

    run(tmp_path, test, LONG, QUESTION)


def test_leaving_the_editor_lets_the_run_go_on(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.running()
        await app.press("g", "e")
        await app.top("EditorModal")
        await app.until(lambda: app.phase is Phase.PAUSED, "the pause")
        rounds = len(app.lab.state.rounds)
        await app.press("escape")
        await app.until(lambda: len(app.lab.state.rounds) > rounds, "the answer to go on")

    run(tmp_path, test, LONG, QUESTION)


def test_a_message_that_cannot_be_sent_is_put_back(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.running()
        await app.press("0")
        await app.pilot.press("h", "o", "enter")
        await app.pilot.pause()
        assert app.app.live.message_line.text == "ho"
        assert "An answer is being written" in app.said

    run(tmp_path, test, LONG, QUESTION)


def test_enter_on_an_empty_line_answers_what_is_there(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("0", "enter")
        await app.until(lambda: len(app.lab.conversation) == 2, "the answer")

    run(tmp_path, test, messages=QUESTION)


def test_the_last_conversation_is_restored(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.press("d")

    run(tmp_path, test)
    restored, problem = ConversationStore(tmp_path / "talks").restore()
    assert problem is None
    assert restored.messages == QUESTION


def test_a_full_disk_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "talks").write_text("a file where the folder should be")

    async def test(app: Driven) -> None:
        await app.press("d")
        await app.top("ErrorModal")
        await app.press("escape")
        app.app.edit(lambda talk: Conversation(ANSWERED, past=talk.past))
        await app.pilot.pause()
        assert type(app.screen).__name__ == "LiveScreen"

    run(tmp_path, test)


def test_the_prompt_is_shown_before_a_run(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.until(lambda: app.lab.state.prompt_pieces, "the prompt")
        assert app.app.query_one(ContextPane).conversation is app.lab.conversation

    run(tmp_path, test)


def test_a_finished_answer_is_drawn_once_whatever_is_done_to_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with driven(tmp_path) as app:
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "the answer")
            await app.ended()
            await app.press("1", "G")

            def answers() -> int:
                return sum("assistant" in row for row in drawn(app.app).splitlines())

            for keys, count in (("y", 2), ("u", 1), ("d", 0), ("u", 1), ("u", 0), ("U", 1)):
                await app.press(keys)
                assert answers() == count == len(app.lab.conversation) - 1, keys

    asyncio.run(go())


def test_the_prompt_is_shown_though_the_load_ends_a_frame_after_the_target_came(tmp_path: Path) -> None:
    async def test(app: Driven) -> None:
        await app.until(lambda: app.lab.state.prompt_pieces, "the prompt")
        app.app._previewed = None
        app.lab.state = replace(app.lab.state, prompt=(), prompt_pieces=(), phase=Phase.LOADING)
        app.app._frame()
        assert not app.lab.loaded
        app.lab.state = replace(app.lab.state, phase=Phase.READY)
        app.app._frame()
        await app.until(lambda: app.lab.state.prompt_pieces, "the prompt")

    run(tmp_path, test)
