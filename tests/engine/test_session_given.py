"""Answers that start with given tokens, runs that go on with other models, and runs that were left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.sessions import ASK, LENGTH, configured, ids_of, kinds, loaded, of, text_of
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine import what_if_lookup
from engine.context import Message
from engine.errors import DoesNotFit, InvariantError, ModelNotFound, OutOfMemory, PromptTooLong
from engine.events import BaselineFinished, EndReason, Event, Round, RunFinished, RunStarted, SegmentStarted
from engine.recording import Recorder, read_recording
from engine.session import Session
from tui.state import ViewState, reduce

OTHER = (Message("user", "Tell me about whales and ships, quickly."),)


pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def until_round(run: Iterator[Event], number: int = 1) -> list[Event]:
    """The events up to a round; the run stays open."""
    events: list[Event] = []
    for event in run:
        events.append(event)
        if isinstance(event, Round) and event.number == number:
            break
    return events


def id_of(session: Session, piece: bytes) -> int:
    text = session.pair.target.text
    return next(id_ for id_ in range(text.vocab_size) if text.piece(id_) == piece)


def shown(events: list[Event]) -> ViewState:
    state = ViewState()
    for event in events:
        state = reduce(state, event)
    return state


# -- given tokens


def test_a_character_split_over_the_seam_is_whole(target: str) -> None:
    session = loaded(configured(target, run={"max_new_tokens": 1}))
    first, second = id_of(session, b"\xc3"), id_of(session, b"\xa9")
    model = cast(Any, session.pair.target)
    forward = model.forward

    def always_second(*args: Any, **named: Any) -> Any:
        logits = forward(*args, **named)
        logits[:] = 0
        logits[:, second] = 50
        return logits

    model.forward = always_second
    events = list(session.generate(ASK, (first,)))
    assert of(RunStarted, events).given_text == ""
    state = shown(events)
    assert "".join(state.text) == "\u00e9"
    assert b"".join(token.piece for token in state.output) == "\u00e9".encode()


def test_control_tokens_give_no_text_and_count_as_no_prompt(target: str) -> None:
    session = loaded(configured(target))
    given = (id_of(session, b"a"), id_of(session, b"<|im_end|>"), id_of(session, b"a"))
    events = list(session.generate(ASK, given))
    assert of(RunStarted, events).given_text == "aa"
    again = list(session.generate(ASK, given))
    started = of(RunStarted, again)
    assert started.reused == len(started.prompt), "what is re-used of the given tokens is not the prompt's"
    older = RunStarted(
        0, 0, 1, "speculative", (1,), (b"x",), 0, 9, None, (), (1, 2, 3), (b"a", b"</s>", b"\xc3")
    )
    assert "".join(shown([older]).text) == "a", "a recording that lacks the text"


def test_an_end_of_sequence_that_was_given_ends_the_answer(target: str) -> None:
    session = loaded(configured(target, run={"ignore_eos": False}))
    end = next(iter(session.pair.target.eos_ids))
    events = list(session.generate(ASK, (id_of(session, b"a"), end)))
    assert kinds(events) == ["RunStarted", "SegmentStarted", "RunFinished"]
    finished = of(RunFinished, events)
    assert (finished.reason, finished.tokens) == (EndReason.EOS, 0)
    assert list(session.baseline()) == []
    whole = ids_of(list(loaded(configured(target)).generate(OTHER)))
    session.config = configured(target)
    assert ids_of(list(session.generate(OTHER))) == whole


def test_a_full_context_cannot_go_on(target: str) -> None:
    session = loaded(configured(target, run={"max_new_tokens": 1000}))
    ids = ids_of(list(session.generate(ASK)))
    with pytest.raises(PromptTooLong, match=rf"the answer begins with {len(ids)} more; .* reads 512 at most"):
        list(session.generate(ASK, ids))


# -- a run that goes on


@pytest.mark.parametrize("stop", [(), ("zq",)])
def test_a_run_goes_on_with_another_drafter(
    target: str, drafter: str, tmp_path: Path, stop: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup, model = (
        configured(target, run={"stop": stop}),
        configured(target, drafter, run={"stop": stop}),
    )
    whole = list(loaded(lookup).generate(ASK))
    session = Session(lookup, Recorder(tmp_path / "run.jsonl"))
    events: list[Event] = []
    session.load(events.append)
    for event in session.generate(ASK):
        events.append(event)
        if isinstance(event, Round) and event.number == 2:
            session.cancel()
    written = ids_of(events)
    session.change(model)
    session.load(events.append)
    second = list(session.generate(ASK, written, resumed=True))
    events += second
    assert next(event.number for event in second if isinstance(event, Round)) == 3
    assert of(SegmentStarted, second).settings_id == 2
    started, finished = of(RunStarted, second), of(RunFinished, second)
    assert (started.run, started.max_new_tokens) == (1, LENGTH)
    assert ids_of(events) == ids_of(whole)
    assert (finished.tokens, finished.reason) == (LENGTH, EndReason.MAX_NEW_TOKENS)
    rounds = [event for event in events if isinstance(event, Round)]
    assert finished.decode_ms == pytest.approx(sum(round_.ms for round_ in rounds))
    assert session.statistics()["rounds"] == len(rounds)
    asked: list[tuple[list[int], list[int]]] = []

    def other_methods(prompt: list[int], answer: list[int], *_: object) -> tuple[()]:
        asked.append((prompt, answer))
        return ()

    monkeypatch.setattr(what_if_lookup, "other_methods", other_methods)
    session.statistics()
    assert asked == [([*started.prompt], ids_of(whole))], "of the whole run, as from its recording"
    measured = list(session.baseline())
    assert of(BaselineFinished, measured).tokens == LENGTH
    assert of(BaselineFinished, measured).identical is True

    state = shown([*events, *measured])
    assert "".join(state.text) == text_of(whole)
    assert (len(state.rounds), state.run, state.given) == (len(rounds), 1, 0)
    assert [token.id for token in state.output] == ids_of(whole)
    assert state.segment_start == 2
    assert state.total.rounds == len(rounds) == state.segment.rounds + 2
    assert state.total.tokens == LENGTH
    assert len(state.text) - bool(finished.text) == len(rounds), "a chunk each, as stepping expects"
    session.close()
    assert shown(list(read_recording(tmp_path / "run.jsonl").events)) == state, "a replay shows the same"


# -- settings, loads, runs that were left


def test_a_change_between_two_runs_counts_from_the_next_one_on(target: str) -> None:
    session = loaded(configured(target))
    session.change(configured(target, draft={"num_draft_tokens": 1}))
    assert of(SegmentStarted, list(session.generate(ASK))).settings.num_draft_tokens == 1
    for event in session.generate(ASK):
        if isinstance(event, RunFinished):
            session.change(configured(target, draft={"num_draft_tokens": 2}))
    assert of(SegmentStarted, list(session.generate(ASK))).settings.num_draft_tokens == 2


def test_there_is_nothing_to_measure_after_a_load(target: str, tmp_path: Path) -> None:
    session = loaded(configured(target))
    list(session.generate(ASK))
    session.config = configured(str(save_folder(tmp_path, tiny_model("llama", seed=4), tiny_tokenizer())))
    session.load()
    assert list(session.baseline()) == []


def test_what_cannot_be_loaded_leaves_the_models_of_before(
    target: str, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = loaded(configured(target))
    held, whole = session.held, ids_of(list(session.generate(ASK)))
    session.config = configured("/nowhere/at/all")
    with pytest.raises(ModelNotFound):
        session.load()
    monkeypatch.setattr("engine.preparing.free_on", lambda *_: (0, "this machine"))
    session.config = configured(drafter)
    with pytest.raises(DoesNotFit):
        session.load()
    assert session.held == held
    session.config = configured(target)
    assert ids_of(list(session.generate(ASK))) == whole


def test_a_run_that_was_left_is_closed_by_the_next_one(target: str) -> None:
    session = loaded(configured(target))
    right = ids_of(list(session.generate(ASK)))
    for close_at in ("before", "between", "never"):
        old = session.generate(OTHER)
        until_round(old)
        new = session.generate(ASK)
        events = until_round(new)
        if close_at == "between":
            cast(Any, old).close()
        events += list(new)
        assert ids_of(events) == right
        if close_at == "never":
            with pytest.raises(InvariantError, match="this run was left"):
                list(old)
    assert ids_of(list(session.generate(ASK))) == right


def test_a_prefill_that_fails_midway_leaves_a_sound_cache(target: str) -> None:
    config = configured(target, run={"optimize": "eager"})  # a layer can be made to fail from here
    session = loaded(config)
    right = ids_of(list(loaded(config).generate(ASK)))
    list(session.generate((Message("user", "x"),)))
    last = cast(Any, session.pair.target.model).model.layers[-1].self_attn
    forward = last.forward

    def full(*args: Any, **named: Any) -> Any:
        raise RuntimeError("not enough memory")

    last.forward = full
    with pytest.raises(OutOfMemory):
        list(session.generate(ASK))
    last.forward = forward
    assert ids_of(list(session.generate(ASK))) == right


def test_a_cancel_before_the_libraries_are_there_counts(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flag is cleared first, not after an import that takes seconds."""
    session = Session(configured(target))
    session.cancel()
    import builtins

    real = builtins.__import__

    def importing(name: str, *args: Any) -> Any:
        if name == "engine.pair":
            session.cancel()
        return real(name, *args)

    from engine.errors import Cancelled

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(Cancelled):
        session.load()
