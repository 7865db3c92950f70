"""Models that take a while to come by, loaded once a session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from engine.models.causal_lm import CausalLM

BUILTIN = "builtin:smollm2-135m"

if "PYTEST_XDIST_WORKER" in os.environ:
    # Tests run side by side, and threads that wait for a core of another one's would hold all of them up. Set
    # before torch is imported, and for every process that a test starts.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keys, conversations, bookmarks and logs of whoever runs the tests are neither read nor written."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture(scope="session")
def builtin_lm() -> CausalLM:
    """The built-in model in float32."""
    from engine.models.load import load_model

    return load_model(BUILTIN, device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def cut_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model folder: 8 of the built-in model's 30 layers. 230 MB, so it goes again at the end."""
    from engine.bench.cut import LAYERS, cut_layers
    from engine.models.load import describe

    folder = tmp_path_factory.mktemp("models") / "cut"
    yield cut_layers(describe(BUILTIN).folder.path, folder, LAYERS)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def cut_lm(cut_folder: Path) -> CausalLM:
    """The cut in float32."""
    from engine.models.load import load_model

    return load_model(str(cut_folder), device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny random model."""
    from support.tiny import save_folder, tiny_model, tiny_tokenizer

    return str(save_folder(tmp_path_factory.mktemp("target"), tiny_model("llama"), tiny_tokenizer()))


@pytest.fixture(scope="session")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model that agrees with ``target`` now and then."""
    from support.tiny import noisy_copy, save_folder, tiny_model, tiny_tokenizer

    noisy = noisy_copy(tiny_model("llama"), 0.1)
    return str(save_folder(tmp_path_factory.mktemp("drafter"), noisy, tiny_tokenizer()))
