"""docs/drafters.md: the drafter it shows works as it stands there, and every method has its section."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
from support.sessions import ASK, configured, ids_of, loaded
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine import registry
from engine.events import PlainStep, Round
from engine.registry import DRAFTERS, Entry

TEXT = (Path(__file__).parents[1] / "docs" / "drafters.md").read_text("utf-8")
MODULE, LINE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def sections() -> dict[str, str]:
    """Heading to text."""
    parts = re.split(r"^## (.*)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("method", DRAFTERS)
def test_every_method_has_its_section_with_its_options(method: str) -> None:
    text = sections()[method]
    keys = re.findall(r"^\| (`.*`) \|", text, re.MULTILINE)
    named = {name for key in keys for name in re.findall(r"`(\w+)`", key)}
    assert set(DRAFTERS[method].options) <= named
    assert ("model_name" in named) == DRAFTERS[method].loads_model


def test_the_drafter_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file and one line: its text is that of plain decoding, and it is right now and then."""
    (entry,) = registered(tmp_path, monkeypatch)
    assert not entry.loads_model
    assert entry.summary.endswith(".")
    config = configured(str(near_sighted(tmp_path / "target")), run={"max_new_tokens": 200})
    draft = config.draft.model_copy(update={"method": "bigram"})
    session = loaded(config.model_copy(update={"draft": draft}))
    assert type(session.pair.drafter).__name__ == "BigramDrafter"
    plain = [event.id for event in session.plain(ASK) if isinstance(event, PlainStep)]
    events = list(session.generate(ASK))
    assert ids_of(events) == plain
    rounds = [event for event in events if isinstance(event, Round)]
    drafted, accepted = sum(len(r.drafts) for r in rounds), sum(r.n_accepted for r in rounds)
    assert 0 < accepted < drafted
    assert all(r.draft_ms > 0 for r in rounds if r.drafts)
    assert len({len(r.drafts) for r in rounds}) > 1


def near_sighted(folder: Path) -> Path:
    """A tiny model whose attention says little, so that a token mostly has the follower it had before."""
    model = tiny_model("llama")
    for name, weight in model.named_parameters():
        if "o_proj" in name:
            weight.mul_(0.05)
    return save_folder(folder, model, tiny_tokenizer())


def registered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """The document's module in place, and its line in the registry."""
    entries: dict[str, Entry] = eval(f"{{{LINE}}}", {"Entry": Entry})
    for name, entry in entries.items():
        monkeypatch.setitem(registry.DRAFTERS, name, entry)
        module = entry.target.partition(":")[0]
        path = folder / f"{module.rpartition('.')[2]}.py"
        path.write_text(MODULE, "utf-8")
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None
        loaded_module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, module, loaded_module)
        spec.loader.exec_module(loaded_module)
    return list(entries.values())
