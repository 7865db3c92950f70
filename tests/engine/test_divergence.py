"""The verdict on a text that left plain decoding: a numerical tie or a bug, never a guess."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.sessions import ASK, configured, ids_of, loaded, of
from support.tables import settings
from support.tiny import tiny_lm, tiny_model

from engine.context import Message
from engine.divergence import Parting, examine
from engine.draws import Draws, SharedNoise
from engine.errors import NumericalError
from engine.events import BaselineFinished, Divergence, Settings
from engine.sampling import Law
from engine.session import Session

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

PROMPT = [40, 41, 42, 43, 90, 91]
GREEDY = settings(temperature=0.0)
SAMPLED = settings()


def never() -> bool:
    return False


def parting(model: Any, given: Settings, draws: Draws, dtype: torch.dtype, rank: int = 1) -> Parting:
    """Plain decoding's next token, and another one that the run is said to have written."""
    shared = [50, 60, 70, 80, 90]
    law = Law(given, dtype)
    cache = model.new_cache()
    model.extend(PROMPT[:-1], cache)
    scores = [law.process(model.forward([i], cache, 1), [])[0] for i in (PROMPT[-1], *shared)][-1]
    position = len(PROMPT) + len(shared)
    p = law.probabilities(scores[None])[0]
    plain = int(scores.argmax()) if law.greedy else int(draws.target(p, position))
    order = [int(id_) for id_ in scores.topk(rank + 1).indices if int(id_) != plain]
    return Parting(PROMPT, shared, order[rank - 1], plain, scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_ordinary_token_is_a_bug(dtype: torch.dtype) -> None:
    model = tiny_lm("llama", model=tiny_model("llama").to(dtype))
    found = parting(model, GREEDY, Draws(0), dtype)
    measured = examine(model, Law(GREEDY, dtype), Draws(0), found, 4, never)
    assert measured is not None
    gap, change = measured
    assert gap == pytest.approx(float(found.scores[found.plain] - found.scores[found.written]))
    assert gap > change
    assert change < (1e-4 if dtype == torch.float32 else 1e-12)


def test_a_near_tie_is_a_tie() -> None:
    """The two rows of the output matrix are made alike but for a breath."""
    network = tiny_model("llama")
    model = tiny_lm("llama", model=network)
    first = parting(model, GREEDY, Draws(0), torch.float32)
    twin = network.lm_head.weight[first.plain].clone()
    network.lm_head.weight[first.written] = twin
    found = parting(model, GREEDY, Draws(0), torch.float32)
    assert {found.written, found.plain} == {first.written, first.plain}
    measured = examine(model, Law(GREEDY), Draws(0), found, 4, never)
    assert measured is not None
    assert measured[0] <= measured[1]


@pytest.mark.parametrize("source", [Draws, SharedNoise])
def test_sampled_tokens_are_measured_in_what_their_draw_compares(source: type[Draws]) -> None:
    model = tiny_lm("llama", model=tiny_model("llama").double())
    draws = source(3)
    found = parting(model, SAMPLED, draws, torch.float64)
    law = Law(SAMPLED, torch.float64)
    measured = examine(model, law, draws, found, 4, never)
    assert measured is not None
    assert 0 <= measured[1] < 1e-6 < measured[0]
    p = law.probabilities(found.scores[None])[0]
    position = len(found.prompt) + len(found.shared)
    assert draws.distance(p, position, found.plain) == 0


@pytest.mark.parametrize("source", [Draws, SharedNoise])
def test_the_distance_is_what_has_to_change(source: type[Draws]) -> None:
    """Give the other token that much more, and the draw gives it."""
    p, draws = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64), source(1)
    for position in range(40):
        chosen = int(draws.target(p, position))
        for id_ in {0, 1, 2} - {chosen}:
            distance = draws.distance(p, position, id_)
            assert distance > 0
            assert draws.shift(p, p) == 0
            if source is SharedNoise:
                for more, gives in ((1e-6, id_), (-1e-6, chosen)):
                    other = p.clone()
                    other[id_] += distance + more
                    other[chosen] -= distance + more
                    if other[id_] <= 1 and int(draws.target(other, position)) in (id_, chosen):
                        assert int(draws.target(other, position)) == gives
                    assert draws.shift(p, other) == pytest.approx(distance + more)


def test_a_token_that_was_excluded_is_infinitely_far_but_can_be_recorded() -> None:
    model = tiny_lm("llama", model=tiny_model("llama").double())
    found = parting(model, GREEDY, Draws(0), torch.float64)
    found = replace(found, scores=found.scores.clone())
    found.scores[found.written] = -torch.inf
    measured = examine(model, Law(GREEDY, torch.float64), Draws(0), found, 4, never)
    assert measured is not None
    assert 1e30 < measured[0] < float("inf")
    one = settings(top_k=1)
    for draws in (Draws(3), SharedNoise(3)):
        law = Law(one, torch.float64)
        measured = examine(model, law, draws, parting(model, one, draws, torch.float64), 4, never)
        assert measured is not None
        assert 0 < measured[0] <= 1


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"sampling": {"temperature": 1.0, "seed": 1, "top_p": 0.8}, "verify": {"verify_strategy": "match"}},
        {
            "sampling": {"temperature": 1.0, "seed": 1, "top_k": 4},
            "verify": {"verify_strategy": "seed_exact"},
        },
    ],
)
def test_rounding_is_called_a_tie(
    target: str, drafter: str, tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """bfloat16, attention that rounds by width: texts part, and the run's own passes explain it each time."""
    monkeypatch.setattr("engine.models.attention.fits", lambda model: False)
    session = loaded(
        configured(
            target,
            drafter,
            run={"dtype": "bfloat16", "max_new_tokens": 60, "optimize": "eager", "baseline": "full"},
            **tables,
        )
    )
    found: list[Divergence] = []
    for number in range(60):
        list(session.generate((Message("user", f"Tell me of number {number}."),)))
        finished = of(BaselineFinished, list(session.baseline()))
        found += [finished.divergence] if finished.divergence else []
        if len(found) >= 3:
            break
    assert found
    assert all(each.is_tie for each in found), found


def test_a_prompt_that_gives_nan_does_not_spoil_the_next(target: str) -> None:
    """A NaN in the keys would reach every later pass from behind its mask."""
    session = loaded(configured(target, run={"dtype": "bfloat16"}))
    expected = ids_of(list(session.generate(ASK)))
    weight = session.pair.target.model.get_input_embeddings().weight
    bad = session.encode("Z")[0]
    sound = weight[bad].clone()
    weight[bad] = float("nan")
    with pytest.raises(NumericalError):
        list(session.generate((Message("user", "ZZZ Why did the knight stop?" + "Z" * 60),)))
    weight[bad] = sound
    assert ids_of(list(session.generate(ASK))) == expected


def test_cancelled_it_says_nothing() -> None:
    model = tiny_lm("llama")
    found = parting(model, GREEDY, Draws(0), torch.float32)
    assert examine(model, Law(GREEDY), Draws(0), found, 4, lambda: True) is None


def sabotaged(session: Session) -> BaselineFinished:
    """A run whose text is told wrong at token 3, then its baseline."""
    list(session.generate(ASK))
    answer, _ = session._last or pytest.fail("there was a run")
    at = answer.prompt_length + 3
    answer.tokens[at] = (answer.tokens[at] + 1) % 380
    found: BaselineFinished = of(BaselineFinished, list(session.baseline()))
    return found


@pytest.mark.parametrize("sampled", [False, True])
def test_the_session_tells_a_bug(target: str, sampled: bool) -> None:
    tables: dict[str, Any] = {}
    if sampled:
        tables = {"sampling": {"temperature": 1.0, "seed": 4}, "verify": {"verify_strategy": "match"}}
    session = loaded(configured(target, **tables))
    finished = sabotaged(session)
    assert finished.identical is False
    assert finished.first_difference == 3
    found = finished.divergence
    assert isinstance(found, Divergence)
    assert found.index == 3
    assert found.plain == finished.ids[3] != found.written
    assert found.plain_piece == session.pair.target.text.piece(found.plain)
    assert found.is_tie is False
    assert found.gap is not None
    assert found.change is not None
    assert found.gap > found.change >= 0


def test_a_sampled_text_need_not_be_that_of_plain_decoding(target: str) -> None:
    session = loaded(configured(target, sampling={"temperature": 1.0, "seed": 4}))
    finished = sabotaged(session)
    assert (finished.identical, finished.first_difference, finished.divergence) == (None, None, None)


@pytest.mark.parametrize("rule", ["match", "seed_exact", "greedy_match", "block"])
def test_no_difference_no_divergence(target: str, drafter: str, rule: str) -> None:
    sampled: dict[str, Any] = {"temperature": 0.8, "seed": 4} if rule in ("match", "seed_exact") else {}
    if rule == "greedy_match":
        sampled = {"temperature": None}
    session = loaded(configured(target, drafter, sampling=sampled, verify={"verify_strategy": rule}))
    events = list(session.generate(ASK))
    finished = of(BaselineFinished, list(session.baseline()))
    assert finished.identical is True
    assert list(finished.ids) == ids_of(events)


def test_a_run_whose_law_changed_is_not_compared(target: str) -> None:
    session = loaded(configured(target))
    config = session.config
    for number, _ in enumerate(session.generate(ASK)):
        if number == 5:
            penalty = config.sampling.model_copy(update={"repetition_penalty": 1.5})
            session.change(config.model_copy(update={"sampling": penalty}))
    finished = of(BaselineFinished, list(session.baseline()))
    assert (finished.identical, finished.divergence) == (None, None)


def test_a_run_whose_k_changed_is_compared(target: str) -> None:
    session = loaded(configured(target))
    config = session.config
    for number, _ in enumerate(session.generate(ASK)):
        if number == 5:
            draft = config.draft.model_copy(update={"num_draft_tokens": 2})
            session.change(config.model_copy(update={"draft": draft}))
    assert of(BaselineFinished, list(session.baseline())).identical is True


def test_warm_up_says_whether_widths_agree(target: str, tmp_path: Path) -> None:
    session = loaded(configured(target, run={"dtype": "bfloat16"}))
    same = session.pair.same_bits
    assert isinstance(same, bool)
    assert session.header()["machine"]["same_bits"] is same
    if same:  # then every greedy run is plain decoding's, bit by bit
        list(session.generate(ASK))
        assert of(BaselineFinished, list(session.baseline())).identical is True
