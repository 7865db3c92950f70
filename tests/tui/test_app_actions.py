"""Every action of the registry, driven by its key or from the palette, with a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from support.app import ANSWERED, LONG, QUESTION, Driven, driven
from support.scripted import Script
from support.tuning import bench, tuning
from textual.command import CommandList

from engine.context import Message
from engine.events import Origin
from engine.registry import DRAFTERS, RULES
from tui.actions import ACTIONS, BY_ID, PANE_KEYS, PANES, Now, always
from tui.screens.bench import BenchScreen
from tui.screens.model_requests import LoadModel
from tui.screens.race import RaceScreen
from tui.session_recorder import REC, REC_NEXT
from tui.source import ReplaySource
from tui.state import Phase, ViewState
from tui.widgets.transport import TransportBar

Drive = Callable[[Driven, Path], Awaitable[None]]
TESTS: dict[str, tuple[Drive, Script, tuple[Message, ...]]] = {}


def drives(
    *ids: str, script: Script | None = None, messages: tuple[Message, ...] = QUESTION
) -> Callable[[Drive], Drive]:
    """The test of one action or several."""

    def register(test: Drive) -> Drive:
        for id_ in ids:
            TESTS[id_] = (test, script or Script(), messages)
        return test

    return register


def test_every_action_is_driven() -> None:
    assert TESTS.keys() == BY_ID.keys()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("id_", list(BY_ID))
def test_action(id_: str, tmp_path: Path) -> None:
    test, script, messages = TESTS[id_]

    async def go() -> None:
        async with driven(tmp_path, script, messages=messages) as app:
            await test(app, tmp_path)

    asyncio.run(go())


def test_ids_and_keys_are_unique() -> None:
    live, replay = Now(ViewState(running=True)), Now(ViewState(replay=True), replay=True)
    for now in (live, replay):  # a key may do one thing in a run and another one in a recording
        shared = [action for action in ACTIONS if action.when is always or action.when(now)]
        keys = [key for action in shared for key in action.keys.split(",") if key]
        assert len(keys) == len(set(keys))
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    assert all(action.tooltip and action.title and action.group for action in ACTIONS)


async def from_palette(app: Driven, title: str) -> None:
    await app.press("ctrl+p")
    await app.top("Palette")
    await app.pilot.press(*(char if char != " " else "space" for char in title.lower()))
    options = app.screen.query_one(CommandList)
    await app.until(lambda: options.option_count > 0, "the palette")
    await app.pilot.pause(0.3)
    await app.press("enter")
    await app.until(lambda: type(app.screen).__name__ != "Palette", "the choice")
    await app.pilot.pause()


# -- runs


@drives("run.start")
async def start(app: Driven, folder: Path) -> None:
    await app.press("ctrl+r")
    await app.until(lambda: app.lab.conversation.messages[1:], "the answer")
    await app.ended()
    answer = app.lab.conversation.messages[1]
    assert answer == Message("assistant", "".join(app.lab.state.text))
    assert app.lab.state.baseline is not None
    saved = app.app.store.list()
    assert [entry.messages for entry in saved] == [2]


@drives("run.again", messages=ANSWERED)
async def again(app: Driven, folder: Path) -> None:
    await app.press("S")
    await app.until(lambda: app.lab.state.finished, "the run")
    await app.ended()
    assert app.session.changed[-1].sampling.seed is None
    assert len(app.lab.conversation) == 2
    await app.press("ctrl+r")
    await app.until(lambda: app.lab.state.run == 2 and app.lab.state.finished, "the second run")
    assert app.session.changed[-1].sampling.seed is not None, "Run writes an answer again with a new seed"


@drives("run.pause", script=LONG)
async def pause(app: Driven, folder: Path) -> None:
    await app.running()
    await app.press("space")
    await app.until(lambda: app.phase is Phase.PAUSED, "the pause")
    rounds = len(app.lab.state.rounds)
    await app.pilot.pause(0.1)
    assert len(app.lab.state.rounds) == rounds
    await app.press("space")
    await app.until(lambda: len(app.lab.state.rounds) > rounds, "going on")


def has_rounds(app: Driven, count: int) -> bool:
    return len(app.lab.state.rounds) == count


@drives("run.round", script=LONG)
async def next_round(app: Driven, folder: Path) -> None:
    for count in (1, 2, 3):
        await app.press("full_stop")
        await app.until(lambda: app.phase is Phase.PAUSED, "the pause")
        await app.until(partial(has_rounds, app, count), f"round {count}")
    await app.pilot.pause(0.1)
    assert len(app.lab.state.rounds) == 3


@drives("run.token", script=LONG)
async def next_token(app: Driven, folder: Path) -> None:
    await app.press("comma")
    await app.until(lambda: app.lab.state.revealed == 1, "the first draft")
    shown = []
    while app.lab.state.revealed is not None:
        shown.append(app.lab.state.revealed)
        await app.press("comma")
    assert shown == [1, 2, 3, 4, 5], "three drafts, two verdicts of round 1, then its target's token"
    assert len(app.lab.state.rounds) == 1
    await app.press("comma")
    await app.until(lambda: len(app.lab.state.rounds) == 2, "round 2")


@drives("run.cancel", script=LONG)
async def cancel(app: Driven, folder: Path) -> None:
    await app.running()
    await app.press("escape")
    await app.ended()
    text = "".join(app.lab.state.text)
    assert text
    assert app.lab.conversation.messages[-1] == Message("assistant", text), "a partial answer is kept"


@drives("race.start", messages=ANSWERED)
async def race(app: Driven, folder: Path) -> None:
    await app.press("A")
    screen = await app.top("RaceScreen")
    assert isinstance(screen, RaceScreen)
    await app.until(lambda: screen.state.result, "the end of the race")
    assert app.session.messages == QUESTION, "the answer that is there is written once more"
    await app.press("escape")
    assert (app.lab.conversation.messages, app.lab.state.run) == (ANSWERED, 0)


@drives("tune.start", messages=ANSWERED)
async def tune(app: Driven, folder: Path) -> None:
    asked: list[tuple[Message, ...]] = []

    def work(_: object, messages: tuple[Message, ...], **__: object) -> Iterator[object]:
        asked.append(messages)
        return tuning()

    with patch("engine.tune.tune", work):
        await app.press("K")
        await app.top("TuneScreen")
        await app.until(lambda: asked, "the engine's turn")
    assert asked == [QUESTION], "the answer that is there is not read"
    await app.press("escape")


@drives("bench.start")
async def quick_bench(app: Driven, folder: Path) -> None:
    with patch("tui.bench_work.quick_bench", bench):
        await app.press("Q")
        screen = await app.top("BenchScreen")
        assert isinstance(screen, BenchScreen)
        await app.until(lambda: screen.finished, "the end of the bench")
    await app.press("escape")
    assert app.lab.conversation.messages == QUESTION


@drives("run.continue", messages=ANSWERED)
async def go_on(app: Driven, folder: Path) -> None:
    await app.press("c")
    await app.until(lambda: app.lab.state.finished, "the run")
    await app.ended()
    messages = app.lab.conversation.messages
    assert app.session.messages == ANSWERED
    assert len(messages) == 2
    assert messages[1].content.startswith("It is me. w1.0")
    await app.press("c")
    await app.until(lambda: app.lab.state.run == 2 and app.lab.state.finished, "more of it")
    assert app.session.given, "a run of this program goes on by its tokens"


@drives("run.branch", script=LONG)
async def branch(app: Driven, folder: Path) -> None:
    await app.running(3)
    await app.press("escape")
    await app.ended()
    before = app.lab.conversation.messages
    tokens = [token.id for token in app.lab.state.output]
    state = app.lab.state
    app.app.live.output.select(1)
    await app.press("b")
    await app.top("AlternativesModal")
    await app.press("enter")
    await app.until(lambda: app.lab.state.run == 2 and len(app.lab.state.rounds) >= 1, "the branch")
    assert app.session.given[0] == tokens[0]
    assert app.lab.state.output[0].origin is Origin.GIVEN
    await app.press("escape")
    await app.ended()
    assert app.lab.conversation.messages != before
    await app.press("u")
    assert app.lab.conversation.messages == before
    assert app.lab.state.rounds is state.rounds, "undo shows the run behind the answer again"
    app.app.live.output.select(1)
    await app.press("b")
    await app.top("AlternativesModal")
    await app.press("tab")
    await app.pilot.press("f", "o", "u", "r")
    await app.press("enter")
    await app.until(lambda: app.session.given == (tokens[0], 4), "the typed token")


# -- settings between rounds


@drives("change.more", "change.fewer", script=LONG)
async def drafts(app: Driven, folder: Path) -> None:
    await app.running()
    await app.press("plus")
    await app.until(lambda: app.lab.state.segment_start, "the segment")
    settings = app.lab.state.settings
    assert settings is not None and settings.num_draft_tokens == 6
    assert app.lab.state.segment.rounds < app.lab.state.total.rounds
    start = app.lab.state.segment_start
    await app.press("minus", "minus")
    await app.until(lambda: app.lab.state.segment_start > start, "another segment")
    assert app.lab.config.draft.num_draft_tokens == 4


@drives("change.auto", script=LONG)
async def automatic_drafts(app: Driven, folder: Path) -> None:
    await app.running()
    await app.app.run_action("change_auto")
    await app.until(lambda: app.lab.state.segment_start, "the segment")
    settings = app.lab.state.settings
    assert settings is not None and (settings.adaptive, settings.num_draft_tokens) == (True, 16)
    bar = app.app.live.query_one(TransportBar)
    await app.until(lambda: "K auto" in bar.text, "the bar")
    start, newest = app.lab.state.segment_start, app.lab.state.rounds[-1].k
    await app.press("plus")
    await app.until(lambda: app.lab.state.segment_start > start, "another segment")
    assert app.lab.config.draft.num_draft_tokens == newest + 1


@drives("change.temperature", script=LONG)
async def temperature(app: Driven, folder: Path) -> None:
    await app.running()
    await app.press("T")
    await app.top("TextModal")
    await app.pilot.press("0", ".", "0", "0", "0", "1", "enter")
    await app.pilot.pause()
    assert type(app.screen).__name__ == "TextModal", "what is wrong with it is said"
    await app.pilot.press(*["backspace"] * 6, "0", ".", "7", "enter")
    await app.until(lambda: app.lab.state.segment_start, "the segment")
    settings = app.lab.state.settings
    assert settings is not None and settings.temperature == 0.7


def has_segment(app: Driven, before: int) -> bool:
    return app.lab.state.settings_id > before


@drives("change.rule", script=LONG)
async def rule(app: Driven, folder: Path) -> None:
    await app.running()
    for number, name in enumerate(RULES):
        before, was = app.lab.state.settings_id, app.lab.config.verify.verify_strategy
        await app.press("V")
        await app.top("ChoiceModal")
        await app.press(*["down"] * number, "enter")
        assert app.lab.config.verify.verify_strategy == name
        if name != was:
            await app.until(partial(has_segment, app, before), "the segment")
            settings = app.lab.state.settings
            assert settings is not None and settings.verify_strategy == name


@drives("change.drafter", script=LONG)
async def drafter(app: Driven, folder: Path) -> None:
    await app.press("D")
    await app.top("ChoiceModal")
    await app.press("enter")
    await app.top("ModelPicker")
    await app.press("escape")
    await app.running()
    app.app.post_message(LoadModel("drafter", "scripted:drafter"))
    await app.until(lambda: app.lab.state.segment_start and app.lab.state.segment.rounds, "the run to go on")
    assert app.lab.state.run == 1, "it is the same run, with a new segment"
    assert app.lab.state.total.rounds > app.lab.state.segment.rounds
    assert "goes on" in app.said
    start = app.lab.state.segment_start
    await app.press("D")
    await app.top("ChoiceModal")
    await app.press("down", "enter")
    await app.until(lambda: app.lab.state.segment_start > start, "lookup")
    assert app.lab.config.draft.model_name is None
    await app.press("D")
    await app.top("ChoiceModal")
    await app.press(*["down"] * list(DRAFTERS).index("synthetic"), "enter")
    await app.top("TextModal")
    await app.press("2", "enter")
    await app.top("TextModal")
    await app.press("backspace", "0", ".", "5", "enter")
    assert app.lab.config.draft.acceptance == (0.5,)
    bar = app.app.live.query_one(TransportBar)
    await app.until(lambda: "synthetic" in bar.text, "the word in the first line")
    app.app.post_message(LoadModel("target", "scripted:other"))
    await app.until(lambda: app.lab.loaded and not app.lab.running, "another target")
    assert app.lab.state.finished, "its ids would mean something else, so the answer ends"


# -- models and settings


@drives("models.load")
async def load(app: Driven, folder: Path) -> None:
    app.lab.eject()
    await app.until(lambda: app.phase is Phase.EMPTY, "the eject")
    assert "ctrl+l loads" in str(app.app.live.query_one("#offer").render())
    await app.press("0", "ctrl+l")
    await app.loaded()
    assert app.app.live.message_line.text == "", "the key acts where one writes, too"


@drives("models.pick")
async def pick(app: Driven, folder: Path) -> None:
    await app.press("f3")
    picker = await app.top("ModelPicker")
    assert "scripted:target" in str(picker.query_one("#held-target").render())
    await app.press("x")
    await app.until(lambda: not app.lab.loaded, "the eject")
    await app.press("escape")
    assert app.app.picker is None


@drives("settings.open")
async def settings(app: Driven, folder: Path) -> None:
    await app.press("f2")
    await app.top("SettingsScreen")
    field = app.screen.query_one("#field-draft-num_draft_tokens")
    field.query_one(".control").focus()
    await app.pilot.press("7")
    await app.press("f2")
    await app.until(lambda: "7" in str(app.lab.config.draft.num_draft_tokens), "the setting")


# -- the conversation


@drives("talk.list", messages=ANSWERED)
async def talks(app: Driven, folder: Path) -> None:
    app.app.edit(lambda talk: talk.add(Message("user", "and then?")))
    await app.pilot.pause()
    await app.press("f4")
    await app.top("ConversationsScreen")
    await app.press("n")
    await app.until(lambda: not app.lab.conversation.messages, "the new one")
    await app.press("f4")
    await app.top("ConversationsScreen")
    await app.press("enter")
    await app.until(lambda: len(app.lab.conversation) == 3, "the old one")


@drives("talk.new", messages=ANSWERED)
async def new(app: Driven, folder: Path) -> None:
    await app.press("ctrl+n")
    assert app.lab.conversation.messages == ()
    await app.press("h", "i", "enter")
    await app.until(lambda: len(app.lab.conversation) == 2, "an answer")


@drives("talk.undo", "talk.redo", messages=ANSWERED)
async def undo(app: Driven, folder: Path) -> None:
    app.app.edit(lambda talk: talk.delete(1))
    await app.press("u")
    assert len(app.lab.conversation) == 2
    await app.press("U")
    assert app.lab.conversation.messages == QUESTION


@drives("talk.system")
async def system(app: Driven, folder: Path) -> None:
    await from_palette(app, "System prompt")
    await app.top("EditorModal")
    await app.pilot.press("B", "e", "space", "b", "r", "i", "e", "f", "ctrl+s")
    await app.until(lambda: app.lab.conversation.system == "Be brief", "the prompt")


@drives("talk.thinking")
async def thinking(app: Driven, folder: Path) -> None:
    await from_palette(app, "Thinking")
    assert app.lab.config.run.thinking is True
    assert "Thinking" in app.said


@drives("talk.copy")
async def copy(app: Driven, folder: Path) -> None:
    await app.press("ctrl+r")
    await app.until(lambda: app.lab.state.finished, "the answer")
    await app.press("Y")
    assert app.app.clipboard == "".join(app.lab.state.text)
    assert "Copied 35 characters" in app.said


# -- the view


@drives(*(f"view.{name}" for name in PANES))
async def panes(app: Driven, folder: Path) -> None:
    for name, number in PANE_KEYS.items():
        await app.press(str(number))
        assert app.screen.focused is not None and app.screen.focused.id == name
        assert app.screen.focused.region, f"{name} cannot be seen"


@drives("view.write")
async def write(app: Driven, folder: Path) -> None:
    await app.press("0", "2")
    assert app.app.live.message_line.text == "2"


@drives("view.next", "view.previous")
async def cycle(app: Driven, folder: Path) -> None:
    seen = []
    for _ in range(len(PANES) + 1):
        await app.press("f6")
        focused = app.screen.focused
        seen.append("" if focused is None else focused.id)
    assert sorted(map(str, seen)) == sorted([*PANES, "write"])
    await app.press("shift+f6")
    assert app.screen.focused is not None and app.screen.focused.id == seen[-2]


@drives("view.jump")
async def jump(app: Driven, folder: Path) -> None:
    await app.press("ctrl+o")
    await app.top("JumpScreen")
    await app.press("r")
    assert app.screen.focused is not None and app.screen.focused.id == "rounds"
    await app.press("0", "ctrl+o")
    await app.top("JumpScreen")
    await app.press("escape")
    assert app.screen.focused is not None and app.screen.focused.id == "write"


@drives("view.maximise")
async def maximise(app: Driven, folder: Path) -> None:
    await app.press("3", "z")
    assert app.app.live.pane("rounds").size.width > 100
    assert not app.app.live.pane("output").region
    await app.press("z")
    assert app.app.live.pane("output").region


@drives("view.theme")
async def theme(app: Driven, folder: Path) -> None:
    await from_palette(app, "Next theme")
    assert app.app.theme == "spec-light"


# -- the program


@drives("record.toggle")
async def record(app: Driven, folder: Path) -> None:
    await app.press("R")
    assert app.app.recorder.sign == REC_NEXT
    app.lab.start()
    await app.until(lambda: app.app.recorder.sign == REC, "the recording")
    await app.press("R")
    await app.until(lambda: not app.app.recorder.sign, "the end of the recording")


@drives("library.open")
async def library(app: Driven, folder: Path) -> None:
    await app.press("L")
    await app.top("LibraryScreen")
    await app.press("escape")
    await app.top("LiveScreen")


@drives("demo.play")
async def demo(app: Driven, folder: Path) -> None:
    await from_palette(app, "Play the recording")
    await app.until(lambda: app.lab.replay is not None and app.lab.state.rounds, "the recording")
    await app.press("space")
    assert app.phase is Phase.PAUSED
    rounds = len(app.lab.state.rounds)
    await app.press("full_stop")
    await app.until(lambda: len(app.lab.state.rounds) == rounds + 1, "one round")
    await app.press("ctrl+n")
    assert app.lab.replay is None
    assert app.lab.loaded


# -- a recording


async def in_recording(app: Driven) -> ReplaySource:
    """Its fifth round, standing still."""
    app.app.action_demo_play()
    await app.until(lambda: app.lab.replay is not None, "the recording")
    source = app.lab.replay
    assert source is not None
    source.pause()
    app.lab.seek_step(5)
    await app.until(lambda: source.step == 5 == len(app.lab.state.rounds), "its fifth round")
    await app.until(lambda: app.app.survey is not None and app.app.survey.whole, "its outcomes")
    return source


@drives("replay.leave", "replay.fork", "replay.verify", "replay.go", "view.timeline")
async def through_a_recording(app: Driven, folder: Path) -> None:
    source = await in_recording(app)
    await app.press("7")
    assert app.app.live.timeline.has_focus
    await app.press("ctrl+g")
    await app.top("TextModal")
    await app.press("escape", "v")
    await app.top("VerdictModal")
    await app.press("escape", "b")
    await app.top("ChoiceModal")
    await app.press("escape")
    await app.top("LiveScreen")
    assert app.lab.replay is source
    await app.press("escape")
    assert app.lab.replay is None


@drives("replay.back_round", "replay.back_token", "replay.previous", "replay.next", "replay.kind")
async def to_and_fro(app: Driven, folder: Path) -> None:
    source = await in_recording(app)
    await app.press("backspace")
    assert source.step == 4
    await app.press("semicolon")
    assert (source.step, app.lab.state.revealed is None) == (4, False)
    await app.press("M")
    assert "all drafts accepted" in app.app.live.timeline.text
    await app.press("right_square_bracket")
    accepted = source.step
    assert accepted > 4
    await app.press("left_square_bracket")
    assert source.step < accepted


@drives("replay.slower", "replay.faster", "replay.loop", "replay.idle", "replay.bookmark")
async def its_ways(app: Driven, folder: Path) -> None:
    source = await in_recording(app)
    await app.press("greater_than_sign", "greater_than_sign", "less_than_sign", "O", "I", "B")
    assert (source.clock.speed, source.loop, source.max_gap_s) == (2.0, True, 0.5)
    assert app.app.bookmarks is not None
    assert app.app.bookmarks.rounds == [4]


@drives("app.help")
async def help_(app: Driven, folder: Path) -> None:
    await app.press("f1")
    screen = await app.top("HelpScreen")
    text = " ".join(str(static.render()) for static in screen.query("Static"))
    assert "The answer, token by token" in text, "the pane with the focus comes first"
    assert BY_ID["run.start"].tooltip in text
    await app.press("escape")


@drives("app.picture")
async def picture(app: Driven, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        await app.press("f12")
    assert len(list(folder.glob("naive-speculate-*.svg"))) == 1
    assert "Saved naive-speculate-" in app.said


@drives("app.leave", script=LONG)
async def leave(app: Driven, folder: Path) -> None:
    await app.running()
    await app.press("ctrl+q")
    assert app.app.return_code == 0
    assert app.app.store.list()[0].messages == 2, "the partial answer is kept"
