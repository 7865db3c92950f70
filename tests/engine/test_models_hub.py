"""Models of the Hub: the real client against a small server, and a fake one for the rest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from huggingface_hub import errors as hub_errors
from support.small_hub import COMMIT, SmallHub, serve
from support.tiny import save_folder, tiny_model, tiny_tokenizer

from engine.errors import Cancelled, DiskError, DownloadError, ModelNotFound, ModelUnsupported, SpeculateError
from engine.models import hub_client, load
from engine.models.cache import never, no_progress
from engine.models.hub import ensure_snapshot
from engine.models.hub_client import HuggingFace

REPO = "org/tiny"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights take several chunks of a download."""
    model = tiny_model("llama", hidden_size=512, intermediate_size=2048, num_hidden_layers=2)
    path = save_folder(tmp_path_factory.mktemp("model"), model, tiny_tokenizer())
    (path / "README.md").write_text("not needed")
    (path / "pytorch_model.bin").write_bytes(b"never")
    return path


@pytest.fixture
def small_hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallHub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("NAIVE_SPECULATE_CACHE", str(tmp_path / "ours"))
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 20)
    with serve(folder) as server:
        yield server


@pytest.fixture
def client(small_hub: SmallHub, tmp_path: Path) -> HuggingFace:
    return HuggingFace(small_hub.endpoint, tmp_path / "cache")


class TestRealClient:
    def test_downloads_what_is_needed(self, small_hub: SmallHub, client: HuggingFace) -> None:
        told: list[tuple[str, int, int | None]] = []
        snapshot = ensure_snapshot(REPO, lambda *row: told.append(row), never, client)
        assert snapshot.name == COMMIT
        names = {path.name for path in snapshot.iterdir()}
        assert {"config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"} <= names
        assert not names & {"README.md", "pytorch_model.bin"}
        stages, done, totals = zip(*told, strict=True)
        assert set(stages) == {"download"}
        assert list(done) == sorted(done)
        assert set(totals) == {sum(len(small_hub.files[name]) for name in names)}
        assert done[-1] == totals[-1]
        assert small_hub.tokens == {"127.0.0.1": {"Bearer hf_secret"}, "localhost": {None}}
        assert len(set(done)) > len(names) + 5, "the weights came without progress"

    def test_a_complete_model_needs_no_network(self, small_hub: SmallHub, client: HuggingFace) -> None:
        first = ensure_snapshot(REPO, no_progress, never, client)
        small_hub.requests.clear()
        assert ensure_snapshot(REPO, no_progress, never, client) == first
        assert small_hub.requests == []

    def test_cancel_in_a_file_then_resume(self, small_hub: SmallHub, client: HuggingFace) -> None:
        size = len(small_hub.files["model.safetensors"])
        reached = 0

        def on_progress(stage: str, done: int, total: int | None) -> None:
            nonlocal reached
            reached = done

        with pytest.raises(Cancelled):
            ensure_snapshot(REPO, on_progress, lambda: reached > size // 2, client)
        assert not small_hub.ranges
        snapshot = ensure_snapshot(REPO, no_progress, never, client)
        assert small_hub.ranges[-1].startswith("bytes=")
        assert small_hub.ranges[-1] != "bytes=0-"
        assert (snapshot / "model.safetensors").read_bytes() == small_hub.files["model.safetensors"]
        assert not list(client.cache_folder().rglob("*.partial"))

    def test_damaged_on_the_way(self, small_hub: SmallHub, client: HuggingFace) -> None:
        def on_progress(stage: str, done: int, total: int | None) -> None:
            spoilt.extend(client.cache_folder().rglob("*.partial"))

        spoilt: list[Path] = []
        with pytest.raises(Cancelled):
            ensure_snapshot(REPO, on_progress, lambda: bool(spoilt), client)
        spoilt[0].write_bytes(b"x" * 100)
        with pytest.raises(DownloadError, match="damaged"):
            ensure_snapshot(REPO, no_progress, never, client)
        ensure_snapshot(REPO, no_progress, never, client)

    def test_loaded_by_its_id(
        self, small_hub: SmallHub, client: HuggingFace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(hub_client, "HuggingFace", lambda: client)
        lm = load.load_model(REPO, device="cpu", dtype="float32")
        assert lm.info.name == REPO
        assert lm.info.revision == COMMIT
        blob = (load.describe(REPO).folder.files[0]).resolve()
        assert lm.info.sha256 == blob.name
        assert not (tmp_path / "ours" / "hashes").exists(), (
            "the hash was computed although the file's name is the hash"
        )

    @pytest.mark.parametrize(
        ("status", "code", "kind", "told"),
        [
            (403, "GatedRepo", ModelNotFound, "accept it at https://huggingface.co/org/tiny"),
            (401, "GatedRepo", ModelNotFound, "hf auth login"),
            (401, "RepoNotFound", ModelNotFound, "hf auth login"),
            (404, "RepoNotFound", ModelNotFound, "spelling"),
            (500, "", DownloadError, "copy the model's folder"),
        ],
    )
    def test_refusals(
        self,
        small_hub: SmallHub,
        client: HuggingFace,
        status: int,
        code: str,
        kind: type[SpeculateError],
        told: str,
    ) -> None:
        small_hub.status, small_hub.error_code = status, code
        with pytest.raises(kind) as raised:
            ensure_snapshot(REPO, no_progress, never, client)
        assert REPO in raised.value.message
        assert told in str(raised.value.hint)

    def test_nobody_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(DownloadError) as raised:
            ensure_snapshot(REPO, no_progress, never, HuggingFace("http://127.0.0.1:9", tmp_path))
        assert "\n" not in raised.value.message
        assert "copy the model's folder" in str(raised.value.hint)

    def test_offline_mode(self, client: HuggingFace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(DownloadError, match="offline mode") as raised:
            ensure_snapshot(REPO, no_progress, never, client)
        assert "HF_HUB_OFFLINE" in str(raised.value.hint)


@dataclass
class FakeHub:
    """A Hub of names and sizes; ``fails`` is raised by every request."""

    sizes: dict[str, int]
    root: Path
    fails: Exception | None = None
    commit: str = COMMIT
    fetched: list[tuple[str, str | None]] = field(default_factory=list)

    def cached(self, repo: str) -> Path | None:
        return None

    def files(self, repo: str, revision: str | None) -> tuple[str, dict[str, int]]:
        if self.fails:
            raise self.fails
        return self.commit, self.sizes

    def download(
        self, repo: str, name: str, revision: str | None, size: int, on_bytes: Callable[[int], None]
    ) -> Path:
        self.fetched.append((name, revision))
        on_bytes(self.sizes[name])
        return self.root / COMMIT / name

    def cache_folder(self) -> Path:
        return self.root / "not" / "yet"


WHOLE = {"config.json": 1, "tokenizer.json": 2, "model.safetensors": 5, "onnx/model.onnx": 9, "tf.h5": 9}


class TestChoice:
    def test_weights_last_and_nothing_else(self, tmp_path: Path) -> None:
        fake = FakeHub(WHOLE, tmp_path)
        ensure_snapshot(REPO, no_progress, never, fake)
        assert fake.fetched == [
            ("config.json", None),
            ("tokenizer.json", COMMIT),
            ("model.safetensors", COMMIT),
        ]

    def test_shards_without_their_copies_in_other_folders(self, tmp_path: Path) -> None:
        shards = {f"model-0000{n}-of-00002.safetensors": 4 for n in (1, 2)}
        sizes = {"config.json": 1, "model.safetensors.index.json": 1, "original/x.safetensors": 8, **shards}
        fake = FakeHub(sizes, tmp_path)
        ensure_snapshot(REPO, no_progress, never, fake)
        assert [name for name, _ in fake.fetched] == ["config.json", "model.safetensors.index.json", *shards]

    @pytest.mark.parametrize(
        ("sizes", "told"),
        [
            ({"config.json": 1, "pytorch_model.bin": 9}, "pickles"),
            ({"m.Q8_0.gguf": 9}, "name that file"),
            ({"config.json": 1, "adapter_model.safetensors": 9}, "whole model"),
            ({}, "whole model"),
        ],
    )
    def test_no_usable_weights(self, sizes: dict[str, int], told: str, tmp_path: Path) -> None:
        with pytest.raises(ModelUnsupported, match=r"no model\.safetensors") as raised:
            ensure_snapshot(REPO, no_progress, never, FakeHub(sizes, tmp_path))
        assert told in str(raised.value.hint)

    def test_no_room(self, tmp_path: Path) -> None:
        with pytest.raises(DiskError, match="no room"):
            ensure_snapshot(
                REPO, no_progress, never, FakeHub(WHOLE | {"model.safetensors": 10**18}, tmp_path)
            )

    def test_the_branch_moved_meanwhile(self, tmp_path: Path) -> None:
        with pytest.raises(DownloadError, match="changed"):
            ensure_snapshot(REPO, no_progress, never, FakeHub(WHOLE, tmp_path, commit="other"))

    def test_cancelled_before_the_first_byte(self, tmp_path: Path) -> None:
        fake = FakeHub(WHOLE, tmp_path)
        with pytest.raises(Cancelled):
            ensure_snapshot(REPO, no_progress, lambda: True, fake)
        assert fake.fetched == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(28, "No space left on device"), DiskError),
        (PermissionError(13, "Permission denied"), DiskError),
        (ConnectionResetError("reset"), DownloadError),
        (TimeoutError("slow"), DownloadError),
        (hub_errors.LocalEntryNotFoundError("not there"), DownloadError),
        (hub_errors.HFValidationError("two\nlines"), ModelNotFound),
    ],
)
def test_other_errors(error: Exception, kind: type[SpeculateError], tmp_path: Path) -> None:
    with pytest.raises(kind) as raised:
        ensure_snapshot(REPO, no_progress, never, FakeHub(WHOLE, tmp_path, fails=error))
    assert raised.value.__cause__ is error
    assert "\n" not in raised.value.message


def test_half_a_model_in_the_cache_is_completed(
    small_hub: SmallHub, client: HuggingFace, tmp_path: Path
) -> None:
    snapshot = ensure_snapshot(REPO, no_progress, never, client)
    (snapshot / "model.safetensors").unlink()
    shutil.rmtree(tmp_path / "cache" / "models--org--tiny" / "blobs", ignore_errors=True)
    assert ensure_snapshot(REPO, no_progress, never, client) == snapshot
    assert (snapshot / "model.safetensors").is_file()
