"""Sessions of tiny random models saved as folders: one answer, its baseline, sampling, several turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from support.sessions import ASK, LENGTH, configured, ids_of, kinds, loaded, of, text_of
from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer
from torch import nn

from engine.context import Message
from engine.drafters.base import DrafterContext
from engine.drafters.model import ModelDrafter
from engine.errors import InvariantError
from engine.events import (
    BaselineFinished,
    BaselineStarted,
    EndReason,
    Event,
    LoadFinished,
    LoadStarted,
    Notice,
    PrefillFinished,
    PrefillProgress,
    Round,
    RunFinished,
    RunStarted,
    SegmentStarted,
)
from engine.kv_cache import common_prefix
from engine.models.load import load_model
from engine.session import Session

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


# -- one answer


def test_the_story_of_an_answer(target: str, drafter: str) -> None:
    told: list[Event] = []
    session = Session(configured(target, drafter))
    session.load(told.append)
    assert isinstance(told[0], LoadStarted)
    assert [event.role for event in told if isinstance(event, LoadStarted)] == ["target", "drafter"]
    assert [event.role for event in told if isinstance(event, LoadFinished)] == ["target", "drafter"]
    events = list(session.generate(ASK))
    assert kinds(events) == [
        "RunStarted", "SegmentStarted", "PrefillProgress", "PrefillFinished", "Calibrated", "Round",
        "RunFinished",
    ]  # fmt: skip
    baseline = list(session.baseline())
    assert kinds(baseline) == ["BaselineStarted", "BaselineProgress", "BaselineFinished"]
    everything = [*told, *events, *baseline]
    assert [event.seq for event in everything] == sorted({event.seq for event in everything})
    assert [event.t_ns for event in everything] == sorted(event.t_ns for event in everything)

    finished, started = of(RunFinished, events), of(RunStarted, events)
    assert finished.reason is EndReason.MAX_NEW_TOKENS
    assert finished.tokens == len(ids_of(events)) == LENGTH
    assert finished.decode_ms == pytest.approx(sum(e.ms for e in events if isinstance(e, Round)))
    assert finished.prefill_ms == of(PrefillFinished, events).ms
    assert started.reused == 0
    assert b"".join(started.prompt_pieces).decode() == tiny_tokenizer().decode(list(started.prompt))
    progress = [event for event in events if isinstance(event, PrefillProgress)]
    assert progress[-1].done == progress[-1].total == 2 * (len(started.prompt) - 1)
    settings = of(SegmentStarted, events).settings
    assert (settings.drafter, settings.num_draft_tokens, settings.temperature) == ("model", 3, 0.0)
    assert settings.seed == session.seed


@pytest.mark.parametrize("method", ["lookup", "model", "itself"])
def test_the_baseline_writes_the_same_text(method: str, target: str, drafter: str) -> None:
    session = loaded(configured(target, {"lookup": None, "model": drafter, "itself": target}[method]))
    events = list(session.generate(ASK))
    baseline = of(BaselineFinished, list(session.baseline()))
    assert baseline.identical is True
    assert baseline.complete
    assert baseline.first_difference is None
    assert list(baseline.ids) == ids_of(events)
    session.run_statistics.check_identities()
    measures = session.statistics()
    assert measures["tokens"] == LENGTH
    assert measures["identical"] is True
    assert measures["speedup"] > 0
    if method == "itself":
        assert measures["alpha_hat"] == 1.0
        model = session.pair.drafter.context.model
        assert model is not None
        assert model.model is session.pair.target.model, "one copy of the weights"
        assert model.clock is not session.pair.target.clock


def test_rounds_limit(target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, run={"max_new_tokens": None, "rounds": 4}))
    events = list(session.generate(ASK))
    rounds = [event for event in events if isinstance(event, Round)]
    assert [round_.number for round_ in rounds] == [1, 2, 3, 4]
    assert of(RunFinished, events).reason is EndReason.ROUNDS
    assert of(RunStarted, events).max_rounds == 4
    baseline = list(session.baseline())
    assert of(BaselineStarted, baseline).tokens == len(ids_of(events))
    assert of(BaselineFinished, baseline).identical is True


def test_baseline_after_eos(target: str, drafter: str, tmp_path: Path) -> None:
    """The answer ends at EOS inside a round; plain decoding is timed to that length and no further."""
    written = ids_of(list(loaded(configured(target, drafter)).generate(ASK)))
    eos = next(id_ for at, id_ in enumerate(written) if at >= 8 and id_ not in written[:at])
    folder = tmp_path / "with-eos"
    save_folder(folder, tiny_model("llama"), tiny_tokenizer())
    settings = folder / "generation_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"eos_token_id": [2, eos]}))
    session = loaded(configured(str(folder), drafter, run={"ignore_eos": False}))
    events = list(session.generate(ASK))
    assert of(RunFinished, events).reason is EndReason.EOS
    assert ids_of(events) == written[: written.index(eos) + 1]
    baseline = of(BaselineFinished, list(session.baseline()))
    assert list(baseline.ids) == ids_of(events)
    assert baseline.identical is True


def test_stop_string(target: str, drafter: str) -> None:
    whole = text_of(list(loaded(configured(target, drafter)).generate(ASK)))
    stop = next(
        whole[at : at + 3] for at in range(len(whole) // 2, len(whole)) if whole[at : at + 3].isascii()
    )
    session = loaded(configured(target, drafter, run={"stop": [stop]}))
    events = list(session.generate(ASK))
    assert of(RunFinished, events).reason is EndReason.STOP
    assert text_of(events) == whole[: whole.index(stop)]
    assert of(RunFinished, events).tokens == len(ids_of(events))
    baseline = of(BaselineFinished, list(session.baseline()))
    assert list(baseline.ids) == ids_of(events)
    assert baseline.identical is True


def test_a_drafter_with_a_short_context_is_told_once(target: str, tmp_path: Path) -> None:
    model = noisy_copy(tiny_model("llama", max_position_embeddings=60), 0.1)
    short = save_folder(tmp_path / "short", model, tiny_tokenizer())
    session = loaded(configured(target, str(short), run={"max_new_tokens": 60, "baseline": "full"}))
    events = list(session.generate(ASK))
    assert of(Notice, events).key == "speculation_off"
    assert of(BaselineFinished, list(session.baseline())).identical is True


# -- sampling


SAMPLED = {"temperature": 1.0, "top_k": 0, "seed": 11}


def test_a_sampled_run_is_repeated_by_its_seed(target: str, drafter: str) -> None:
    config = configured(target, drafter, sampling=SAMPLED)
    session = loaded(config)
    events = list(session.generate(ASK))
    baseline = of(BaselineFinished, list(session.baseline()))
    assert baseline.identical is None
    assert baseline.first_difference is None
    assert len(baseline.ids) == len(ids_of(events))
    again = list(session.generate(ASK))
    elsewhere = list(loaded(config).generate(ASK))
    other = configured(target, drafter, sampling={**SAMPLED, "seed": 12})
    assert ids_of(events) == ids_of(again) == ids_of(elsewhere) != ids_of(list(loaded(other).generate(ASK)))
    for one, two in zip(events, elsewhere, strict=True):
        if isinstance(one, Round):
            assert isinstance(two, Round)
            assert (one.drafts, one.target, one.text) == (two.drafts, two.target, two.text)


def test_a_fresh_seed_is_drawn_and_told(target: str) -> None:
    config = configured(target, sampling={"temperature": 1.0})
    one, two = Session(config), Session(config)
    assert one.seed != two.seed
    one.load()
    assert one.header()["seed"] == one.seed == of(SegmentStarted, list(one.generate(ASK))).settings.seed


# -- several turns


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("method", ["lookup", "model"])
def test_the_next_turn_uses_what_the_caches_hold(
    method: str, measured: bool, target: str, drafter: str
) -> None:
    config = configured(target, drafter if method == "model" else None)
    session = loaded(config)
    first = list(session.generate(ASK))
    if measured:
        list(session.baseline())
    turn = (*ASK, Message("assistant", text_of(first)), Message("user", "And then?"))
    second = list(session.generate(turn))
    prompt = list(of(RunStarted, second).prompt)
    held = [*of(RunStarted, first).prompt, *ids_of(first)][:-1]  # the newest token was never fed
    assert (
        of(RunStarted, second).reused == common_prefix(held, prompt) > len(of(RunStarted, first).prompt) - 5
    )
    alone = list(loaded(config).generate(turn))
    assert of(RunStarted, alone).reused == 0
    assert text_of(second) == text_of(alone)
    assert ids_of(second) == ids_of(alone)
    assert of(BaselineFinished, list(session.baseline())).identical is True


def test_an_edited_turn_and_the_same_one_again(target: str, drafter: str) -> None:
    config = configured(target, drafter)
    session = loaded(config)
    first = list(session.generate(ASK))
    again = list(session.generate(ASK))
    assert of(RunStarted, again).reused == len(of(RunStarted, first).prompt) - 1
    assert ids_of(again) == ids_of(first)
    edited = (Message("user", "Why did the dragon stop?"),)
    assert ids_of(list(session.generate(edited))) == ids_of(list(loaded(config).generate(edited)))
    assert ids_of(list(session.generate(ASK))) == ids_of(first)


# -- models held in other ways


def test_a_model_over_several_devices(target: str, drafter: str) -> None:
    """The hooks that accelerate puts around a spread model, here with parts that are all on the CPU."""
    from accelerate import dispatch_model

    whole = ids_of(list(loaded(configured(target, drafter)).generate(ASK)))
    session = loaded(configured(target, drafter))
    spread = cast("nn.Module", session.pair.target.model)
    parts = {name: "cpu" for name, _ in spread.named_children() if name != "model"}
    inner = cast("nn.Module", spread.model)
    parts |= {f"model.{name}": "cpu" for name, _ in inner.named_children() if name != "layers"}
    parts |= {f"model.layers.{index}": "cpu" for index in range(3)}
    dispatch_model(spread, device_map=parts, main_device="cpu", force_hooks=True)
    assert hasattr(cast("Any", inner).layers[1], "_hf_hook")
    assert ids_of(list(session.generate(ASK))) == whole
    assert of(BaselineFinished, list(session.baseline())).identical is True


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_drafter_in_another_number_format(temperature: float, target: str, drafter: str) -> None:
    session = loaded(configured(target, drafter, sampling={"temperature": temperature, "seed": 3}))
    other = load_model(drafter, device="cpu", dtype="bfloat16")
    own = session.pair.target
    session.pair.drafter = ModelDrafter(DrafterContext(own, other, own.vocab_size, greedy=False))
    events = list(session.generate(ASK))
    assert len(ids_of(events)) == LENGTH
    baseline = of(BaselineFinished, list(session.baseline()))
    assert baseline.identical is (True if temperature == 0 else None)
    accepted = sum(event.accepted for event in events if isinstance(event, Round))
    assert accepted > 0


def test_a_session_that_is_not_loaded() -> None:
    session = Session(configured("nowhere"))
    for use in (lambda: next(iter(session.generate(ASK))), session.header):
        with pytest.raises(InvariantError, match="not loaded"):
            use()
    assert list(session.baseline()) == []
    session.close()
