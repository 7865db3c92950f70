"""A session whose configuration is exchanged: what still fits is kept, the rest is loaded, changes hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.sessions import ASK, configured, ids_of, loaded, of, text_of
from support.tiny import noisy_copy, save_folder, second_tokenizer, tiny_model, tiny_tokenizer

from engine.errors import VocabularyMismatch
from engine.events import Event, Failed, LoadStarted, Round, RunStarted, SegmentStarted


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base: Path = tmp_path_factory.mktemp("models")
    target, other = tiny_model("llama"), tiny_model("llama", seed=5)
    stranger = second_tokenizer()
    return {
        "target": str(save_folder(base / "target", target, tiny_tokenizer())),
        "other": str(save_folder(base / "other", other, tiny_tokenizer())),
        "drafter": str(save_folder(base / "drafter", noisy_copy(target, 0.05), tiny_tokenizer())),
        "stranger": str(
            save_folder(base / "stranger", tiny_model("llama", vocab_size=len(stranger)), stranger)
        ),
    }


def roles_loaded(session: Any) -> list[str]:
    told: list[Event] = []
    session.load(told.append)
    return [event.role for event in told if isinstance(event, LoadStarted)]


def test_only_what_differs_is_loaded(folders: dict[str, str]) -> None:
    session = loaded(configured(folders["target"]))
    session.config = configured(folders["target"], folders["drafter"])
    assert roles_loaded(session) == ["drafter"]
    assert roles_loaded(session) == []
    session.config = configured(folders["target"])
    assert roles_loaded(session) == []
    assert session.held[1] is None
    session.config = configured(folders["target"], folders["target"])
    assert roles_loaded(session) == ["drafter"]
    assert session.pair.drafter.context.model is not None
    assert session.pair.drafter.context.model.model is session.pair.target.model
    session.config = configured(folders["other"], folders["drafter"])
    assert roles_loaded(session) == ["target", "drafter"]


def _quantised(folders: dict[str, str], target: str, drafter: str) -> Any:
    tables = {"verify": {"quantize": target}, "draft": {"quantize": drafter}}
    return configured(folders["target"], folders["target"], **tables)


def test_what_is_held_in_other_bits_is_loaded_again(folders: dict[str, str]) -> None:
    session = loaded(_quantised(folders, "none", "int8"))
    target, drafter = session.pair.models().values()
    assert drafter.model is not target.model, "the same file, but no twin"
    assert (target.info.quantized, drafter.info.quantized) == ("", "int8")
    assert drafter.info.weight_bytes < target.info.weight_bytes
    assert drafter.info.sha256 == target.info.sha256
    ids_of(list(session.generate(ASK)))
    plain = session.pair.text_key(session.pair.settings(session.config, 1))
    for bits, wanted in (
        (("none", "int8"), []),
        (("none", "int4"), ["drafter"]),
        (("int4", "int4"), ["target", "drafter"]),
        (("int4", "int4"), []),
        (("int4", "none"), ["drafter"]),
    ):
        session.config = _quantised(folders, *bits)
        assert roles_loaded(session) == wanted
        target, drafter = session.pair.models().values()
        held = tuple(model.info.quantized or "none" for model in (target, drafter))
        assert held == bits
        assert (drafter.model is target.model) == (bits[0] == bits[1])
    assert session.pair.text_key(session.pair.settings(session.config, 1)) != plain


def test_passes_are_chosen_again_only_when_another_way_is_asked_for(folders: dict[str, str]) -> None:
    """A model that was to run as "eager" was never measured, so "auto" does not keep it as it is."""
    session = loaded(configured(folders["target"], folders["target"], run={"optimize": "eager"}))
    for asked, roles in (
        ("auto", ["target", "drafter"]),
        ("auto", []),
        ("eager", ["target", "drafter"]),
        ("static", ["target", "drafter"]),
        ("static", []),
    ):
        session.config = configured(folders["target"], folders["target"], run={"optimize": asked})
        assert roles_loaded(session) == roles, asked
    assert [info and info.passes for info in session.held] == ["static", "static"]


def test_a_load_that_fails_leaves_nothing_and_the_next_one_works(folders: dict[str, str]) -> None:
    session = loaded(configured(folders["target"], folders["drafter"]))
    session.config = configured(folders["target"], folders["stranger"])
    with pytest.raises(VocabularyMismatch) as caught:
        session.load()
    assert session.held == (None, None)
    assert isinstance(session.failure(caught.value), Failed)
    session.config = configured(folders["target"], folders["drafter"])
    session.load()
    assert ids_of(list(session.generate(ASK)))


def test_settings_change_between_two_rounds(folders: dict[str, str]) -> None:
    session = loaded(configured(folders["target"], folders["drafter"]))
    plain = text_of(list(session.generate(ASK)))
    events: list[Event] = []
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 2:
            session.change(configured(folders["target"], folders["drafter"], draft={"num_draft_tokens": 1}))
    assert [e.settings.num_draft_tokens for e in events if isinstance(e, SegmentStarted)] == [3, 1]
    rounds = [event for event in events if isinstance(event, Round)]
    assert {round_.k for round_ in rounds if round_.settings_id == 2} <= {0, 1}
    assert {round_.number for round_ in rounds if round_.settings_id == 1} == {1, 2}
    assert text_of(events) == plain, "greedy text does not depend on K"


def test_an_answer_goes_on_from_given_tokens(folders: dict[str, str]) -> None:
    session = loaded(configured(folders["target"], folders["drafter"]))
    whole = ids_of(list(session.generate(ASK)))
    first = whole[:7]
    limited = configured(folders["target"], folders["drafter"], run={"max_new_tokens": len(whole) - 7})
    session.change(limited)
    session.config = limited
    events = list(session.generate(ASK, given=first))
    started = of(RunStarted, events)
    assert list(started.given) == first
    assert started.reused >= len(started.prompt) - 1, "prompt and given tokens are in the cache already"
    assert first + ids_of(events) == whole
    pieces = session.pair.target.text
    assert started.given_pieces == tuple(pieces.piece(id_) for id_ in first)


def test_the_prompt_can_be_looked_at(folders: dict[str, str]) -> None:
    session = loaded(configured(folders["target"]))
    ids, pieces = session.prompt_tokens(ASK)
    started = of(RunStarted, list(session.generate(ASK)))
    assert (ids, pieces) == (started.prompt, started.prompt_pieces)
    session.eject()
    assert session.held == (None, None)
