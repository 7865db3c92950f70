"""The context pane: what it shows of messages and of the answer being written, and what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from support.nasty import NASTY, assert_harmless, drawn
from support.scripted import TARGET, make_round
from support.story import started
from textual.app import ComposeResult
from textual.message import Message as Event
from textual.pilot import Pilot

from engine.context import Message
from engine.events import EndReason, PrefillFinished, RunFinished
from tui.conversation import Conversation
from tui.glyphs import ASCII
from tui.prompt_spans import is_special, message_spans
from tui.state import Phase, ViewState, reduce
from tui.themes import ThemedApp
from tui.widgets import context_messages as ask
from tui.widgets.context import ContextPane
from tui.widgets.context_choice import moved_selection
from tui.widgets.context_meter import meter

TALK = (
    Message("system", "You are terse."),
    Message("user", "First question"),
    Message("assistant", "<think>so many words</think>\n\nAn answer\n    indented"),
    Message("user", "\n".join(f"line {number}" for number in range(40))),
)


class PaneApp(ThemedApp[None]):
    def __init__(self, ascii_only: bool = False) -> None:
        super().__init__()
        self.ascii = ascii_only
        self.asked: list[Event] = []

    def compose(self) -> ComposeResult:
        yield ContextPane()

    def note(self, event: Event) -> None:
        """Messages bubble, so one of them may come by more than once."""
        kinds = (ask.AtMessage, ask.UndoEdit, ask.RedoEdit, ask.EditSystem, ask.ToggleThinking)
        if isinstance(event, kinds) and event not in self.asked:
            self.asked.append(event)

    @property
    def pane(self) -> ContextPane:
        return self.query_one(ContextPane)


def drive(
    test: Callable[[PaneApp, Pilot[None]], Awaitable[None]],
    *,
    size: tuple[int, int] = (60, 30),
    talk: tuple[Message, ...] = TALK,
    ascii_only: bool = False,
) -> None:
    async def run() -> None:
        app = PaneApp(ascii_only)
        async with app.run_test(size=size, message_hook=app.note) as pilot:
            app.pane.show_conversation(Conversation(talk))
            app.pane.focus()
            await pilot.pause()
            await test(app, pilot)

    asyncio.run(run())


def running(rounds: int = 2, pieces: tuple[bytes, ...] = (b"a", b"b")) -> ViewState:
    state = reduce(ViewState(target=TARGET), replace(started(prompt=pieces), reused=1))
    state = reduce(state, PrefillFinished(0, 0, 1.0))
    for number in range(1, rounds + 1):
        state = reduce(state, make_round(number, 3, 2))
    return state


def finished(state: ViewState) -> ViewState:
    return reduce(state, RunFinished(0, 0, EndReason.EOS, "", len(state.output), 1.0, 2.0, 3.0))


def test_messages_are_shown_folded() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.action_first()
        await pilot.pause()
        text = drawn(app)
        assert "1 system" in text and "You are terse." in text
        assert "thinking, 3 words" in text and "so many words" not in text
        assert "    indented" in text
        assert "line 11" in text and "line 12" not in text and "characters more" in text
        await pilot.press("g", "j", "j", "enter")
        assert "so many words" in drawn(app)
        await pilot.press("enter")
        assert "so many words" not in drawn(app)

    drive(test)


def test_an_empty_pane_says_what_to_do() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        assert "No messages yet" in drawn(app)
        await pilot.press("d", "e", "o", "enter", "r")
        assert app.asked == []
        await pilot.press("a", "s", "u")
        assert [type(event) for event in app.asked] == [ask.AddMessage, ask.EditSystem, ask.UndoEdit]
        assert isinstance(app.asked[0], ask.AddMessage) and app.asked[0].index == -1

    drive(test, talk=())


KEYS: tuple[tuple[str, type[ask.AtMessage]], ...] = (
    *(("e", ask.EditMessage), ("a", ask.AddMessage), ("i", ask.InsertMessage), ("d", ask.DeleteMessage)),
    *(("delete", ask.DeleteMessage), ("y", ask.DuplicateMessage), ("r", ask.RegenerateFrom)),
    *(("c", ask.ContinueFrom), ("K", ask.MoveMessage), ("J", ask.MoveMessage), ("o", ask.ChangeRole)),
)


def test_keys_ask_for_the_chosen_message() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        await pilot.press("g", "j")
        for key, kind in KEYS:
            await pilot.press(key)
            event = app.asked[-1]
            assert isinstance(event, kind) and event.index == 1, key
            if isinstance(event, ask.MoveMessage):
                assert event.delta == (-1 if key == "K" else 1)
            if isinstance(event, ask.ChangeRole):
                assert event.role == "assistant"
        assert len(app.asked) == len(KEYS)

    drive(test)


def test_other_keys_and_the_mouse() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        await pilot.press("u", "U", "s", "t")
        kinds = [ask.UndoEdit, ask.RedoEdit, ask.EditSystem, ask.ToggleThinking]
        assert [type(event) for event in app.asked] == kinds
        await pilot.press("g")
        await pilot.click(offset=(6, 5))
        assert app.pane.selected == 1
        await pilot.click(offset=(6, 5), times=2)
        assert isinstance(app.asked[-1], ask.EditMessage)

    drive(test)


def test_a_long_message_is_read_before_the_next_one_is_chosen() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        await pilot.press("g", "enter")
        for _ in range(6):
            await pilot.press("j")
        assert app.pane.selected == 0, "still scrolling through it"
        assert app.pane.scroll_offset.y > 0
        for _ in range(60):
            await pilot.press("j")
        assert app.pane.selected == 1
        for _ in range(60):
            await pilot.press("k")
        assert (app.pane.selected, app.pane.scroll_offset.y) == (0, 0)

    long = Message("user", "\n".join(map(str, range(40))))
    drive(test, size=(40, 12), talk=(long, Message("assistant", "short")))


def test_the_answer_grows_at_the_end() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(TALK[:2]), live_at=2)
        state = running(1)
        app.pane.show(state)
        await pilot.pause()
        assert "3 assistant  3 tokens, being written" in drawn(app)
        assert app.pane.locked
        for number in range(2, 30):
            state = reduce(state, make_round(number, 3, 2))
            app.pane.show(state)
        await pilot.pause()
        assert "w29.3" in drawn(app) and "87 tokens" in drawn(app)
        done = finished(state)
        app.pane.show(done)
        text = "".join(done.text)
        app.pane.show_conversation(Conversation(TALK[:2]).add(Message("assistant", text)))
        await pilot.pause()
        assert "being written" not in drawn(app)
        assert app.pane.row_total() < 40, "the answer is there once"

    drive(test)


def test_only_new_text_is_laid_out() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(TALK), live_at=4)
        state = running(1)
        for number in range(2, 400):
            state = reduce(state, make_round(number, 3, 2))
            app.pane.show(state)
        await pilot.pause()
        before = app.pane.built
        app.pane.show(reduce(state, make_round(400, 3, 2)))
        await pilot.pause()
        assert app.pane.built - before <= 4

    drive(test)


def test_a_regenerated_answer_takes_the_place_of_the_old_one() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(TALK), live_at=2)
        app.pane.show(running(1))
        await pilot.pause()
        assert "indented" not in drawn(app) and "3 assistant" in drawn(app)

    drive(test)


def test_thinking_is_one_line_with_its_tokens() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(TALK[:1]), live_at=1)
        state = running(0)
        state = reduce(state, make_round(1, 2, 2, pieces=(b"<think>", b"secret", b" plan")))
        app.pane.show(state)
        await pilot.pause()
        assert "thinking, 3 tokens" in drawn(app) and "secret" not in drawn(app)
        state = reduce(state, make_round(2, 2, 2, pieces=(b"</think>", b"\n\n", b"The answer")))
        app.pane.show(state)
        await pilot.pause()
        assert "The answer" in drawn(app) and "secret" not in drawn(app)
        app.pane.show(reduce(state, make_round(3, 2, 2, pieces=(b" goes", b" on", b"."))))
        await pilot.pause()
        assert "The answer goes on." in drawn(app)

    drive(test)


def test_meter() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        assert "no model is loaded" in drawn(app)
        app.pane.show(ViewState(target=TARGET, phase=Phase.READY))
        await pilot.pause()
        assert "room for 2,048 tokens" in drawn(app)
        short = replace(TARGET, context_length=512)
        app.pane.show(replace(running(2), drafter=short))
        await pilot.pause()
        assert "8/512  re-used 1  an edit pauses the run" in drawn(app)

    drive(test)


def test_the_meter_of_a_narrow_pane_keeps_its_numbers() -> None:
    many = replace(running(1), prompt=(0,) * 4278, reused=4250, target=replace(TARGET, context_length=8192))

    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show(ViewState(target=TARGET, phase=Phase.READY))
        await pilot.pause()
        assert "room for 2,048 tokens" in drawn(app)
        app.pane.show(many)
        await pilot.pause()
        assert "4,281/8,192  re-used 4,250" in drawn(app)

    drive(test, size=(36, 20))  # as wide as the pane is on a screen of 120 columns


def test_the_meter_drops_what_matters_least() -> None:
    state = replace(running(1), reused=2)
    texts = {
        width: "".join(piece.text for piece in meter(state, width, ASCII, locked=True)) for width in WIDE
    }
    for width, text in texts.items():
        assert text.startswith("5/2,048") and (len(text) <= width or width < 8), text
    assert "-----" in texts[70] and "re-used 2" in texts[70]
    assert texts[45] == "5/2,048  re-used 2  an edit pauses the run"
    assert texts[20] == "5/2,048  re-used 2"
    assert texts[10] == "5/2,048"


WIDE = (8, 10, 20, 45, 70)


EDITS: dict[str, tuple[Message, ...]] = {
    "a message after it": (*TALK[:2], Message("assistant", " w1.0 w1.1 w1.3"), Message("user", "More?")),
    "the answer deleted": TALK[:2],
    "the answer edited": (*TALK[:2], Message("assistant", "Something else")),
    "a copy of it": (*TALK[:2], *(Message("assistant", " w1.0 w1.1 w1.3"),) * 2),
    "all gone": (),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_answer_that_is_a_message_is_not_drawn_once_more(edit: str) -> None:
    talk = EDITS[edit]

    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        state = running(1)
        app.pane.show_conversation(Conversation(TALK[:2]), live_at=2)
        app.pane.show(state)
        done = finished(state)
        app.pane.show(done)
        app.pane.show_conversation(Conversation(TALK[:2]).add(Message("assistant", "".join(done.text))))
        app.pane.show_conversation(Conversation(talk))
        await pilot.pause()
        assert len([row for row in drawn(app).splitlines() if "assistant" in row]) == sum(
            message.role == "assistant" for message in talk
        )
        for index in range(len(talk)):
            app.pane.select(index)
            assert app.pane.selected == index

    drive(test)


def test_the_answer_of_a_recording_stays() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(TALK[:2]))
        app.pane.show(replace(finished(running(1)), replay=True))
        await pilot.pause()
        assert "3 assistant  3 tokens" in drawn(app)

    drive(test)


def test_the_choice_goes_with_its_message() -> None:
    a, b, c = (Message("user", letter) for letter in "abc")
    system = Message("system", "Be brief.")
    assert moved_selection((a, b), (a, b, c), 0) == 2, "what is new at the end"
    assert moved_selection((a, b), (a, c, b), 0) == 1, "what is new in between"
    assert moved_selection((a, b), (a, a, b), 0) == 1, "the copy"
    assert moved_selection((a, b), (system, a, b), 1) == 2, "a system prompt moves it"
    assert moved_selection((system, a, b), (a, b), 2) == 1
    assert moved_selection((a, b, c), (b, c), 2) == 1, "one above it is deleted"
    assert moved_selection((a, b, c), (a, c), 1) == 1, "it is deleted itself"
    assert moved_selection((a, b, c), (a, b), 2) == 1
    assert moved_selection((a, b), (a, c), 0) == 0
    assert moved_selection((), (a, b), 0) == 1
    assert moved_selection((a,), (b, c), 0) == 1, "another conversation"
    assert moved_selection((a,), (), 0) == 0


def test_an_edit_brings_the_chosen_message_on_screen() -> None:
    talk = tuple(Message("user", f"question {number}") for number in range(30))

    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        pane = app.pane
        pane.action_first()
        await pilot.pause()
        pane.show_conversation(Conversation((*talk, Message("user", "new"))))
        await pilot.pause()
        assert "31 user" in drawn(app)
        pane.select(20)
        pane.scroll_to(y=0, animate=False)
        pane.show_conversation(Conversation((*talk[15:], Message("user", "new"))))
        await pilot.pause()
        assert f"{pane.selected + 1} user" in drawn(app)
        assert "question 20" in drawn(app)

    drive(test, size=(40, 12), talk=talk)


def test_an_answer_that_ends_does_not_move_the_view() -> None:
    talk = tuple(Message("user", f"question {number}") for number in range(30))

    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        app.pane.show_conversation(Conversation(talk), live_at=30)
        state = running(1)
        app.pane.show(state)
        app.pane.scroll_to(y=3, animate=False)
        await pilot.pause()
        app.pane.show_conversation(Conversation(talk).add(Message("assistant", "".join(state.text))))
        app.pane.show(finished(state))
        await pilot.pause()
        assert app.pane.scroll_offset.y == 3

    drive(test, size=(40, 12), talk=talk)


def test_tokens_of_each_message() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        pieces = (
            b"<|im_start|>",
            b"system\n",
            b"You",
            b" are",
            b" terse",
            b".<end>",
            b"First question",
            b"!",
        )
        app.pane.show(running(1, pieces))
        await pilot.press("g")
        assert "1 system  4 tokens" in drawn(app)
        assert "2 user  1 token" in drawn(app)

    drive(test)


def test_spans_of_messages() -> None:
    talk = (Message("user", " a b "), Message("assistant", "gone"), Message("user", "a"))
    assert message_spans(talk, [b"<s>", b"a", b" b", b"x", b"xa"]) == [range(1, 3), None, range(4, 5)]
    assert message_spans([Message("user", "\u00e9")], [b"\xc3", b"\xa9"]) == [range(2)]
    assert message_spans([Message("user", "  ")], [b"a"]) == [None]
    assert is_special(b"<|im_start|>") and is_special(b"</s>") and is_special(b"[INST]")
    assert not any(map(is_special, (b"<", b"a<b>", b"[1]", b"< a >", b"")))


@pytest.mark.parametrize(("size", "ascii_only"), [((60, 30), False), ((22, 12), True)])
def test_nasty_text_does_nothing(size: tuple[int, int], ascii_only: bool) -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        for text in NASTY:
            talk = Conversation((Message("user", text), Message("assistant", text)))
            app.pane.show_conversation(talk, live_at=2)
            state = running(1)
            app.pane.show(reduce(state, make_round(2, 1, 1, pieces=(text.encode(), text[::-1].encode()))))
            await pilot.pause()
            assert_harmless(app)

    drive(test, size=size, ascii_only=ascii_only)


def test_search_and_copy() -> None:
    async def test(app: PaneApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"terse", "enter")
        assert "1 of 1" in drawn(app)
        assert "An answer" in (app.pane.build_row(9).text + app.pane.build_row(8).text)

    drive(test)
