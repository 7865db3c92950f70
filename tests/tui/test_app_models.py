"""The whole app: models that come or fail, the recording beside the user's own work, what is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.app import ANSWERED, CONFIG, LONG, Driven, driven, run
from support.scripted import Script

from engine.config import parse_config
from engine.context import Message
from engine.errors import ModelNotFound
from engine.events import Failed, Notice
from engine.registry import DRAFTERS
from tui.changes import with_values
from tui.screens.conversations import ConversationsScreen
from tui.screens.model_requests import CheckPair, LoadModel
from tui.state import Busy, Idle
from tui.widgets.messages import TokenSelected


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


# -- models


def test_what_was_asked_for_before_the_models_came_is_done_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    def slowly(config: object) -> tuple[()]:
        time.sleep(0.2)
        return ()

    monkeypatch.setattr("tui.fetching.to_fetch", slowly)

    async def test() -> None:
        async with driven(tmp_path, load=False) as app:
            await app.press("ctrl+r")
            await app.press("ctrl+l")
            await app.until(lambda: app.lab.state.finished, "the run")
            assert app.lab.state.run == 1

    run(test)


def test_a_failed_load_leaves_the_pair_and_tells_why(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as app:
            app.session.script = Script(load_error=ModelNotFound("there is no model 'wrong'"))
            app.app.change({"verify.model_name": "wrong"})
            await app.top("ErrorModal")
            await app.press("escape")
            await app.until(lambda: app.lab.loaded, "the pair of before")
            assert app.lab.config == CONFIG
            app.session.script = Script()
            await app.press("ctrl+r")
            await app.until(lambda: app.lab.state.finished, "a run with it")

    run(test)


def test_a_failure_is_shown_also_if_work_goes_on_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as app:
            failed = Failed(1, 1, "OutOfMemory", "memory ran out", None)
            for event in (Busy("Generate"), failed, Idle(), Busy("Change"), Idle(), Busy("Generate"), Idle()):
                app.lab.act_quietly(event)  # type: ignore[arg-type]  # the reducer takes both kinds
            app.app.show()
            await app.top("ErrorModal")

    run(test)


def test_the_rule_changed_to_and_fro_keeps_the_temperature(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, config=with_values(CONFIG, {"sampling.temperature": 0.7})) as app:
            await app.press("V")
            await app.top("ChoiceModal")
            await app.press("down", "enter")
            assert app.lab.config.sampling.temperature is None
            await app.press("V")
            await app.top("ChoiceModal")
            await app.press("enter")
            assert app.lab.config.sampling.temperature == 0.7

    run(test)


def test_a_rule_that_cannot_be_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.errors import ConfigError

    def refuse(*_: object) -> None:
        raise ConfigError("verify.verify_strategy cannot be that here")

    monkeypatch.setattr("tui.app_settings.with_rule", refuse)

    async def test() -> None:
        async with driven(tmp_path) as app:
            await app.press("V")
            await app.top("ChoiceModal")
            await app.press("down", "enter")
            await app.top("ErrorModal")

    run(test)


# -- the recording


def test_the_recording_is_no_conversation_of_the_users(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, messages=ANSWERED) as app:
            app.app.edit(lambda talk: talk.add(Message("user", "mine")))
            mine = app.lab.conversation
            app.app.action_demo_play()
            await app.until(lambda: app.lab.state.rounds, "the recording")
            await listed(app)
            await app.press("n")
            await app.until(lambda: app.lab.replay is None, "the new one")
            assert [*saved(tmp_path).values()] == [[message.content for message in mine.messages]]

    run(test)


def test_loading_from_the_recording_brings_back_the_users_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, messages=ANSWERED) as app:
            app.app.edit(lambda talk: talk.add(Message("user", "mine")))
            mine = app.lab.conversation
            app.app.action_demo_play()
            await app.until(lambda: app.lab.state.rounds, "the recording")
            await app.press("0", "ctrl+l")
            await app.until(lambda: app.lab.replay is None and app.lab.loaded, "the models")
            assert app.lab.conversation == mine

    run(test)


def test_the_recording_goes_on_until_a_download_was_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tui.model_list import ModelEntry, Place

    missing = ModelEntry("builtin:smollm2-135m", Place.BUILTIN, False, 93_000_000)
    monkeypatch.setattr("tui.fetching.to_fetch", lambda config: (missing,))

    async def test() -> None:
        async with driven(tmp_path, load=False, demo=True) as app:
            await app.until(lambda: app.lab.state.rounds, "the recording")
            await app.press("ctrl+l")
            await app.top("ConfirmModal")
            assert app.lab.replay is not None
            await app.press("escape")
            rounds = len(app.lab.state.rounds)
            await app.until(lambda: len(app.lab.state.rounds) > rounds, "it goes on")
            assert app.lab.replay is not None
            await app.press("ctrl+l")
            await app.top("ConfirmModal")
            await app.press("y")
            await app.until(lambda: app.lab.loaded, "the models")

    run(test)


def test_notices_are_told_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, Script(notices=(Notice(0, 0, "seed", "a notice"),))) as app:
            await app.until(lambda: "a notice" in app.said, "the notice")
            app.app.action_demo_play()
            await app.until(lambda: app.lab.state.rounds, "the recording")
            app.lab.go_live()
            await app.pilot.pause(0.1)
            assert app.said.count("a notice") == 1

    run(test)


# -- small things


def test_the_offer_shows_names_safely(tmp_path: Path) -> None:
    text = '[draft]\nmethod = "lookup"\n[verify]\nmodel_name = "evil\\u202Egnp.exe"\n'

    async def test() -> None:
        async with driven(tmp_path, config=parse_config(text, "test"), load=False) as app:
            offer = str(app.app.live.query_one("#offer").render())
            assert "evil" in offer and "\u202e" not in offer

    run(test)


def test_a_token_that_is_gone_cannot_be_selected(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path) as app:
            app.app.live.post_message(TokenSelected(3))
            await app.pilot.pause()
            assert app.app.crash is None

    run(test)


def test_the_answer_being_written_is_shown_in_its_place(tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(tmp_path, LONG) as app:
            assert app.lab.live_at is None
            await app.running()
            assert app.lab.live_at == 1
            await app.press("escape")
            await app.ended()
            assert app.lab.live_at is None

    run(test)


@pytest.mark.parametrize(
    ("now", "role", "fits", "then"),
    [
        ("lookup", "drafter", True, "model"),
        ("lookup", "drafter", None, "model"),
        ("lookup", "drafter", False, "slem"),
        ("lookup", "target", None, "lookup"),
        ("model", "drafter", False, "slem"),
        ("model", "target", False, "slem"),
        ("model", "target", True, "model"),
        ("slem", "drafter", True, "model"),
        ("slem", "target", True, "model"),
        ("slem", "target", False, "slem"),
        ("slem", "target", None, "slem"),
        ("slem", "drafter", None, "model"),
    ],
)
def test_how_a_picked_pair_drafts(tmp_path: Path, now: str, role: str, fits: bool | None, then: str) -> None:
    """Over text where the vocabularies differ, in tokens again as soon as they agree."""
    drafter = "scripted:drafter" if DRAFTERS[now].loads_model else None
    config = with_values(CONFIG, {"draft.method": now, "draft.model_name": drafter})

    async def test() -> None:
        async with driven(tmp_path, config=config) as app:
            app.app.post_message(LoadModel(role, "scripted:picked", fits=fits))
            await app.until(
                lambda: (
                    "scripted:picked" in (app.lab.config.verify.model_name, app.lab.config.draft.model_name)
                    and app.lab.loaded
                ),
                "the pair",
            )
            assert app.lab.config.draft.method == then

    run(test)


def test_the_pair_is_checked_by_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it finds is an answer, what keeps it from looking is another one."""
    told: list[tuple[str, str, str | None, str | None]] = []

    def look(target: str, drafter: str) -> str | None:
        if drafter == "broken":
            raise ModelNotFound("there is no model 'broken'")
        return None if drafter == "alike" else "they differ"

    monkeypatch.setattr("engine.models.check_pair.why_not_a_pair", look)
    monkeypatch.setattr(
        "tui.screens.models.ModelPicker.show_pair", lambda _, *words: told.append(words), raising=True
    )

    async def test() -> None:
        async with driven(tmp_path) as app:
            await app.press("f3")
            await app.top("ModelPicker")
            for drafter in ("alike", "other", "broken"):
                app.app.post_message(CheckPair("scripted", drafter))
            await app.until(lambda: len(told) == 3, "the answers")

    run(test)
    assert told == [
        ("scripted", "alike", None, None),
        ("scripted", "other", "they differ", None),
        ("scripted", "broken", None, "there is no model 'broken'"),
    ]
