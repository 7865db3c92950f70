"""The models at hand: found in every place, with what they need, and with what is wrong with them."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from tui.gguf_header import gguf_parameters
from tui.model_list import Fit, ModelEntry, Place, entry_for, find_models, folders_of, hub_folder, item_bytes

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 16,
}


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "cache"))


def make_folder(path: Path, shape: tuple[int, ...] = (100, 16), config: dict[str, Any] | None = None) -> Path:
    """A model folder whose one tensor is of 16-bit zeros."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    (path / "tokenizer.json").write_text("{}")
    size = 2 * math.prod(shape)
    header = json.dumps({"w": {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    return path


def make_gguf(path: Path, shape: tuple[int, ...] = (8, 4)) -> Path:
    """The head of a GGUF file with a few values and one tensor."""

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    words = struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
    values = [
        text("general.name") + struct.pack("<I", 8) + text("x"),
        text("tokens") + words,
        text("scores") + struct.pack("<IIQ", 9, 6, 3) + bytes(12),
        text("flag") + struct.pack("<IB", 7, 1),
    ]
    dimensions = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", each) for each in shape)
    tensor = text("w") + dimensions + struct.pack("<IQ", 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, len(values)) + b"".join(values) + tensor)
    return path


def make_hub(hub: Path, name: str) -> Path:
    """A repository in the Hub's cache; returns its snapshot, which does not exist yet."""
    repo = hub / f"models--{name.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("abc123")
    return repo / "snapshots" / "abc123"


def by_name(entries: tuple[ModelEntry, ...]) -> dict[str, ModelEntry]:
    return {entry.name: entry for entry in entries}


def test_every_place(tmp_path: Path) -> None:
    hub, mine = tmp_path / "hub", tmp_path / "mine"
    make_folder(make_hub(hub, "org/whole"))
    half = make_folder(make_hub(hub, "org/half"))
    (half / "model.safetensors").unlink()
    folder = make_folder(mine / "tiny")
    gguf = make_gguf(mine / "quantised" / "a.gguf")
    broken = mine / "broken.gguf"
    broken.write_bytes(b"GGUF\x03")
    remote = make_folder(mine / "remote", config={**CONFIG, "auto_map": {"x": "y"}})
    found = by_name(find_models([mine], hub))
    assert [entry.place for entry in found.values()] == sorted(
        (entry.place for entry in found.values()), key=list(Place).index
    )
    assert set(found) == {
        "builtin:smollm2-135m",
        *("org/whole", "org/half", str(folder), str(gguf), str(broken), str(remote)),
    }
    builtin = found["builtin:smollm2-135m"]
    assert (builtin.here, builtin.disk_bytes, builtin.needed(4)) == (False, 92_871_040, None)
    whole = found["org/whole"]
    assert (whole.here, whole.full_bytes, whole.half_bytes) == (True, 6400, 3200)
    assert whole.cached_per_token == 2 * 2 * (4 + 4)
    assert whole.architecture == "LlamaForCausalLM"
    assert not found["org/half"].here and found["org/half"].usable
    assert found[str(gguf)].full_bytes == 4 * 32
    assert not found[str(broken)].usable
    problem = found[str(remote)].problem
    assert problem and "auto_map" in problem


def test_missing_places_are_empty(tmp_path: Path) -> None:
    assert len(find_models([tmp_path / "none"], tmp_path / "no hub")) == 1


def test_fit() -> None:
    entry = ModelEntry(
        "x", Place.FOLDER, True, 10, full_bytes=10**9, half_bytes=5 * 10**8, cached_per_token=1000
    )
    needed = entry.needed(4)
    assert needed == 10**9 + 1000 * 2048 * 4 + (64 << 20)
    assert entry.fit(2 * 10**9, 4) is Fit.FITS
    assert entry.fit(needed, 4) is Fit.TIGHT
    assert entry.fit(needed - 1, 4) is Fit.TOO_BIG
    assert entry.fit(needed - 1, 2) is Fit.FITS
    assert ModelEntry("x", Place.HUB, False, 0).fit(0, 4) is Fit.UNKNOWN
    assert (item_bytes("auto"), item_bytes("bfloat16")) == (4, 2)


def test_typed_names(tmp_path: Path) -> None:
    folder, gguf = make_folder(tmp_path / "m"), make_gguf(tmp_path / "x.gguf")
    assert entry_for(str(folder), ()).place is Place.FOLDER
    assert entry_for(str(gguf), ()).here
    hub = entry_for("org/name", ())
    assert (hub.place, hub.here) == (Place.HUB, False)
    assert "huggingface.co/org/name" in hub.source
    listed = ModelEntry("builtin:smollm2-135m", Place.BUILTIN, False, 92_871_040, licence="Apache-2.0")
    assert entry_for(listed.name, (listed,)) is listed
    assert "93 MB" in listed.source and "Apache-2.0" in listed.source
    for name in ("builtin:nothing", "no model", "missing.gguf", str(tmp_path / "none" / "x")):
        with pytest.raises(ModelError):
            entry_for(name, ())
    with pytest.raises(ModelError, match="pickled"):
        entry_for("bad", (ModelEntry("bad", Place.FOLDER, True, 0, problem="pickled weights"),))


def test_folders_beside_named_models(tmp_path: Path) -> None:
    make_folder(tmp_path / "m")
    assert tmp_path in folders_of([str(tmp_path / "m"), "org/name", "builtin:x", None])


def test_hub_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert hub_folder() == Path("~/.cache/huggingface/hub").expanduser()
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert hub_folder() == tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "x"))
    assert hub_folder() == tmp_path / "x"


def test_gguf_heads(tmp_path: Path) -> None:
    good = make_gguf(tmp_path / "good.gguf", (10, 3, 2))
    assert gguf_parameters(good) == 60
    data = good.read_bytes()
    for length in range(len(data) - 12):
        (tmp_path / "cut.gguf").write_bytes(data[:length])
        assert gguf_parameters(tmp_path / "cut.gguf") is None, length
    (tmp_path / "huge.gguf").write_bytes(data[:8] + struct.pack("<QQ", 2**63, 2**63) + data[24:])
    assert gguf_parameters(tmp_path / "huge.gguf") is None
    assert gguf_parameters(tmp_path / "missing.gguf") is None


def test_listing_loads_nothing_heavy() -> None:
    code = "import sys, tui.screens.models; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"torch", "transformers", "numpy", "huggingface_hub", "gguf"} & set(done.stdout.split())
