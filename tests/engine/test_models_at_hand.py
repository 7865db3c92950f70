"""Models that are on this machine ready to load, found without fetching, converting or hashing anything."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from engine.models import builtin
from engine.models.cache import ENVIRONMENT
from engine.models.load import Kind, Source, at_hand, describe

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "cache"


def found(name: str) -> Source:
    """What is at hand, which is what loading would use."""
    source = at_hand(name)
    assert source is not None
    assert source == describe(name)
    return source


def test_a_folder(target: str) -> None:
    assert found(target).kind is Kind.FOLDER


def test_a_snapshot_of_the_hub(target: str, tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--org--tiny"
    shutil.copytree(target, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    assert found("org/tiny").revision == COMMIT
    (repository / "snapshots" / COMMIT / "model.safetensors").unlink()
    assert at_hand("org/tiny") is None


def test_a_converted_gguf_file(target: str, tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF and more")
    assert at_hand(str(file)) is None
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    shutil.copytree(target, cache / "gguf" / digest)
    assert found(str(file)).sha256 == digest


def test_a_large_gguf_file_is_not_read_for_its_hash(target: str, tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "large.gguf"
    file.write_bytes(b"GGUF" + bytes(5 << 20))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    shutil.copytree(target, cache / "gguf" / digest)
    assert at_hand(str(file)) is None, "nobody has computed it yet"
    assert describe(str(file)).sha256 == digest
    assert found(str(file)).folder.path == cache / "gguf" / digest


def test_the_built_in_model(target: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"GGUF and more"
    digest = hashlib.sha256(content).hexdigest()
    small = builtin.Builtin("small==1", "small/small.gguf", digest, 10, "CC0-1.0")
    monkeypatch.setitem(builtin.BUILTINS, "small", small)
    shutil.copytree(target, cache / "gguf" / digest)
    assert at_hand("builtin:small") is None
    (cache / "builtin").mkdir()
    (cache / "builtin" / "small.gguf").write_bytes(content)
    assert found("builtin:small").licence == "CC0-1.0"
