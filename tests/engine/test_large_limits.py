"""Limits far above what a model can hold, and models far below what is usual."""

from __future__ import annotations

import pytest
from support.sessions import ASK, configured, ids_of, loaded, of
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine.errors import DoesNotFit
from engine.events import EndReason, RunFinished
from engine.models import memory


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of 64 positions, learned ones: a 65th is an error, not a longer rotation."""
    path = tmp_path_factory.mktemp("short")
    return str(save_folder(path, tiny_model("gpt2", n_positions=64), tiny_tokenizer()))


@pytest.mark.parametrize(
    "limits", [{"max_new_tokens": 10_000_000}, {"max_new_tokens": None, "rounds": 10_000_000}]
)
def test_a_limit_beyond_the_context_asks_for_no_memory(
    folder: str, limits: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "engine.preparing.free_on", lambda *_: (memory.WORKING_BYTES + 2_000_000, "a small machine")
    )
    session = loaded(configured(folder, run=limits))
    events = list(session.generate(ASK))
    assert of(RunFinished, events).reason is EndReason.CONTEXT
    assert session.pair.cache.nbytes < 2_000_000


def test_the_estimate_still_refuses(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.preparing.free_on", lambda *_: (memory.WORKING_BYTES, "a small machine"))
    with pytest.raises(DoesNotFit, match="a small machine"):
        loaded(configured(folder))


def test_a_drafter_that_is_the_target_needs_a_cache_of_its_own(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[memory.Estimate] = []
    monkeypatch.setattr("engine.preparing.check_fits", lambda estimates, *_: seen.extend(estimates))
    loaded(configured(folder, folder))
    assert [each.weights > 0 for each in seen] == [True, False]
    assert seen[0].cache == seen[1].cache > 0


@pytest.mark.parametrize("drafter", [True, False])
def test_more_drafts_than_the_context_has_positions(folder: str, drafter: bool) -> None:
    changes = {"draft": {"num_draft_tokens": 64}, "run": {"max_new_tokens": 5}}
    session = loaded(configured(folder, folder if drafter else None, **changes))
    assert len(ids_of(list(session.generate(ASK)))) == 5
